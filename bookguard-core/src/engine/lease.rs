//! Names of leases. The name holds the node and a random number, so that the leases of a dead node are known, and a late
//! result can be told from one that counts.

use std::ops::RangeInclusive;

use crate::entropy;

/// Bits of a lease's name below those of its node.
const RANDOM_BITS: u32 = 32;

/// A running node, by a number it drew when it started; never 0, and no two in a million years' restarts the same in practice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);

impl Node {
    /// A number nobody else has.
    pub fn draw() -> Self {
        let number = u32::from_le_bytes(entropy::bytes());
        Self((number >> 1).max(1))
    }

    /// The node of this number; `None` for what is none.
    pub fn of(number: i64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        (1..=u32::MAX >> 1)
            .contains(&number)
            .then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The names its leases have.
    pub fn leases(self) -> RangeInclusive<i64> {
        let first = i64::from(self.0) << RANDOM_BITS;
        first..=first | i64::from(u32::MAX)
    }
}

/// A new name for a lease that this node holds, or that a process holds which nobody would miss: then only the lease's end
/// frees what it held.
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
