//! Reads members of JSON in tests; a missing member fails the test.

use serde_json::Value;

/// The only row of a list.
#[track_caller]
pub fn only(rows: &[Value]) -> &Value {
    match rows {
        [row] => row,
        other => panic!("not one row: {other:?}"),
    }
}

/// Members of a JSON object.
pub trait Members {
    /// A member that is a string.
    fn text(&self, name: &str) -> &str;
    /// A member that is an array.
    fn list(&self, name: &str) -> &Vec<Value>;
    /// A member that is a whole number.
    fn number(&self, name: &str) -> u64;
    /// Asserts that it has these members, whatever else it has; null stands for a member that may be missing.
    fn holds(&self, members: Value);
}

impl Members for Value {
    #[track_caller]
    fn text(&self, name: &str) -> &str {
        let text = self[name].as_str();
        text.unwrap_or_else(|| panic!("no string {name} in {self}"))
    }

    #[track_caller]
    fn list(&self, name: &str) -> &Vec<Value> {
        let list = self[name].as_array();
        list.unwrap_or_else(|| panic!("no array {name} in {self}"))
    }

    #[track_caller]
    fn number(&self, name: &str) -> u64 {
        let number = self[name].as_u64();
        number.unwrap_or_else(|| panic!("no whole number {name} in {self}"))
    }

    #[track_caller]
    fn holds(&self, members: Value) {
        let members = members.as_object().expect("members come as an object");
        for (name, expected) in members {
            assert_eq!(&self[name], expected, "{name} of {self}");
        }
    }
}
