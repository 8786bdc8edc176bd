//! Which nodes are alive, so that others deliver what a dead node held within seconds, long before its leases end.
//!
//! The database's server knows first, because a node's connection ends with it; an engine that has such a server keeps
//! a [`NodeRegistry`]. Nothing is written for it. A node that is missed for [`GONE_AFTER`] counts as gone. A wrong guess costs a
//! second delivery and nothing else: leases fence what a node does that was only out of reach.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::lease::Node;
use crate::store::{NodeRegistry, StoreError};

/// How long a node is missed before it counts as gone: after a failover everybody is missed until they are back.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// How long this node counts as there, as far as it knows, after it has answered to its name.
const SURE: Duration = Duration::from_millis(1_500);
/// How often to ask who holds leases while nobody is missed.
const LOOK_ANYWAY: Duration = Duration::from_secs(10);

/// This node among the others.
pub(crate) struct Presence {
    own: Node,
    /// When this node last answered to its name. Leases it takes while nobody could see it are in nobody's name, so that
    /// others do not take them for those of a node that is gone.
    answered: Mutex<Option<Instant>>,
    looking: Mutex<Looking>,
}

struct Looking {
    registry: Option<Box<dyn NodeRegistry>>,
    watch: Watch,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
struct Watch {
    present: BTreeSet<Node>,
    missed: BTreeMap<Node, Instant>,
    looked: Option<Instant>,
}

impl Presence {
    /// Not there yet. Without a roll it never will be: then leases are taken back when they end.
    pub(crate) fn new(registry: Option<Box<dyn NodeRegistry>>) -> Self {
        Self {
            own: Node::draw(),
            answered: Mutex::new(None),
            looking: Mutex::new(Looking {
                registry,
                watch: Watch::default(),
            }),
        }
    }

    /// Who holds the leases that are taken from now on; `None` when nobody would notice that holder's end.
    pub(crate) fn holder(&self) -> Option<Node> {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered
            .is_some_and(|at| at.elapsed() < SURE)
            .then_some(self.own)
    }

    /// How many nodes are there, which need not include this one; `None` where there is no list of nodes.
    pub(crate) fn count(&self) -> Result<Option<usize>, StoreError> {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let present = looking.registry.as_mut().map(|registry| registry.present());
        Ok(present.transpose()?.map(|nodes| nodes.len()))
    }

    /// Answers to this node's name, and says which nodes are gone that held leases; `holders` asks who holds any. `None`
    /// where there is no list of nodes.
    pub(crate) fn look(
        &self,
        holders: impl FnOnce() -> Result<BTreeSet<Node>, StoreError>,
    ) -> Result<Option<Vec<Node>>, StoreError> {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let Looking { registry, watch } = &mut *looking;
        let Some(registry) = registry else {
            return Ok(None);
        };
        let called = Instant::now();
        let present = registry.call(self.own)?;
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(called);
        let now = Instant::now();
        if !watch.wants_look(now, &present) {
            return Ok(Some(Vec::new()));
        }
        // Asked after the call: whoever holds leases had answered before it took them.
        Ok(Some(watch.note(now, present, &holders()?)))
    }
}

impl Watch {
    fn wants_look(&self, now: Instant, present: &BTreeSet<Node>) -> bool {
        let overdue = |looked: Instant| now.duration_since(looked) >= LOOK_ANYWAY;
        self.looked.is_none_or(overdue)
            || !self.missed.is_empty()
            || !self.present.is_subset(present)
    }

    fn note(
        &mut self,
        now: Instant,
        present: BTreeSet<Node>,
        holders: &BTreeSet<Node>,
    ) -> Vec<Node> {
        let absent = holders.difference(&present);
        self.missed = absent
            .map(|node| (*node, self.missed.get(node).copied().unwrap_or(now)))
            .collect();
        self.present = present;
        self.looked = Some(now);
        let gone = |since: Instant| now.duration_since(since) >= GONE_AFTER;
        let missed = self.missed.iter().filter(|(_, since)| gone(**since));
        missed.map(|(node, _)| *node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: &[i64]) -> BTreeSet<Node> {
        numbers.iter().filter_map(|n| Node::of(*n)).collect()
    }

    #[test]
    fn a_node_missed_long_enough_is_gone_while_it_holds_something() {
        let mut watch = Watch::default();
        let start = Instant::now();
        let mut look = |ms: u64, present: &[i64], holders: &[i64]| -> Option<Vec<u32>> {
            let (now, present) = (start + Duration::from_millis(ms), nodes(present));
            watch.wants_look(now, &present).then(|| {
                let gone = watch.note(now, present, &nodes(holders));
                gone.into_iter().map(Node::number).collect()
            })
        };
        let nobody = Some(vec![]);
        assert_eq!(look(0, &[1, 2], &[1, 2]), nobody, "the first look is one");
        assert_eq!(look(1_000, &[1, 2], &[]), None, "all are there");
        assert_eq!(look(2_000, &[1, 2, 3], &[]), None, "and one more");
        assert_eq!(look(3_000, &[1], &[1, 2]), nobody, "missed a moment");
        assert_eq!(look(4_999, &[1], &[1, 2]), nobody, "not long enough");
        assert_eq!(look(5_000, &[1], &[1, 2]), Some(vec![2]));
        assert_eq!(
            look(5_100, &[1], &[2]),
            Some(vec![2]),
            "more than one command takes back"
        );
        assert_eq!(look(5_200, &[1], &[1]), nobody, "all of it");
        assert_eq!(look(5_300, &[1], &[2]), None);
        assert_eq!(look(15_199, &[1], &[9]), None);
        assert_eq!(
            look(15_200, &[1], &[9]),
            nobody,
            "one that was never seen here"
        );
        assert_eq!(look(16_200, &[1, 9], &[9]), nobody, "and comes back");
        assert_eq!(look(17_200, &[1], &[9]), nobody, "is missed anew");
        assert_eq!(look(19_200, &[1], &[9]), Some(vec![9]));
    }
}
