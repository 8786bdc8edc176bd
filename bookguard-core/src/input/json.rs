//! JSON that keeps the order of members, so that people can read a schema.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// An object's members.
    Object(Vec<(String, Json)>),
    /// An array's items.
    Array(Vec<Json>),
    /// Anything else.
    Leaf(Value),
}

impl Json {
    /// An object of these members.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Json)>) -> Self {
        let members = members.into_iter();
        Self::Object(members.map(|(name, node)| (name.into(), node)).collect())
    }

    /// An array of these items.
    pub fn array<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }

    /// Parses a text embedded in this program.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("a test reads every embedded text as JSON")
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members()
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, node)| node)
    }

    /// The members of an object; empty for anything else.
    pub fn members(&self) -> &[(String, Json)] {
        match self {
            Self::Object(members) => members,
            Self::Array(_) | Self::Leaf(_) => &[],
        }
    }

    /// Replaces a member in its place, or adds it at the end.
    pub fn set(&mut self, name: &str, node: Json) {
        if let Self::Object(members) = self {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, place)) => *place = node,
                None => members.push((name.to_owned(), node)),
            }
        }
    }

    /// Applies a JSON merge patch (RFC 7386).
    pub fn patch(&mut self, patch: &Json) {
        for (name, change) in patch.members() {
            match change {
                Self::Leaf(Value::Null) => self.remove(name),
                Self::Object(_) => {
                    let known = self
                        .get(name)
                        .filter(|known| matches!(known, Self::Object(_)));
                    let mut changed = known.cloned().unwrap_or(Self::Object(Vec::new()));
                    changed.patch(change);
                    self.set(name, changed);
                }
                _ => self.set(name, change.clone()),
            }
        }
    }

    /// Removes a member.
    pub fn remove(&mut self, name: &str) {
        if let Self::Object(members) = self {
            members.retain(|(known, _)| known != name);
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Leaf(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// Formats on one line.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(members) if members.is_empty() => f.write_str("{}"),
            Self::Object(members) => {
                for (index, (name, node)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "{ " } else { ", " })?;
                    write!(f, "{}: {node}", Value::from(name.as_str()))?;
                }
                f.write_str(" }")
            }
            Self::Array(items) => {
                f.write_str("[")?;
                for (index, node) in items.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    node.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Leaf(value) => value.fmt(f),
        }
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(members) => Self::object(
                members
                    .into_iter()
                    .map(|(name, value)| (name, value.into())),
            ),
            Value::Array(items) => Self::array(items),
            leaf => Self::Leaf(leaf),
        }
    }
}

impl From<Json> for Value {
    fn from(node: Json) -> Self {
        match node {
            Json::Object(members) => members
                .into_iter()
                .map(|(name, node)| (name, Self::from(node)))
                .collect(),
            Json::Array(items) => items.into_iter().collect(),
            Json::Leaf(leaf) => leaf,
        }
    }
}

macro_rules! leaves {
    ($($leaf:ty),+) => {
        $(impl From<$leaf> for Json {
            fn from(leaf: $leaf) -> Self {
                Self::Leaf(leaf.into())
            }
        })+
    };
}

leaves!(&str, String, bool, i32, i64, usize, f64);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;

        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Json::Object(members))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Json::Array(items))
            }
            fn visit_str<E>(self, text: &str) -> Result<Json, E> {
                Ok(text.into())
            }
            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(value.into())
            }
            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Leaf(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Leaf(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Leaf(value.into()))
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Leaf(Value::Null))
            }
        }

        deserializer.deserialize_any(JsonVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_puts_changes_and_removes() {
        let mut node = Json::parse(r#"{"a": {"b": 1, "c": 2}, "d": 3}"#);
        node.patch(&Json::parse(
            r#"{"a": {"b": null, "e": [1]}, "d": {"f": 4}, "g": 5}"#,
        ));
        assert_eq!(
            node.to_string(),
            r#"{ "a": { "c": 2, "e": [1] }, "d": { "f": 4 }, "g": 5 }"#
        );
    }
}
