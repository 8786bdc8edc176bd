//! Names of leases. A name holds the node and a random number. So the leases of a dead node can be found, and a late
//! result can be told from a current one.

use std::fmt;
use std::ops::RangeInclusive;

use crate::entropy;

/// The number of random bits in a lease's name, below those of its node.
const RANDOM_BITS: u32 = 32;

/// A running node, by a random number drawn at its start. It is never 0, and in practice unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Node {
    /// Draws a number that no other node has.
    pub fn draw() -> Self {
        let number = u32::from_le_bytes(entropy::bytes());
        Self((number >> 1).max(1))
    }

    /// The node with this number; `None` if it is not a node's number.
    pub fn of(number: i64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        (1..=u32::MAX >> 1)
            .contains(&number)
            .then_some(Self(number))
    }

    /// The node's number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The range of its leases' names.
    pub fn leases(self) -> RangeInclusive<i64> {
        let first = i64::from(self.0) << RANDOM_BITS;
        first..=first | i64::from(u32::MAX)
    }
}

/// Draws a name for a new lease of this node. Without a node, the holder is a process whose end nobody would notice,
/// and only the end of the lease frees what it held.
pub fn draw(holder: Option<Node>) -> i64 {
    let random = i64::from(u32::from_le_bytes(entropy::bytes()));
    holder.map_or(0, |node| *node.leases().start()) | random
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_says_whose_it_is() {
        let (node, other) = (Node::draw(), Node::draw());
        for _ in 0..100 {
            let lease = draw(Some(node));
            assert!(node.leases().contains(&lease) && lease > 0);
            assert_eq!(Node::of(lease >> RANDOM_BITS), Some(node));
            assert!(node == other || !other.leases().contains(&lease));
            assert_eq!(Node::of(draw(None) >> RANDOM_BITS), None);
        }
    }

    #[test]
    fn a_node_has_a_number_that_fits_a_lease() {
        for (number, fits) in [
            (i64::MIN, false),
            (-1, false),
            (0, false),
            (1, true),
            (i64::from(i32::MAX), true),
            (i64::from(i32::MAX) + 1, false),
            (i64::MAX, false),
        ] {
            assert_eq!(Node::of(number).is_some(), fits, "{number}");
        }
        let last = Node(u32::MAX >> 1);
        assert_eq!(*last.leases().end(), i64::MAX);
        assert_eq!(*Node(1).leases().start(), 1 << 32);
        assert_eq!(*Node(1).leases().end() + 1, *Node(2).leases().start());
    }
}
