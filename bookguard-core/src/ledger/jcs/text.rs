//! The canonical text of a whole document, written without a tree of values in between.
//!
//! `serde_json` writes the text; members are put in order at the end of their object, when all of them are known.
//! Invariant: the text is the one that [`to_canonical`](super::to_canonical) gives for the same document.

use std::cell::RefCell;
use std::io::{self, Write};
use std::ops::Range;

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::ser::Formatter;
use serde_json::{Error, Serializer, Value};

use super::{compare_names, parse, write_string, write_value};

/// Bytes reserved for a text: most packets have fewer.
const ROOM: usize = 96 * 1024;

/// A document in canonical form.
pub struct CanonicalText {
    /// The text.
    pub text: String,
    /// The members of its outermost object, in the order of the text.
    members: Vec<Member>,
}

/// Where the text of a member is.
#[derive(Clone, Copy)]
struct Member {
    name: usize,
    colon: usize,
    end: usize,
    /// Whether the bytes of its name are in the canonical order of names.
    is_plain: bool,
}

impl CanonicalText {
    /// Writes a document.
    ///
    /// # Errors
    /// A number beyond [`MAX_NUMBER`](super::MAX_NUMBER), and what serializes to no JSON.
    pub fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        let text = RefCell::new(Vec::with_capacity(ROOM));
        let mut members = Vec::new();
        let ordered = Ordered {
            text: &text,
            open: Vec::new(),
            members: &mut members,
            scratch: Vec::new(),
        };
        value.serialize(&mut Serializer::with_formatter(Out(&text), ordered))?;
        let text = String::from_utf8(text.into_inner()).map_err(Error::custom)?;
        Ok(Self { text, members })
    }

    /// Where the text of a member of the outermost object is.
    pub fn member(&self, name: &str) -> Option<Range<usize>> {
        self.find(name).map(|found| found.name..found.end)
    }

    /// The text with another string as the value of this member of the outermost object.
    pub fn with(mut self, name: &str, value: &str) -> String {
        if let Some(found) = self.find(name) {
            let mut quoted = Vec::with_capacity(value.len() + 16);
            write_string(&mut quoted, value);
            let quoted = String::from_utf8(quoted).expect("only ASCII is added to a string");
            (self.text).replace_range(found.colon + 1..found.end, &quoted);
        }
        self.text
    }

    fn find(&self, name: &str) -> Option<Member> {
        let text = self.text.as_bytes();
        let named = |one: &&Member| read_name(&text[one.name..one.colon]) == name;
        self.members.iter().find(named).copied()
    }
}

/// A member's name, from its text in quotes.
fn read_name(quoted: &[u8]) -> String {
    serde_json::from_slice(quoted).expect("a serializer writes names as JSON strings")
}

/// Where the text goes.
struct Out<'a>(&'a RefCell<Vec<u8>>);

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut text = self.0.borrow_mut();
        match bytes {
            // Most writes are quotes, commas and braces.
            [byte] => text.push(*byte),
            bytes => text.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Knows where the members of unfinished objects are.
struct Ordered<'a> {
    text: &'a RefCell<Vec<u8>>,
    /// For each unfinished object, the number of members before it.
    open: Vec<usize>,
    /// The members of the unfinished objects, the outermost's first; at the end those of the outermost.
    members: &'a mut Vec<Member>,
    /// Where members wait that are put in order.
    scratch: Vec<u8>,
}

impl Ordered<'_> {
    /// The member that is being written.
    fn last(&mut self) -> &mut Member {
        let last = self.members.last_mut();
        last.expect("a serializer writes members only into an open object")
    }

    fn length(&self) -> usize {
        self.text.borrow().len()
    }

    fn value(&self, value: &Value) -> io::Result<()> {
        write_value(&mut self.text.borrow_mut(), value).map_err(io::Error::other)
    }
}

impl Formatter for Ordered<'_> {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(self.members.len());
        writer.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        let name = self.length();
        self.members.push(Member {
            name,
            colon: name,
            end: name,
            is_plain: false,
        });
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let colon = self.length();
        let text = self.text;
        let last = self.last();
        last.colon = colon;
        last.is_plain = is_plain(&text.borrow()[last.name..]);
        writer.write_all(b":")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.last().end = self.length();
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let first = self.open.pop().unwrap_or_default();
        let members = &mut self.members[first..];
        put_in_order(&mut self.text.borrow_mut(), members, &mut self.scratch);
        if !self.open.is_empty() {
            self.members.truncate(first);
        }
        writer.write_all(b"}")
    }

    fn write_i64<W: ?Sized + Write>(&mut self, _: &mut W, value: i64) -> io::Result<()> {
        self.value(&value.into())
    }

    fn write_u64<W: ?Sized + Write>(&mut self, _: &mut W, value: u64) -> io::Result<()> {
        self.value(&value.into())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.value(&value.into())
    }

    fn write_f32<W: ?Sized + Write>(&mut self, _: &mut W, value: f32) -> io::Result<()> {
        self.value(&f64::from(value).into())
    }

    fn write_i128<W: ?Sized + Write>(&mut self, _: &mut W, value: i128) -> io::Result<()> {
        let value = i64::try_from(value).map_err(io::Error::other)?;
        self.value(&value.into())
    }

    fn write_u128<W: ?Sized + Write>(&mut self, _: &mut W, value: u128) -> io::Result<()> {
        let value = i64::try_from(value).map_err(io::Error::other)?;
        self.value(&value.into())
    }

    /// A number as its client wrote it.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, _: &mut W, text: &str) -> io::Result<()> {
        self.value(&parse(text)?)
    }
}

/// Whether names of such bytes are ordered by their bytes.
fn is_plain(name: &[u8]) -> bool {
    // A loop of its own: names are short, and a packet has a thousand.
    name.iter().all(|byte| byte.is_ascii() && *byte != b'\\')
}

/// Puts the members at the end of `text` in canonical order.
fn put_in_order(text: &mut Vec<u8>, members: &mut [Member], scratch: &mut Vec<u8>) {
    let Some(&Member { name: from, .. }) = members.first() else {
        return;
    };
    let order = |written: &[u8], a: &Member, b: &Member| {
        let [x, y] = [a, b].map(|one| &written[one.name - from..one.colon - from]);
        match a.is_plain && b.is_plain {
            true => x[1..x.len() - 1].cmp(&y[1..y.len() - 1]),
            false => compare_names(&read_name(x), &read_name(y)),
        }
    };
    if members.is_sorted_by(|a, b| order(&text[from..], a, b).is_lt()) {
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(&text[from..]);
    text.truncate(from);
    members.sort_by(|a, b| order(scratch, a, b));
    for (at, member) in members.iter_mut().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let name = text.len();
        text.extend_from_slice(&scratch[member.name - from..member.end - from]);
        *member = Member {
            name,
            colon: name + member.colon - member.name,
            end: text.len(),
            ..*member
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::super::tests::any_value;
    use super::super::to_canonical;
    use super::*;

    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Unordered {
        zebra: Kind,
        apple: Option<u8>,
        price: Box<RawValue>,
        ratio: f32,
        inner: Vec<Empty>,
    }

    #[derive(serde::Serialize)]
    enum Kind {
        Named { b: i16, a: () },
    }

    #[derive(serde::Serialize)]
    struct Empty {}

    #[test]
    fn what_serializes_without_a_value_has_the_text_of_its_value() {
        let it = Unordered {
            zebra: Kind::Named { b: -3, a: () },
            apple: None,
            price: RawValue::from_string("1200.50".to_owned()).unwrap(),
            ratio: 0.1,
            inner: vec![Empty {}, Empty {}],
        };
        let document = CanonicalText::of(&it).unwrap();
        let value = serde_json::to_value(&it).unwrap();
        assert_eq!(document.text, to_canonical(&value).unwrap());
        let place = document.member("price").unwrap();
        assert_eq!(&document.text[place], r#""price":1200.5"#);
        assert_eq!(
            document.member("a"),
            None,
            "it is not a member of the outermost"
        );
        let other = document.with("inner", "a \"word\"");
        assert!(other.contains(r#""inner":"a \"word\"","price""#), "{other}");
    }

    #[test]
    fn a_number_that_is_not_exact_is_refused() {
        for text in ["9007199254740992", "-9007199254740992", "1e300"] {
            let number: Value = serde_json::from_str(text).unwrap();
            assert!(CanonicalText::of(&number).is_err(), "{text}");
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert!(CanonicalText::of(&raw).is_err(), "{text} as it was written");
        }
        assert!(CanonicalText::of(&u128::MAX).is_err() && CanonicalText::of(&i128::MIN).is_err());
    }

    proptest! {
        #[test]
        fn every_document_has_the_text_of_its_value(value in any_value()) {
            prop_assert_eq!(CanonicalText::of(&value).unwrap().text, to_canonical(&value).unwrap());
        }
    }
}
