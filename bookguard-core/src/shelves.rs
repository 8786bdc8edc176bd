//! What this node remembers of partners' policies, so that recording a booking need not ask the store for them.
//!
//! Nothing tells a node what other nodes wrote. So what is remembered is only ever a proposal: a booking prepared from it
//! names the shelf, and the writer, which sees the partner's row, refuses it as outdated when that shelf is not the
//! partner's any more ([`crate::error::Error::outdated`]). Invariant: forgetting anything at any time changes no answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::model::PartnerId;
use crate::policy::Shelf;

/// The shelves remembered.
#[derive(Default)]
pub(crate) struct Shelves(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    by_partner: HashMap<PartnerId, Arc<Shelf>>,
    /// Policies on all of them.
    policies: usize,
}

impl Shelves {
    /// What is remembered of this partner.
    pub fn get(&self, partner_id: &PartnerId) -> Option<Arc<Shelf>> {
        self.remembered().by_partner.get(partner_id).cloned()
    }

    /// Remembers a shelf as it was just read.
    pub fn keep(&self, partner_id: PartnerId, shelf: &Arc<Shelf>) {
        let mut remembered = self.remembered();
        let full = remembered.by_partner.len() >= limits::SHELVES
            || remembered.policies + shelf.policies.len() > limits::SHELVED_POLICIES;
        if full {
            *remembered = Remembered::default();
        }
        let before = remembered.by_partner.insert(partner_id, Arc::clone(shelf));
        let gone = before.map_or(0, |before| before.policies.len());
        remembered.policies = remembered.policies + shelf.policies.len() - gone;
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

    fn shelf(policies: usize) -> Arc<Shelf> {
        let policy = Policy::template_for_event_type("concert");
        let named = (0..policies).map(|n| (n.to_string(), policy.clone()));
        Arc::new(Shelf {
            policies: named.collect(),
            ..Shelf::default()
        })
    }

    #[test]
    fn the_latest_kept_is_what_is_remembered() {
        let shelves = Shelves::default();
        assert_eq!(shelves.get(&partner(1)), None);
        shelves.keep(partner(1), &shelf(3));
        shelves.keep(partner(1), &shelf(2));
        shelves.keep(partner(2), &shelf(0));
        assert_eq!(shelves.get(&partner(1)), Some(shelf(2)));
        assert_eq!(shelves.remembered().policies, 2);
    }

    #[test]
    fn what_is_remembered_is_bounded_in_partners_and_in_policies() {
        let shelves = Shelves::default();
        for n in 0..limits::SHELVES + 5 {
            shelves.keep(partner(n), &shelf(0));
            assert!(shelves.remembered().by_partner.len() <= limits::SHELVES);
            assert!(shelves.get(&partner(n)).is_some());
        }
        for n in 0..200 {
            shelves.keep(partner(n), &shelf(limits::POLICIES_PER_PARTNER));
            let remembered = shelves.remembered();
            let held = remembered.by_partner.values().map(|s| s.policies.len());
            assert_eq!(remembered.policies, held.sum::<usize>());
            assert!(remembered.policies <= limits::SHELVED_POLICIES);
        }
    }
}
