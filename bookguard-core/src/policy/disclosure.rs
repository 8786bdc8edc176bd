//! The terms of a booking in words, to be shown to those who accept them, and the hash of this text.
//!
//! A pure function of frozen terms, of what was reached before the event was moved, and of the wording: it uses no clock and no time
//! zone tables. Invariant: the same terms in the same wording give the same text forever, byte for byte. A change of words is a new
//! [`DisclosureWording`], and the old ones stay, because texts in them were accepted.

use chrono::{NaiveDateTime, TimeDelta};
use serde::{Deserialize, Serialize};

use super::document::Document;
use super::evaluate::inconsistent;
use super::reschedule::{PastReschedule, reached};
use super::rule::Rule;
use super::settlement::{Settled, Stakes};
use super::terms::{Adopted, Terms};
use super::words::PolicySource;
use crate::error::Error;
use crate::model::{Timestamp, digest};

mod first;
mod second;

pub(super) use second::backdating;

/// The version of the latest wording; the last line of every text names its own.
pub const DISCLOSURE_VERSION: &str = "bookguard-disclosure-2";

/// A wording of the terms. Each stays as it is, so that texts that were accepted can be written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum DisclosureWording {
    /// `bookguard-disclosure-1`, of 0.1.0.
    First,
    /// `bookguard-disclosure-2`. It says which earlier times of cancellation count, what applies if somebody does not come, who pays what
    /// if the organizer did not pay, until when anything can be claimed, and that an event has no time of day. Its dates are in words.
    Second,
}

impl DisclosureWording {
    /// Every wording, oldest first.
    pub const ALL: &'static [Self] = &[Self::First, Self::Second];

    /// The wording of terms that nobody has accepted yet.
    pub const LATEST: Self = Self::Second;

    /// The wording of this version, if this program knows it.
    #[must_use]
    pub fn of(version: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|one| one.version() == version)
    }

    /// Its version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::First => "bookguard-disclosure-1",
            Self::Second => DISCLOSURE_VERSION,
        }
    }
}

/// A booking's terms in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct TermsDisclosure {
    /// `sha256:` and the hex digest of the text's UTF-8 bytes.
    pub disclosure_hash: String,
    /// The version of the wording.
    pub version: String,
    /// The text, its lines separated by line feeds.
    pub text: String,
}

/// Puts the terms into words, in the latest wording.
///
/// # Errors
/// Those of [`disclose_in`].
pub fn disclose(terms: &Terms, reschedules: &[PastReschedule]) -> Result<TermsDisclosure, Error> {
    disclose_in(DisclosureWording::LATEST, terms, reschedules)
}

/// Puts the terms into words.
///
/// # Errors
/// `currency_mismatch`, if what was reached is in another currency than the booking; `policy_currency_mismatch` and
/// `terms_inconsistent`, which frozen terms never cause.
pub fn disclose_in(
    wording: DisclosureWording,
    terms: &Terms,
    reschedules: &[PastReschedule],
) -> Result<TermsDisclosure, Error> {
    let ruled = match (&terms.policy, terms.stakes()?) {
        (Some(policy), Some(stakes)) => Some(Ruled {
            terms,
            policy,
            reached: reached(&stakes, reschedules)?,
            stakes,
            moves: reschedules.len(),
        }),
        _ => None,
    };
    let lines = match wording {
        DisclosureWording::First => first::lines(terms, ruled.as_ref()),
        DisclosureWording::Second => second::lines(terms, ruled.as_ref()),
    };
    let version = wording.version();
    let text = format!("{}\n\nWording: {version}.", lines?.join("\n"));
    Ok(TermsDisclosure {
        disclosure_hash: digest::of(&text),
        version: version.to_owned(),
        text,
    })
}

/// Terms with a policy: the facts from which its rules are worded.
struct Ruled<'a> {
    terms: &'a Terms,
    policy: &'a Adopted,
    stakes: Stakes<'a>,
    /// What was reached before the event was moved, in minor units; `None` if a person has to decide that.
    reached: Option<i64>,
    /// How often the event was moved.
    moves: usize,
}

impl<'a> Ruled<'a> {
    fn document(&self) -> &'a Document {
        self.stakes.document
    }

    fn settle(&self, rule: Rule) -> Result<Settled<'a>, Error> {
        (self.stakes.settle(rule, self.reached)).ok_or_else(inconsistent)
    }

    /// The sentence that names the policy, the same in every wording.
    fn named(&self) -> String {
        let document = self.document();
        let version = format!(
            "{} version {}, {}",
            document.policy_id, document.version, self.policy.policy_hash
        );
        let named = match &document.name {
            Some(name) => format!("The policy is \"{name}\" ({version})."),
            None => format!("The policy is {version}."),
        };
        match self.policy.policy_source {
            PolicySource::Library => {
                named + " Nobody chose it: it is the service's default for such events."
            }
            _ => named,
        }
    }

    /// How often the event was moved, if it was.
    fn times(&self) -> Option<String> {
        match self.moves {
            0 => None,
            1 => Some("once".to_owned()),
            n => Some(format!("{n} times")),
        }
    }
}

/// An instant in UTC, and on the clock of the terms as it was when they were frozen.
fn clocks(terms: &Terms, instant: Timestamp, step: usize) -> [NaiveDateTime; 2] {
    let utc = instant.floor_to_second().to_utc().naive_utc();
    let local = utc + TimeDelta::seconds(terms.offset(step).into());
    [utc, local]
}
