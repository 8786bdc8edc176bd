//! Knows which nodes are alive, so that others deliver what a dead node held within seconds, long before its leases
//! end.
//!
//! The database's server knows first, because a node's connection ends with the node. An engine with such a server
//! keeps a [`NodeRegistry`], to which nothing is written. A node that is missed for [`GONE_AFTER`] counts as gone. A
//! wrong guess costs only a duplicate delivery: leases fence off a node that was merely out of reach.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::lease::Node;
use crate::store::{LiveNode, NodeRegistry, StoreError};

/// How long a node is missed before it counts as gone. After a failover every node is missed until it reconnects.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// How long this node may assume that others see it after its last call to the registry.
const SURE: Duration = Duration::from_millis(1_500);
/// How often to look for lease holders while no node is missed.
const LOOK_ANYWAY: Duration = Duration::from_secs(10);

/// This node among the others.
pub(crate) struct Presence {
    own: Node,
    /// When this node last called the registry. Leases taken while nobody could see this node name no holder, so that
    /// others do not mistake them for the leases of a dead node.
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
    /// Starts as not present. Without a registry it stays so, and leases are taken back only when they end.
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

    /// The holder of leases taken from now on; `None` if nobody would notice that this node ended.
    pub(crate) fn holder(&self) -> Option<Node> {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered
            .is_some_and(|at| at.elapsed() < SURE)
            .then_some(self.own)
    }

    /// This node.
    pub(crate) fn own(&self) -> Node {
        self.own
    }

    /// The nodes present, perhaps without this one; `None` without a registry.
    pub(crate) fn nodes(&self) -> Result<Option<Vec<LiveNode>>, StoreError> {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = looking.registry.as_mut();
        registry.map(|registry| registry.nodes()).transpose()
    }

    /// Registers this node and returns the nodes that are gone and held leases. `holders` returns the nodes that hold
    /// leases. Returns `None` without a registry.
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
        if watch.looked.is_some() {
            let came = present.difference(&watch.present);
            for node in came.filter(|node| **node != self.own) {
                tracing::info!(%node, "node {node} has joined");
            }
            for node in watch.present.difference(&present) {
                tracing::info!(
                    %node,
                    "node {node} has ended, or has lost its connection to the database"
                );
            }
        }
        // Read after the call: a node that holds leases was registered before it took them.
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
