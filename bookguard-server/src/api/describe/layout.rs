//! The layout of the interface document: a value that fits on one line is written on one line. This keeps the document short,
//! and a change to it a change of few lines.

use bookguard_core::input::Json;
use serde_json::Value;

/// The line width of the document.
const WIDTH: usize = 120;
const INDENT: usize = 1;

/// The text of a document, which ends with a line feed.
pub(super) fn text(node: &Json) -> String {
    let mut text = String::new();
    write(node, 0, 0, &mut text);
    text.push('\n');
    text
}

/// Writes a value whose first line begins at column `before`.
fn write(node: &Json, indent: usize, before: usize, out: &mut String) {
    let line = node.to_string();
    if before + line.chars().count() < WIDTH {
        out.push_str(&line);
        return;
    }
    let inner = indent + INDENT;
    let new_line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    };
    match node {
        Json::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                new_line(out, inner);
                let name = format!("{}: ", Value::from(name.as_str()));
                out.push_str(&name);
                write(member, inner, inner + name.chars().count(), out);
            }
            new_line(out, indent);
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                new_line(out, inner);
                write(item, inner, inner, out);
            }
            new_line(out, indent);
            out.push(']');
        }
        Json::Leaf(_) => out.push_str(&line),
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
