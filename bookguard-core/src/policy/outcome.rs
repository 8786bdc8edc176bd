//! What a rule costs: outcomes as a policy writes them, and the arithmetic of shares.
//!
//! Whole minor units, computed in 128 bits. Invariant: the refund and the kept part of a value add up to it.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::model::vocabulary;

vocabulary! {
    /// How a share that is not a whole number of minor units is rounded.
    Rounding {
        /// To the nearest, a half up.
        HalfUp = "half_up",
        /// To the nearest, a half to the even neighbour.
        HalfEven = "half_even",
        /// Towards zero.
        Down = "down",
        /// Away from zero.
        Up = "up",
    }
}

/// `value · bps / 10000` in minor units, for a value of zero or more and at most 10,000 basis points.
pub fn share(value: i64, bps: u16, rounding: Rounding) -> i64 {
    const WHOLE: i128 = 10_000;
    let product = i128::from(value) * i128::from(bps);
    let (quotient, rest) = (product / WHOLE, product % WHOLE);
    let up = match rounding {
        Rounding::HalfUp => rest * 2 >= WHOLE,
        Rounding::HalfEven => rest * 2 > WHOLE || (rest * 2 == WHOLE && quotient % 2 == 1),
        Rounding::Down => false,
        Rounding::Up => rest > 0,
    };
    // At most `value`, which is an i64.
    i64::try_from(quotient + i128::from(up)).unwrap_or(value)
}

/// A fixed amount: the text it was written with, which is hashed, and its minor units in the policy's currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedAmount {
    pub(super) text: Box<str>,
    pub(super) minor: i64,
}

impl FixedAmount {
    /// Minor units of the policy's currency.
    pub fn minor(&self) -> i64 {
        self.minor
    }

    /// The text the policy was written with.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Serialize for FixedAmount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// One way to divide the value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Split {
    /// A share is returned; in addition, the other side may owe compensation. Both in basis points of the value.
    Refund {
        /// 0 to 10,000.
        bps: u16,
        /// 0 to 10,000, if given.
        compensation_bps: Option<u16>,
    },
    /// A fixed penalty, at most the value.
    Penalty(FixedAmount),
    /// The deposit is kept, the rest is returned.
    KeepDeposit,
}

/// What a rule costs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Outcome {
    /// One way to divide the value.
    Plain(Split),
    /// The split with the smallest penalty; the first of equal ones.
    LesserOf(Vec<Split>),
    /// The split with the largest penalty; the first of equal ones.
    GreaterOf(Vec<Split>),
    /// A person decides.
    Manual,
}

/// What shares are computed from, in minor units of one currency.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Basis {
    /// The booking's value.
    pub value: i64,
    /// The policy's deposit on that value; at most the value, zero when there is none.
    pub deposit: i64,
    /// The policy's rounding.
    pub rounding: Rounding,
}

/// An outcome in money.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Charge<'p> {
    /// Minor units kept of the value.
    pub penalty: i64,
    /// Minor units owed to the organizer on top of the refund.
    pub compensation: i64,
    /// The split that applied.
    pub split: &'p Split,
}

impl Split {
    /// This split in money.
    pub fn charge(&self, basis: Basis) -> Charge<'_> {
        let (penalty, compensation) = match self {
            Self::Refund {
                bps,
                compensation_bps,
            } => (
                basis.value - share(basis.value, *bps, basis.rounding),
                share(basis.value, compensation_bps.unwrap_or(0), basis.rounding),
            ),
            Self::Penalty(fixed) => (fixed.minor.min(basis.value), 0),
            Self::KeepDeposit => (basis.deposit, 0),
        };
        Charge {
            penalty,
            compensation,
            split: self,
        }
    }
}

impl Outcome {
    /// The whole value is returned.
    pub const FULL_REFUND: Self = Self::Plain(Split::Refund {
        bps: 10_000,
        compensation_bps: None,
    });

    /// This outcome in money; `None` when a person decides.
    pub fn charge(&self, basis: Basis) -> Option<Charge<'_>> {
        let charges = self.splits().iter().map(|split| split.charge(basis));
        let is_better = |next: i64, best: i64| match self {
            Self::GreaterOf(_) => next > best,
            _ => next < best,
        };
        charges.reduce(|best, next| match is_better(next.penalty, best.penalty) {
            true => next,
            false => best,
        })
    }

    /// The splits to choose from; empty if a person decides.
    pub fn splits(&self) -> &[Split] {
        match self {
            Self::Plain(split) => std::slice::from_ref(split),
            Self::LesserOf(splits) | Self::GreaterOf(splits) => splits,
            Self::Manual => &[],
        }
    }
}

impl Serialize for Split {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Refund {
                bps,
                compensation_bps,
            } => {
                map.serialize_entry("refundBps", bps)?;
                if let Some(bps) = compensation_bps {
                    map.serialize_entry("compensationBps", bps)?;
                }
            }
            Self::Penalty(fixed) => map.serialize_entry("penaltyAmount", fixed)?,
            Self::KeepDeposit => map.serialize_entry("keepDeposit", &true)?,
        }
        map.end()
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, splits) = match self {
            Self::Plain(split) => return split.serialize(serializer),
            Self::LesserOf(splits) => ("lesserOf", Some(splits)),
            Self::GreaterOf(splits) => ("greaterOf", Some(splits)),
            Self::Manual => ("manual", None),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        match splits {
            Some(splits) => map.serialize_entry(name, splits)?,
            None => map.serialize_entry(name, &true)?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_rounded_as_the_policy_says() {
        use Rounding::*;
        for (value, bps, rounding, expected) in [
            (33_333, 5000, HalfUp, 16_667),
            (33_333, 5000, HalfEven, 16_666),
            (33_335, 5000, HalfEven, 16_668),
            (33_333, 5000, Down, 16_666),
            (33_333, 5000, Up, 16_667),
            (9_999, 3333, HalfUp, 3_333),
            (9_999, 3333, Down, 3_332),
            (999_999_999_999_999, 9_999, Up, 999_900_000_000_000),
            (0, 10_000, Up, 0),
        ] {
            assert_eq!(
                share(value, bps, rounding),
                expected,
                "{value} {bps} {rounding:?}"
            );
        }
    }

    #[test]
    fn of_several_splits_the_lesser_or_the_greater_penalty_counts() {
        let basis = Basis {
            value: 1000,
            deposit: 250,
            rounding: Rounding::HalfUp,
        };
        let splits = || {
            vec![
                Split::KeepDeposit,
                Split::Penalty(FixedAmount {
                    text: "3.00".into(),
                    minor: 300,
                }),
                Split::Refund {
                    bps: 7000,
                    compensation_bps: Some(100),
                },
            ]
        };
        assert_eq!(
            Outcome::LesserOf(splits()).charge(basis).unwrap().penalty,
            250
        );
        let greatest = Outcome::GreaterOf(splits());
        let greatest = greatest.charge(basis).unwrap();
        assert_eq!(
            (greatest.penalty, greatest.compensation),
            (300, 0),
            "the first of equals"
        );
        assert!(Outcome::Manual.charge(basis).is_none());
        let flat = Split::Penalty(FixedAmount {
            text: "99".into(),
            minor: 9900,
        });
        assert_eq!(flat.charge(basis).penalty, 1000, "capped at the value");
    }

    proptest! {
        #[test]
        fn a_share_lies_between_nothing_and_the_value(value in 0..=999_999_999_999_999_i64, bps in 0..=10_000_u16) {
            for rounding in [Rounding::HalfUp, Rounding::HalfEven, Rounding::Down, Rounding::Up] {
                let part = share(value, bps, rounding);
                prop_assert!((0..=value).contains(&part));
                let off = i128::from(part) * 10_000 - i128::from(value) * i128::from(bps);
                prop_assert!(off.abs() < 10_000);
            }
            prop_assert_eq!(share(value, 10_000, Rounding::Up), value);
        }
    }
}
