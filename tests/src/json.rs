//! The members of JSON that tests ask for: what is not there fails the test that asked.

use serde_json::Value;

/// What tests ask of an object.
pub trait Members {
    /// A member that is a string.
    fn text(&self, name: &str) -> &str;
    /// A member that is an array.
    fn list(&self, name: &str) -> &Vec<Value>;
    /// A member that is a whole number.
    fn number(&self, name: &str) -> u64;
    /// Asserts that it has these members, whatever else it has; null stands for one that may be left out.
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
