//! A cache of partners' policy sets, so that recording a booking need not read them from the store.
//!
//! A node does not learn what other nodes write. So a cached set is only a proposal: a booking prepared from it names the
//! set, and the writer, which sees the partner's row, refuses it as outdated if the set is no longer the partner's
//! ([`crate::error::Error::outdated`]). Invariant: evicting anything at any time changes no answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::model::PartnerId;
use crate::policy::PolicySet;

/// The cached policy sets.
#[derive(Default)]
pub(crate) struct PolicyCache(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    by_partner: HashMap<PartnerId, Arc<PolicySet>>,
    /// Number of policies in all of them.
    policies: usize,
}

impl PolicyCache {
    /// The cached set of this partner.
    pub fn get(&self, partner_id: &PartnerId) -> Option<Arc<PolicySet>> {
        self.remembered().by_partner.get(partner_id).cloned()
    }

    /// Caches a policy set that was just read.
    pub fn keep(&self, partner_id: PartnerId, policy_set: &Arc<PolicySet>) {
        let mut remembered = self.remembered();
        let full = remembered.by_partner.len() >= limits::CACHED_POLICY_SETS
            || remembered.policies + policy_set.policies.len() > limits::CACHED_POLICIES;
        if full {
            *remembered = Remembered::default();
        }
        let before = remembered
            .by_partner
            .insert(partner_id, Arc::clone(policy_set));
        let gone = before.map_or(0, |before| before.policies.len());
        remembered.policies = remembered.policies + policy_set.policies.len() - gone;
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use crate::policy::Policy;

    fn partner(n: usize) -> PartnerId {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&n.to_be_bytes());
        PartnerId::new(Timestamp::EPOCH, random)
    }

    fn policy_set(policies: usize) -> Arc<PolicySet> {
        let policy = Policy::template_for_event_type("concert");
        let named = (0..policies).map(|n| (n.to_string(), policy.clone()));
        Arc::new(PolicySet {
            policies: named.collect(),
            ..PolicySet::default()
        })
    }

    #[test]
    fn the_latest_kept_is_what_is_remembered() {
        let policy_cache = PolicyCache::default();
        assert_eq!(policy_cache.get(&partner(1)), None);
        policy_cache.keep(partner(1), &policy_set(3));
        policy_cache.keep(partner(1), &policy_set(2));
        policy_cache.keep(partner(2), &policy_set(0));
        assert_eq!(policy_cache.get(&partner(1)), Some(policy_set(2)));
        assert_eq!(policy_cache.remembered().policies, 2);
    }

    #[test]
    fn what_is_remembered_is_bounded_in_partners_and_in_policies() {
        let policy_cache = PolicyCache::default();
        for n in 0..limits::CACHED_POLICY_SETS + 5 {
            policy_cache.keep(partner(n), &policy_set(0));
            assert!(policy_cache.remembered().by_partner.len() <= limits::CACHED_POLICY_SETS);
            assert!(policy_cache.get(&partner(n)).is_some());
        }
        for n in 0..200 {
            policy_cache.keep(partner(n), &policy_set(limits::POLICIES_PER_PARTNER));
            let remembered = policy_cache.remembered();
            let held = remembered.by_partner.values().map(|s| s.policies.len());
            assert_eq!(remembered.policies, held.sum::<usize>());
            assert!(remembered.policies <= limits::CACHED_POLICIES);
        }
    }
}
