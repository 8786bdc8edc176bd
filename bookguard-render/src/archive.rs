//! A packet with everything that belongs to it as one `.zip`: the packet, the page, the PDF, the key, and the stored files.
//!
//! Nothing is compressed, so that the bytes do not depend on a compressor, and files need not be in memory: their sizes and
//! CRC-32s are known before, so the archive is made of pieces around them. Invariant: the same packet, key, files and maker
//! give the same bytes. The format is that of PKWARE's APPNOTE, without any extension.

use std::fmt::Write as _;

use bookguard_core::evidence::{EvidenceItem, Packet};
use bookguard_core::model::{FileId, FileState, ItemId};

use crate::page::escape;
use crate::{Maker, PdfForm, page, pdf};

/// What the archive is made of, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// These bytes.
    Bytes(Vec<u8>),
    /// All bytes of this stored file.
    File(FileState),
}

/// The archive of a packet that verifies under `vkey`, with those of these files that its items name.
///
/// # Errors
/// A sentence, if this is not a packet or not a key.
pub fn archive(
    packet: &str,
    vkey: &str,
    files: &[(ItemId, FileState)],
    maker: &Maker,
) -> Result<Vec<Segment>, String> {
    let read = page::read(packet)?;
    let files = &files_of(&read, files)[..];
    let page = page::beside(&read, packet, vkey, maker, &section(&read, files))?;
    let pdf = pdf(packet, vkey, PdfForm::Archive, maker).map_err(|e| e.to_string())?;
    let mut zip = Zip::default();
    zip.bytes("README.txt", readme(&read, files).into_bytes());
    zip.bytes("evidence.html", page.into_bytes());
    zip.bytes("evidence.pdf", pdf);
    for (item_id, file) in files {
        zip.file(&file.name(item_id), *file);
    }
    zip.bytes("ledger.vkey", format!("{}\n", vkey.trim()).into_bytes());
    zip.bytes("packet.json", packet.as_bytes().to_vec());
    Ok(zip.finish())
}

/// The files that the packet's items name. An item can be added after the packet was made.
fn files_of(packet: &Packet, files: &[(ItemId, FileState)]) -> Vec<(ItemId, FileState)> {
    let names = |item_id: &ItemId, file: &FileState| {
        let mut items = packet.items.iter().filter(|item| item.item_id == *item_id);
        let sha256 = items.next().and_then(|item| item.sha256.as_deref());
        let named = sha256.and_then(|sha256| FileId::named(&file.file_id.partner_id(), sha256));
        named == Some(file.file_id)
    };
    let named = files.iter().filter(|(item_id, file)| names(item_id, file));
    named.copied().collect()
}

/// The bytes of all segments together.
#[must_use]
pub fn length(segments: &[Segment]) -> u64 {
    let lengths = segments.iter().map(|segment| match segment {
        Segment::Bytes(bytes) => bytes.len() as u64,
        Segment::File(file) => file.size,
    });
    lengths.sum()
}

/// How to check the files, before the list of their digests.
const CHECKING_FILES: &str = r#"
To check the files too, with what the packet says of them:

    bookguard evidence verify packet.json --key @ledger.vkey --files .

or, once the packet is checked, with jq:

    jq -r '.items[] | select(.sha256) | .sha256[7:] + " " + .itemId' packet.json |
      while read -r sha256 item; do echo "$sha256  $(echo files/$item.*)"; done | sha256sum -c

The packet and the page hold the digests. This list is only a copy of them: whoever replaces a file can replace its line here.

"#;

/// The text that a person reads first: the parts of the archive, and how to check them.
fn readme(packet: &Packet, files: &[(ItemId, FileState)]) -> String {
    let mut text = format!(
        "Evidence of booking {}, made on {}.\n\n\
         packet.json    the evidence packet: everything recorded, signed\n\
         evidence.html  the same for people; it checks the packet when a browser opens it, offline\n\
         evidence.pdf   the same to print or keep, with the packet attached\n\
         ledger.vkey    the verifier key of the log {}\n",
        packet.booking.booking_id,
        packet.made_in_words(),
        packet.log.origin
    );
    if !files.is_empty() {
        text.push_str(
            "files/         the files that the platform added; each is named by its item\n",
        );
    }
    text.push_str(
        "\nTo check the packet:\n\n    bookguard evidence verify packet.json --key @ledger.vkey\n\n\
         Compare the key with one that the service or the platform gives elsewhere: whoever forges a packet can forge a key.\n",
    );
    let (here, absent): (Vec<_>, Vec<_>) =
        named(packet, files).partition(|(.., file)| file.is_some());
    let line = |item: &EvidenceItem, name: &str| {
        let digest = item.sha256.as_deref().unwrap_or_default();
        format!("{}  {name}\n", digest.trim_start_matches("sha256:"))
    };
    if !here.is_empty() {
        text.push_str(CHECKING_FILES);
    }
    for (_, item, file) in here {
        let name = file.map_or_else(String::new, |file| path(item, file));
        text.push_str(&line(item, &name));
    }
    if !absent.is_empty() {
        text.push_str("\nThe packet also names files that the service did not have when this archive was made. Whoever has one can compare it:\n\n");
    }
    for (_, item, _) in absent {
        text.push_str(&line(item, &item.item_id.to_string()));
    }
    text
}

/// The items of a packet that name a file, with their places there, and the file if it is in the archive.
fn named<'a>(
    packet: &'a Packet,
    files: &'a [(ItemId, FileState)],
) -> impl Iterator<Item = (usize, &'a EvidenceItem, Option<&'a FileState>)> {
    let items = packet.items.iter().enumerate();
    let items = items.filter(|(_, item)| item.sha256.is_some());
    items.map(|(at, item)| {
        let file = files.iter().find(|(item_id, _)| *item_id == item.item_id);
        (at, item, file.map(|(_, file)| file))
    })
}

/// Where an item's file is in the archive.
fn path(item: &EvidenceItem, file: &FileState) -> String {
    format!("files/{}", file.name(&item.item_id))
}

/// The page's section about files: a link to each that is in the archive, and what is said of it in the packet.
///
/// The links are names that the service made, of letters, digits, an underscore, a dot and a slash. What a browser might run
/// is called `.bin`, and `download` asks it to save the others too.
fn section(packet: &Packet, files: &[(ItemId, FileState)]) -> String {
    let mut list = String::new();
    for (at, item, file) in named(packet, files) {
        let place = match file {
            Some(file) => format!(
                "<a href=\"{0}\" download>{0}</a>, {1} bytes",
                path(item, file),
                file.size
            ),
            None => "not in this archive: the service did not have it".to_owned(),
        };
        let _ = writeln!(
            list,
            "<li><strong data-from=\"/items/{at}/title\"><bdi>{}</bdi></strong>: {place}<br>\
             <span class=\"code\" data-from=\"/items/{at}/sha256\">{}</span></li>",
            escape(&item.title),
            escape(item.sha256.as_deref().unwrap_or_default())
        );
    }
    if list.is_empty() {
        return list;
    }
    format!(
        "<section aria-labelledby=\"files\">\n<h2 id=\"files\">Files</h2>\n\
         <p class=\"note\">The platform added these, and says what they are. The page does not check them: compare the SHA-256 of a file \
         with the one below it (<code>sha256sum files/*</code>). Open a file only if you trust the platform.</p>\n\
         <ol class=\"ways\">\n{list}</ol>\n</section>\n\n"
    )
}

/// A `.zip` of entries that are stored as they are, all dated 1 January 1980.
#[derive(Default)]
struct Zip {
    segments: Vec<Segment>,
    /// The bytes of all segments so far.
    length: u64,
    directory: Vec<u8>,
    entries: u16,
}

/// The earliest date that the format has; no other is the same for every archive of one packet.
const DATE: u16 = 1 << 5 | 1;
/// The version of the format that stored entries need.
const VERSION: u16 = 10;
/// Made on Unix, so that the entries' permissions count.
const MADE_BY: u16 = 3 << 8 | VERSION;
/// A file that its owner may write and everybody may read.
const PERMISSIONS: u32 = 0o100_644 << 16;

impl Zip {
    fn bytes(&mut self, name: &str, bytes: Vec<u8>) {
        self.entry(name, bytes.len() as u64, crc32fast::hash(&bytes));
        self.push(bytes);
    }

    fn file(&mut self, name: &str, file: FileState) {
        self.entry(&format!("files/{name}"), file.size, file.crc);
        self.segments.push(Segment::File(file));
        self.length += file.size;
    }

    fn push(&mut self, bytes: Vec<u8>) {
        self.length += bytes.len() as u64;
        match self.segments.last_mut() {
            Some(Segment::Bytes(last)) => last.extend(bytes),
            _ => self.segments.push(Segment::Bytes(bytes)),
        }
    }

    /// The header of an entry, there and in the directory.
    fn entry(&mut self, name: &str, size: u64, crc: u32) {
        let offset = small(self.length);
        let mut common = Vec::new();
        // No flags, no compression, midnight.
        for field in [VERSION, 0, 0, 0, DATE] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc, small(size), small(size)] {
            common.extend(field.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0; 2]);
        self.directory.extend(*b"PK\x01\x02");
        self.directory.extend(MADE_BY.to_le_bytes());
        self.directory.extend(&common);
        // No comment, the first disk, not text.
        self.directory.extend([0; 6]);
        self.directory.extend(PERMISSIONS.to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.entries += 1;
        self.push([b"PK\x03\x04", &common[..], name.as_bytes()].concat());
    }

    fn finish(mut self) -> Vec<Segment> {
        let directory = std::mem::take(&mut self.directory);
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend(self.entries.to_le_bytes());
        end.extend(self.entries.to_le_bytes());
        end.extend(small(directory.len() as u64).to_le_bytes());
        end.extend(small(self.length).to_le_bytes());
        end.extend([0; 2]);
        self.push(directory);
        self.push(end);
        self.segments
    }
}

/// A length or an offset in the archive: 50 files of 10 MiB are far below 4 GiB.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
