//! Event bodies and salts as JSON.
//!
//! `event` defines their meaning. Invariant: nothing is read twice, ignored or defaulted, and digests and salts have
//! exactly 32 bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, SerializeStruct as _, Serializer};

use super::{EVENT_VERSION, EventBody, EventError};
use crate::ledger::leaf::{bytes_of, text_of};

impl Serialize for EventBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("EventBody", 3)?;
        body.serialize_field("kind", &self.kind)?;
        body.serialize_field("sd", &Digests(Cow::Borrowed(&self.sd)))?;
        body.serialize_field("v", EVENT_VERSION)?;
        body.end()
    }
}

/// Accepts any order of members and any whitespace, because the body may be part of a larger document; nothing else is
/// tolerated.
impl<'de> Deserialize<'de> for EventBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wire {
            kind: String,
            sd: Digests<'static>,
            v: String,
        }
        let Wire { kind, sd, v } = Wire::deserialize(deserializer)?;
        if v != EVENT_VERSION {
            return Err(D::Error::custom(EventError::Version(v)));
        }
        let sd = sd.0.into_owned();
        Ok(Self { kind, sd })
    }
}

/// 32 bytes by name, each as unpadded base64url.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Digests<'a>(pub(super) Cow<'a, BTreeMap<String, [u8; 32]>>);

impl Serialize for Digests<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, digest) in self.0.iter() {
            map.serialize_entry(name, text_of(digest, &mut [0; 43]))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Digests<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DigestsVisitor)
    }
}

struct DigestsVisitor;

impl<'de> Visitor<'de> for DigestsVisitor {
    type Value = Digests<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of digests by field name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut digests = BTreeMap::new();
        while let Some((name, digest)) = members.next_entry::<String, String>()? {
            let Some(digest) = bytes_of(&digest) else {
                return Err(A::Error::custom(format_args!(
                    "the digest of field {name} is not the unpadded base64url of exactly 32 bytes"
                )));
            };
            if digests.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field {name}")));
            }
            digests.insert(name, digest);
        }
        Ok(Digests(Cow::Owned(digests)))
    }
}

/// For `#[serde(with)]`: 32 bytes as unpadded base64url.
pub(super) mod salt {
    use serde::de::Error as _;

    use super::{Cow, Deserialize as _, Deserializer, Serializer, bytes_of, text_of};

    pub(in crate::ledger::event) fn serialize<S: Serializer>(
        salt: &[u8; 32],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text_of(salt, &mut [0; 43]))
    }

    pub(in crate::ledger::event) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 32], D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        // The message must not repeat the salt.
        bytes_of(&text)
            .ok_or_else(|| D::Error::custom("a salt is the unpadded base64url of exactly 32 bytes"))
    }
}
