//! What opens the commitment of a stored entry: the seed of its salts, or, once values were erased, what is kept instead.
//!
//! Invariant: nothing that is kept leads to the salt of an erased value, so its digest proves nothing and cannot be guessed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(feature = "store")]
use super::Disclosure;
use super::wire::{Digests, salt};
use super::{EventError, SALT_BYTES, field_digest, salts};

/// Salts or digests by the names of members.
pub type ByName = BTreeMap<String, [u8; 32]>;

/// What opens an entry, as its row holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum Opening {
    /// The seed of all its [`salts`].
    Seed([u8; SALT_BYTES]),
    /// Values were erased: the other salts one by one.
    Kept(RemainingSalts),
}

/// What is kept of an entry's salts once values were erased.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemainingSalts {
    /// The salt of the commitment.
    #[serde(with = "salt")]
    salt: [u8; SALT_BYTES],
    /// The salts of the values that are still there, by name.
    salts: Digests<'static>,
    /// The digests of the erased values, by name.
    erased: Digests<'static>,
}

/// Omits the salts.
impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seed(_) => "Seed",
            Self::Kept(_) => "Kept",
        })
    }
}

impl Opening {
    /// Reads what a row holds.
    ///
    /// # Errors
    /// Why it is nothing that opens an entry, in a sentence.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if let Ok(seed) = <[u8; SALT_BYTES]>::try_from(bytes) {
            return Ok(Self::Seed(seed));
        }
        let kept = serde_json::from_slice(bytes).ok().map(Self::Kept);
        // Nobody but this program writes it, and that in one way.
        kept.filter(|kept| kept.to_bytes() == bytes)
            .ok_or_else(|| "neither a seed nor the salts kept of an entry".to_owned())
    }

    /// The bytes for the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Seed(seed) => seed.to_vec(),
            Self::Kept(kept) => serde_json::to_vec(kept).expect("texts by name always serialize"),
        }
    }

    /// The salt of the commitment, the salts of the stored members, and the digests of the erased ones. A stored member without
    /// a salt stands in for an erased value.
    pub fn of(&self, members: &Map<String, Value>) -> ([u8; SALT_BYTES], ByName, ByName) {
        match self {
            Self::Seed(seed) => {
                let mut next = salts(seed);
                let by_name = members.keys().map(|name| (name.clone(), next())).collect();
                (next(), by_name, BTreeMap::new())
            }
            Self::Kept(kept) => (
                kept.salt,
                kept.salts.0.clone().into_owned(),
                kept.erased.0.clone().into_owned(),
            ),
        }
    }

    /// Whether the value of this name was erased.
    #[cfg(feature = "store")]
    pub(crate) fn lacks(&self, name: &str) -> bool {
        match self {
            Self::Seed(_) => false,
            Self::Kept(kept) => kept.erased.0.contains_key(name),
        }
    }

    /// Whether all that it holds belongs to these stored members. Without that, a salt that opens nothing would be shown.
    #[cfg(feature = "store")]
    pub(crate) fn belongs_to(&self, members: &Map<String, Value>) -> bool {
        match self {
            Self::Seed(_) => true,
            Self::Kept(RemainingSalts { salts, erased, .. }) => {
                let opens = |name| members.contains_key(name) && !erased.0.contains_key(name);
                !erased.0.is_empty() && salts.0.keys().all(opens)
            }
        }
    }

    /// The salt of the commitment, the stored members with their salts, and the digests of the erased ones; see [`Self::of`].
    #[cfg(feature = "store")]
    pub(crate) fn disclose(
        &self,
        members: Map<String, Value>,
    ) -> ([u8; SALT_BYTES], Vec<Disclosure>, ByName) {
        if let Self::Seed(seed) = self {
            let mut next = salts(seed);
            let salted = |(name, value)| Disclosure {
                name,
                salt: next(),
                value,
            };
            let disclosures = members.into_iter().map(salted).collect();
            return (next(), disclosures, BTreeMap::new());
        }
        let (salt, mut salts, erased) = self.of(&members);
        // A member without a salt stands in for an erased value.
        let disclosures = members.into_iter().filter_map(|(name, value)| {
            let salt = salts.remove(&name)?;
            Some(Disclosure { name, salt, value })
        });
        (salt, disclosures.collect(), erased)
    }

    /// What opens the entry once the members with these names are erased. `members` are those stored now.
    ///
    /// # Errors
    /// A value that cannot be committed to.
    pub fn without(
        &self,
        names: &[&str],
        members: &Map<String, Value>,
    ) -> Result<Self, EventError> {
        let (salt, mut salts, mut erased) = self.of(members);
        for name in names {
            if let (Some(salt), Some(value)) = (salts.remove(*name), members.get(*name)) {
                erased.insert((*name).to_owned(), field_digest(name, value, &salt)?);
            }
        }
        Ok(Self::Kept(RemainingSalts {
            salt,
            salts: Digests(Cow::Owned(salts)),
            erased: Digests(Cow::Owned(erased)),
        }))
    }
}
