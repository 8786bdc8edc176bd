//! The name of the rule that applies: `organizer.tiers[0]`, `talent.cancel`, …

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One rule of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Rule {
    /// The grace period after booking.
    Grace,
    /// `organizer.tiers[n]`.
    Tier(u8),
    /// `organizer.late`: after the last tier, until the event starts.
    Late,
    /// `organizer.noShow`: from the start on.
    OrganizerNoShow,
    /// `talent.cancel`.
    TalentCancel,
    /// `talent.noShow`.
    TalentNoShow,
    /// `partner.cancel`.
    PartnerCancel,
    /// `forceMajeure`.
    ForceMajeure,
    /// An agreement of both sides; the only rule that is not in a policy.
    Mutual,
}

impl Rule {
    /// The rules whose name has no number.
    const NAMED: [(&'static str, Self); 8] = [
        ("grace", Self::Grace),
        ("organizer.late", Self::Late),
        ("organizer.noShow", Self::OrganizerNoShow),
        ("talent.cancel", Self::TalentCancel),
        ("talent.noShow", Self::TalentNoShow),
        ("partner.cancel", Self::PartnerCancel),
        ("forceMajeure", Self::ForceMajeure),
        ("mutual", Self::Mutual),
    ];

    /// Whether a non-refundable deposit and a reached step are minimums for this rule: true for the organizer's own rules.
    pub fn has_floors(self) -> bool {
        matches!(self, Self::Tier(_) | Self::Late | Self::OrganizerNoShow)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Tier(index) = self {
            return write!(f, "organizer.tiers[{index}]");
        }
        let name = Self::NAMED.iter().find(|(_, rule)| rule == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Rule {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((_, rule)) = Self::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*rule);
        }
        let digits = text
            .strip_prefix("organizer.tiers[")
            .and_then(|rest| rest.strip_suffix(']'))
            .ok_or(())?;
        let rule = Self::Tier(digits.parse().map_err(|_| ())?);
        // Only one spelling is valid: `[+1]` and `[01]` would parse as numbers too.
        (rule.to_string() == text).then_some(rule).ok_or(())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse()
            .map_err(|()| serde::de::Error::custom("not the name of a policy rule"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_have_one_spelling() {
        for text in [
            "grace",
            "organizer.tiers[0]",
            "organizer.tiers[15]",
            "organizer.noShow",
            "mutual",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "organizer.tiers[01]",
            "organizer.tiers[+1]",
            "organizer.tiers[256]",
            "tiers[0]",
        ] {
            assert_eq!(text.parse::<Rule>(), Err(()), "{text}");
        }
    }
}
