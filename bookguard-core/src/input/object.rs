//! A JSON object built from texts that are JSON already. Invariant: no number passes through a float.

use std::fmt;

/// Members in the order in which they were added.
#[derive(Debug, Default)]
pub struct JsonObject(Vec<(String, Member)>);

#[derive(Debug)]
enum Member {
    Json(String),
    Object(JsonObject),
}

impl JsonObject {
    /// Adds a member at a path such as `talent.id`, if there is a value and the member does not exist yet.
    pub fn put(&mut self, path: &str, json: Option<String>) {
        let Some(json) = json else { return };
        match path.split_once('.') {
            Some((name, rest)) => self.within(name).put(rest, Some(json)),
            None => drop(self.put_new(path, json)),
        }
    }

    /// Adds a pair with any name to an object, unless the name exists.
    pub fn put_pair(&mut self, object: &str, name: &str, json: String) -> bool {
        self.within(object).put_new(name, json)
    }

    fn put_new(&mut self, name: &str, json: String) -> bool {
        let new = self.0.iter().all(|(known, _)| known != name);
        if new {
            self.0.push((name.to_owned(), Member::Json(json)));
        }
        new
    }

    /// The object of this name, created if it does not exist.
    fn within(&mut self, name: &str) -> &mut Self {
        let known = self.0.iter().position(|(known, _)| known == name);
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            let object = Member::Object(Self::default());
            self.0.push((name.to_owned(), object));
        }
        match &mut self.0[at].1 {
            Member::Object(within) => within,
            Member::Json(_) => unreachable!("a declaration's member is an object or is not"),
        }
    }
}

impl fmt::Display for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, member)) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            write!(f, "{}:", quoted(name))?;
            match member {
                Member::Json(json) => f.write_str(json)?,
                Member::Object(within) => within.fmt(f)?,
            }
        }
        f.write_str("}")
    }
}

/// A JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_where_their_paths_say_and_the_first_stays() {
        let mut object = JsonObject::default();
        object.put("talent.id", Some(quoted("a\"b")));
        object.put("value", Some("1.50".to_owned()));
        object.put("talent.name", Some(quoted("T")));
        object.put("value", Some("2".to_owned()));
        object.put("none", None);
        assert!(object.put_pair("pairs", "a.b", "null".to_owned()));
        assert!(!object.put_pair("pairs", "a.b", "1".to_owned()));
        assert_eq!(
            object.to_string(),
            r#"{"talent":{"id":"a\"b","name":"T"},"value":1.50,"pairs":{"a.b":null}}"#
        );
    }
}
