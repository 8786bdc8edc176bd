//! A partner's own policies and what it decides for its bookings.
//!
//! Versions are numbered here and nowhere else, in the order of their commits, because a version is part of what its hash
//! is of. Invariants: a version never changes and never goes; a default names a policy that exists; an id of the library
//! means the library's policy, unless the partner had one of that id before the library did.

use crate::batch::{BatchState, LatestPolicy, PartnerState};
use crate::change::Change;
use crate::command::{Command, Decided, DefaultPolicy, KeptPolicy, PartnerUpdate};
use crate::error::{Error, FieldError};
use crate::input::shorten;
use crate::limits;
use crate::model::{PartnerAccount, PartnerSettings, Timestamp};
use crate::needs::Needs;
use crate::ops::partners::UpdatePartner;
use crate::ops::policies::{PolicyVersion, PutPolicy};
use crate::policy::{Policy, fix_for};

impl Command for PutPolicy {
    type Reply = PolicyVersion;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.policy_owners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PolicyVersion> {
        let partner = batch
            .active_partner(&self.partner_id)
            .ok_or_else(|| Error::not_found("partner"))?;
        let policy = &self.policy;
        let document = policy.document();
        let latest = partner.policies.get(&document.policy_id);
        // Before anything else: whoever repeats what was done gets the same answer.
        if let Some(same) = latest.and_then(|latest| said_again(policy, latest)) {
            return Ok((Vec::new(), self.told(same)));
        }
        if latest.is_none() {
            may_begin(partner, &document.policy_id)?;
        }
        let number = latest.map_or(0, |latest| latest.version);
        if self.version_said && !(number..=number.saturating_add(1)).contains(&document.version) {
            return Err(other_version(&document.policy_id, document.version, number));
        }
        let versions = partner.edition.versions;
        if versions >= limits::POLICY_VERSIONS_PER_PARTNER {
            return Err(Error::conflict(
                "too_many_policy_versions",
                format!(
                    "The partner has put {} versions of policies, the most allowed. Versions are kept for good; name one of those there are.",
                    versions
                ),
            ));
        }
        let kept = KeptPolicy {
            policy: policy.as_version(number.saturating_add(1)),
            made_at: at,
        };
        let added = Change::PolicyAdded {
            partner_id: self.partner_id,
            kept: Box::new(kept.clone()),
            versions: versions + 1,
        };
        Ok((vec![added], self.told(kept)))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

impl PutPolicy {
    fn told(&self, kept: KeptPolicy) -> PolicyVersion {
        PolicyVersion::of(kept, self.english.clone(), self.warnings.clone())
    }
}

/// The latest version, when it says the same. A hash is of everything that is said, the version included.
fn said_again(policy: &Policy, latest: &LatestPolicy) -> Option<KeptPolicy> {
    let policy = policy.as_version(latest.version);
    (policy.hash() == latest.hash).then_some(KeptPolicy {
        policy,
        made_at: latest.made_at,
    })
}

/// Whether the partner may have a first version of a policy with this id.
fn may_begin(partner: &PartnerState, policy_id: &str) -> Result<(), Error> {
    if Policy::template(policy_id).is_some() {
        return Err(Error::conflict(
            "policy_id_reserved",
            format!(
                "\"{policy_id}\" is a policy of the library, and bookings that name it mean that one. Put yours under an id of its own, such as \"my-{policy_id}\"."
            ),
        ));
    }
    if partner.policies.len() >= limits::POLICIES_PER_PARTNER {
        return Err(Error::conflict(
            "too_many_policies",
            format!(
                "The partner has {} policies, the most allowed. Put a new version of one of them.",
                partner.policies.len()
            ),
        ));
    }
    Ok(())
}

fn other_version(policy_id: &str, said: u32, latest: u32) -> Error {
    let message = match latest {
        0 => format!(
            "Version {said} of policy \"{policy_id}\" was sent, which has no version yet. Send version 1, or leave it out."
        ),
        _ => format!(
            "Version {said} of policy \"{policy_id}\" was sent, whose latest is {latest}: somebody may have changed it meanwhile. \
             Read the latest, and send your change with version {latest} or without."
        ),
    };
    Error::conflict("policy_version_conflict", message)
}

impl Command for UpdatePartner {
    type Reply = PartnerAccount;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.policy_owners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PartnerAccount> {
        let partner = batch
            .active_partner(&self.partner_id)
            .ok_or_else(|| Error::not_found("partner"))?;
        let settings = updated(partner, &self.update)?;
        let mut shown = partner.partner.clone();
        let changes = match settings == shown.settings {
            true => Vec::new(),
            false => vec![Change::PartnerDecided {
                partner_id: self.partner_id,
                settings: Box::new(settings.clone()),
            }],
        };
        shown.settings = settings;
        let account = PartnerAccount {
            partner: shown,
            quota: batch.quota_of(partner, at),
        };
        Ok((changes, account))
    }
}

fn updated(partner: &PartnerState, update: &PartnerUpdate) -> Result<PartnerSettings, Error> {
    let mut settings = partner.partner.settings.clone();
    let mut faults = Vec::new();
    for default in &update.default_policies {
        match &default.policy_id {
            None => drop(settings.default_policies.remove(&default.event_type)),
            Some(id) if partner.policies.contains_key(id) || Policy::template(id).is_some() => {
                settings
                    .default_policies
                    .insert(default.event_type.clone(), id.clone());
            }
            Some(id) => faults.push(unknown(partner, default, id)),
        }
    }
    let defaults = settings.default_policies.len();
    if defaults > limits::DEFAULT_POLICIES {
        faults.push(FieldError {
            pointer: "/defaultPolicies".to_owned(),
            code: "too_many".to_owned(),
            message: format!(
                "would make {defaults} defaults; at most {} are allowed",
                limits::DEFAULT_POLICIES
            ),
            fix: "Remove some by sending null for them; \"*\" is the default of every other event type.".to_owned(),
        });
    }
    if let Some(zone) = &update.time_zone {
        settings.time_zone.clone_from(zone);
    }
    match faults.is_empty() {
        true => Ok(settings),
        false => Err(Error::faults(faults)),
    }
}

fn unknown(partner: &PartnerState, default: &DefaultPolicy, policy_id: &str) -> FieldError {
    FieldError {
        pointer: format!("/defaultPolicies/{}", pointed(&default.said)),
        code: "policy_unknown".to_owned(),
        message: format!("there is no policy \"{}\"", shorten(policy_id)),
        fix: fix_for(policy_id, partner.policies.keys().map(String::as_str)),
    }
}

/// A name in a JSON pointer (RFC 6901 section 3).
fn pointed(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
