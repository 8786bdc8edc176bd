//! A JSON object put together from texts that are JSON already. Invariant: no number passes through a float.

use std::fmt;

/// Members in the order in which they were put.
#[derive(Debug, Default)]
pub(in crate::commands) struct Members(Vec<(String, Member)>);

#[derive(Debug)]
enum Member {
    Json(String),
    Object(Members),
}

impl Members {
    /// Puts a member, if there is one and none yet, where a path such as `talent.id` says.
    pub(in crate::commands) fn put(&mut self, path: &str, json: Option<String>) {
        let Some(json) = json else { return };
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let known = self.0.iter().position(|(known, _)| known == name);
        if rest.is_empty() {
            if known.is_none() {
                self.push(name, json);
            }
            return;
        }
        let at = known.unwrap_or_else(|| {
            let within = Member::Object(Self::default());
            self.0.push((name.to_owned(), within));
            self.0.len() - 1
        });
        if let Member::Object(within) = &mut self.0[at].1 {
            within.put(rest, Some(json));
        }
    }

    /// Puts a member of any name.
    pub(super) fn push(&mut self, name: &str, json: String) {
        self.0.push((name.to_owned(), Member::Json(json)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a member of this name is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, member)) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            write!(f, "{}:", text(name))?;
            match member {
                Member::Json(json) => f.write_str(json)?,
                Member::Object(within) => within.fmt(f)?,
            }
        }
        f.write_str("}")
    }
}

/// A JSON string.
pub(in crate::commands) fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
