//! A policy: the normalised document, its canonical text and its hash.
//!
//! Normalised means that every default is written out, so equal rules have equal hashes, even if an author leaves defaults out.
//! Invariant: a [`Policy`] exists only after every rule on its text was checked, and it never changes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::duration::{Duration, TimeOfDay};
use super::outcome::{Basis, FixedAmount, Outcome, Rounding, Split, share};
use super::read::Written;
use super::rule::Rule;
use super::templates;
use super::zone::Zone;
use crate::error::Error;
use crate::input::{self, Form};
use crate::ledger::jcs;
use crate::model::{Currency, digest, vocabulary};

/// A cancellation policy. A clone shares the document.
#[derive(Debug, Clone)]
pub struct Policy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    document: Document,
    identity: OnceLock<Identity>,
}

/// The canonical text and the hash; computed when first needed.
#[derive(Debug)]
struct Identity {
    canonical: String,
    hash: String,
}

/// The contents of a policy, with all defaults. Its JSON is the normalised form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// 1 to 64 of `a-z 0-9 _ -`.
    pub policy_id: String,
    /// Counts from 1.
    pub version: u32,
    /// For people, up to 120 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The IANA zone used when the booking has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Zone>,
    /// When an event with a bare date starts.
    pub anchor_time: TimeOfDay,
    /// How shares are rounded.
    pub rounding: Rounding,
    /// How long after the event's start a cancellation may still be claimed.
    pub claim_window: Duration,
    /// How far `effectiveAt` may lie before receipt without a comparison of the rules at both instants; elapsed time only.
    pub backdate_tolerance: Duration,
    /// The grace period after booking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Grace>,
    /// The deposit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deposit: Option<Deposit>,
    /// The organizer's rules.
    pub organizer: OrganizerRules,
    /// The talent's rules.
    pub talent: TalentRules,
    /// The platform's rule.
    pub partner: PartnerRules,
    /// The rule for force majeure.
    pub force_majeure: ForceMajeure,
    /// What a change of date does to a step already reached.
    pub reschedule: Reschedule,
    /// The currency of the fixed amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<Currency>,
}

/// A period after booking in which canceling is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Grace {
    /// How long after the booking was created.
    pub within: Duration,
    /// How far ahead of the event it must have been created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_notice: Option<Duration>,
}

/// The deposit: a share of the value or a fixed amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Deposit {
    /// How much.
    #[serde(flatten)]
    pub size: DepositSize,
    /// Whether it is kept under each of the organizer's own rules.
    pub non_refundable: bool,
}

/// How large a deposit is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum DepositSize {
    /// Basis points of the value, 0 to 10,000.
    Bps(u16),
    /// A fixed amount, at most the value.
    Amount(FixedAmount),
}

/// The rules for the organizer, who booked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct OrganizerRules {
    /// From the earliest deadline to the latest.
    pub tiers: Vec<Tier>,
    /// After the last tier, until the event starts.
    pub late: Outcome,
    /// From the start on.
    pub no_show: Outcome,
}

/// One step of the organizer's schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Tier {
    /// How far ahead of the event its deadline lies.
    pub before: Duration,
    /// The deadline's local time on that day, if it differs from the event's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutoff_time: Option<TimeOfDay>,
    /// What it costs up to the deadline.
    pub outcome: Outcome,
}

/// The rules for the talent, who is booked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct TalentRules {
    /// Canceling, at any time.
    pub cancel: Outcome,
    /// Not coming.
    pub no_show: Outcome,
}

/// The rule for the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct PartnerRules {
    /// Canceling, at any time.
    pub cancel: Outcome,
}

/// The rule for force majeure: events that nobody could prevent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct ForceMajeure {
    /// What it costs, no matter who cancels.
    pub outcome: Outcome,
    /// Whether a person decides a claim without evidence.
    pub requires_evidence: bool,
}

/// What a change of date does to a step already reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Reschedule {
    /// Whether the step stays.
    pub floor: Floor,
}

vocabulary! {
    /// Whether a step reached before a change of date stays.
    Floor {
        /// The penalty reached is the minimum from then on.
        KeepReachedTier = "keep_reached_tier",
        /// The new date starts without it.
        Reset = "reset",
    }
}

impl Document {
    /// The outcome of a rule; `None` for an agreement and for a tier that does not exist. Grace is a full refund.
    pub fn outcome(&self, rule: Rule) -> Option<&Outcome> {
        match rule {
            Rule::Grace => self.grace.as_ref().map(|_| &Outcome::FULL_REFUND),
            Rule::Tier(index) => {
                let tier = self.organizer.tiers.get(usize::from(index));
                tier.map(|tier| &tier.outcome)
            }
            Rule::Late => Some(&self.organizer.late),
            Rule::OrganizerNoShow => Some(&self.organizer.no_show),
            Rule::TalentCancel => Some(&self.talent.cancel),
            Rule::TalentNoShow => Some(&self.talent.no_show),
            Rule::PartnerCancel => Some(&self.partner.cancel),
            Rule::ForceMajeure => Some(&self.force_majeure.outcome),
            Rule::Mutual => None,
        }
    }

    /// The basis of shares of `value` minor units.
    pub fn basis(&self, value: i64) -> Basis {
        let deposit = match self.deposit.as_ref().map(|deposit| &deposit.size) {
            None => 0,
            Some(DepositSize::Bps(bps)) => share(value, *bps, self.rounding),
            Some(DepositSize::Amount(fixed)) => fixed.minor().min(value),
        };
        Basis {
            value,
            deposit,
            rounding: self.rounding,
        }
    }

    /// Whether any amount is fixed, so that the policy works for its own currency only.
    pub fn has_fixed_amounts(&self) -> bool {
        let deposit = self.deposit.as_ref().map(|deposit| &deposit.size);
        let organizer = &self.organizer;
        let tiers = organizer.tiers.iter().map(|tier| &tier.outcome);
        let outcomes = tiers.chain([
            &organizer.late,
            &organizer.no_show,
            &self.talent.cancel,
            &self.talent.no_show,
            &self.partner.cancel,
            &self.force_majeure.outcome,
        ]);
        let mut splits = outcomes.flat_map(Outcome::splits);
        matches!(deposit, Some(DepositSize::Amount(_)))
            || splits.any(|split| matches!(split, Split::Penalty(_)))
    }
}

impl Policy {
    /// Wraps a document whose rules were checked.
    pub(super) fn new(document: Document) -> Self {
        Self(Arc::new(Inner {
            document,
            identity: OnceLock::new(),
        }))
    }

    /// Reads a policy from a form, as an author writes it. Records every fault; `None` when there is any.
    ///
    /// Faults: those of `input`, and `bad_policy_id`, `bad_duration`, `bad_time`, `time_zone_unknown`, `currency_*`,
    /// `policy_currency_missing`, `bad_amount`, `amount_*`, `bad_outcome`, `bad_deposit`, `tiers_not_ordered`,
    /// `quotation_mark`.
    pub(crate) fn read(form: &mut Form<'_, '_>) -> Option<Self> {
        super::read::document(form, None, Written::Now).map(Self::new)
    }

    /// Does the same as [`Policy::read`] for a policy whose id is known: the text may leave the id out, but not give another. Version 0
    /// is allowed: there is none yet.
    ///
    /// Further faults: `policy_id_mismatch`.
    pub(crate) fn read_as(form: &mut Form<'_, '_>, policy_id: &str) -> Option<Self> {
        super::read::document(form, Some(policy_id), Written::Now).map(Self::new)
    }

    /// The same rules under another version.
    #[must_use]
    pub fn as_version(&self, version: u32) -> Self {
        let document = self.document();
        if document.version == version {
            return self.clone();
        }
        Self::new(Document {
            version,
            ..document.clone()
        })
    }

    /// Reads a policy from its JSON text: one that was stored or disclosed, or an author's whose name the service may still
    /// refuse.
    ///
    /// # Errors
    /// Every fault of the text, by JSON pointer with its fix.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let read = |form: &mut Form<'_, '_>| super::read::document(form, None, Written::Before);
        input::read(text.as_bytes(), read).map(Self::new)
    }

    /// The contents of the policy.
    pub fn document(&self) -> &Document {
        &self.0.document
    }

    /// RFC 8785 text of the normalised document: the bytes that are hashed.
    pub fn canonical_json(&self) -> &str {
        &self.identity().canonical
    }

    /// `sha256:` and the hex digest of the canonical text.
    pub fn hash(&self) -> &str {
        &self.identity().hash
    }

    fn identity(&self) -> &Identity {
        self.0.identity.get_or_init(|| {
            let canonical = serde_json_canonicalizer::to_string(&self.0.document)
                .expect("a document holds only text, whole numbers, booleans and lists of them");
            let hash = digest::of(&canonical);
            Identity { canonical, hash }
        })
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.document == other.0.document
    }
}

impl Eq for Policy {}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.document.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Policy {
    /// Uses [`Policy::from_json`], so stored and disclosed policies obey the same rules as new ones, but for those on words.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = jcs::deserialize(deserializer)?;
        if let Some(policy) = templates::known(&value) {
            return Ok(policy.clone());
        }
        Self::from_json(&value.to_string()).map_err(serde::de::Error::custom)
    }
}
