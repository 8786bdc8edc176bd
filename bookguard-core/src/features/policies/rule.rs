//! A partner's own policies.
//!
//! Versions are numbered only here, in the order of their commits, because the hash covers the version. Invariants: a
//! version never changes and is never deleted; a default names a policy that exists; an id of the library means the
//! library's policy, unless the partner had a policy of that id before the library did.

use crate::engine::batch::{BatchState, LatestPolicy, PartnerState};
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided, KeptPolicy};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::features::policies::{PolicyVersion, PutPolicy};
use crate::limits;
use crate::model::Timestamp;
use crate::policy::Policy;

impl Command for PutPolicy {
    type Reply = PolicyVersion;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.policy_owners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PolicyVersion> {
        let partner = batch.active_partner(&self.partner_id)?;
        let policy = &self.policy;
        let document = policy.document();
        let latest = partner.policies.get(&document.policy_id);
        // Checked first, so that a repeated request gets the same answer.
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
        let versions = partner.policy_set_version.versions;
        if versions >= limits::POLICY_VERSIONS_PER_PARTNER {
            return Err(conflict!(
                "too_many_policy_versions",
                "The partner has put {versions} versions of policies, the most allowed. Versions are kept for good; name an \
                 existing one."
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

    fn refused_from(&self) -> u64 {
        limits::POLICIES_UNTIL
    }
}

impl PutPolicy {
    fn told(&self, kept: KeptPolicy) -> PolicyVersion {
        PolicyVersion::of(kept, self.english.clone(), self.warnings.clone())
    }
}

/// The latest version, if the policy has the same content. A hash covers everything in the policy, the version included.
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
        return Err(conflict!(
            "policy_id_reserved",
            "\"{policy_id}\" is a policy of the library, and bookings that name it get that one. Put yours under an id of its own, such as \"my-{policy_id}\"."
        ));
    }
    if partner.policies.len() >= limits::POLICIES_PER_PARTNER {
        return Err(conflict!(
            "too_many_policies",
            "The partner has {} policies, the most allowed. Put a new version of one of them.",
            partner.policies.len()
        ));
    }
    Ok(())
}

fn other_version(policy_id: &str, said: u32, latest: u32) -> Error {
    let message = match (latest, said) {
        (0, _) => format!(
            "Version {said} of policy \"{policy_id}\" was sent, which has no version yet. Send version 1, or leave it out."
        ),
        (_, 0) => format!(
            "There is a policy \"{policy_id}\" already, whose latest version is {latest}: version 0 was sent, for a new one. Choose another id, \
             or read that policy, and send your change with version {latest} or without."
        ),
        _ => format!(
            "Version {said} of policy \"{policy_id}\" was sent, whose latest is {latest}: somebody may have changed it in the \
             meantime. Read the latest, and send your change with version {latest} or without."
        ),
    };
    Error::conflict("policy_version_conflict", message)
}

#[cfg(test)]
mod tests;
