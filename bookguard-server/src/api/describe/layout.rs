//! The layout of the interface document: a value that fits on one line is written on one line. This keeps the document short,
//! and a change to it a change of few lines.

use std::iter::repeat_n;

use bookguard_core::input::Json;
use serde_json::Value;

/// Writes JSON over several lines.
pub(crate) struct Layout {
    /// How many spaces further in the parts of a value stand.
    pub(crate) indent: usize,
    /// Whether a value is written on one line: its depth, the column at which it begins, and that line.
    pub(crate) fits: fn(usize, usize, &str) -> bool,
}

/// The line width of the document.
const WIDTH: usize = 120;
const DOCUMENT: Layout = Layout {
    indent: 1,
    fits: |_, before, line| before + line.chars().count() < WIDTH,
};

/// The text of a document, which ends with a line feed.
pub(super) fn text(node: &Json) -> String {
    DOCUMENT.text(node) + "\n"
}

impl Layout {
    pub(crate) fn text(&self, node: &Json) -> String {
        let mut text = String::new();
        self.write(node, 0, 0, &mut text);
        text
    }

    /// Writes a value whose first line begins at column `before`.
    fn write(&self, node: &Json, depth: usize, before: usize, out: &mut String) {
        let line = node.to_string();
        let (open, close, parts): (_, _, Vec<(Option<&str>, &Json)>) = match node {
            Json::Object(members) => {
                let named = members.iter();
                let named = named.map(|(name, member)| (Some(name.as_str()), member));
                ('{', '}', named.collect())
            }
            Json::Array(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
            Json::Leaf(_) => ('"', '"', Vec::new()),
        };
        if parts.is_empty() || (self.fits)(depth, before, &line) {
            out.push_str(&line);
            return;
        }
        let inner = self.indent * (depth + 1);
        out.push(open);
        for (index, (name, part)) in parts.into_iter().enumerate() {
            out.push_str(if index == 0 { "\n" } else { ",\n" });
            out.extend(repeat_n(' ', inner));
            let name = name.map_or_else(String::new, |name| format!("{}: ", Value::from(name)));
            out.push_str(&name);
            self.write(part, depth + 1, inner + name.chars().count(), out);
        }
        out.push('\n');
        out.extend(repeat_n(' ', inner - self.indent));
        out.push(close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_what_fits_stands_on_one_line() {
        let long = "x".repeat(100);
        let text = format!(
            r#"{{"b":1,"a":[true,null,-1,0.5,"\n"],"c":{{"z":"{long}","y":{{}},"d":[]}}}}"#
        );
        let node = Json::parse(&text);
        let written = format!(
            "{{\n \"b\": 1,\n \"a\": [true, null, -1, 0.5, \"\\n\"],\n \"c\": {{\n  \"z\": \"{long}\",\n  \"y\": {{}},\n  \
             \"d\": []\n }}\n}}\n"
        );
        assert_eq!(super::text(&node), written);
        assert_eq!(Json::parse(&written), node);
        let whole: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(whole, serde_json::from_str::<Value>(&text).unwrap());
    }
}
