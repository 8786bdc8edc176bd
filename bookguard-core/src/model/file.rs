//! Files of evidence items: how they are named, cut into parts, and told apart.
//!
//! A file is stored once for each partner and content. Nothing ever unpacks or parses one: its media type is told from its
//! first bytes, and only for types that a browser cannot run.

use serde::{Deserialize, Serialize};

use super::{ItemId, PartnerId, Timestamp};
use crate::limits::FILE_PART_BYTES;

/// The name of a stored file: its partner, then the SHA-256 of its bytes. Partners never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId([u8; 48]);

impl FileId {
    /// The file of `partner_id` with this SHA-256.
    #[must_use]
    pub fn of(partner_id: &PartnerId, digest: &[u8; 32]) -> Self {
        let mut bytes = [0; 48];
        bytes[..16].copy_from_slice(partner_id.as_bytes());
        bytes[16..].copy_from_slice(digest);
        Self(bytes)
    }

    /// As [`Self::of`], with the digest as `sha256:` and hex digits; `None` for any other text.
    #[must_use]
    pub fn named(partner_id: &PartnerId, sha256: &str) -> Option<Self> {
        let mut digest = [0; 32];
        hex::decode_to_slice(sha256.strip_prefix("sha256:")?, &mut digest).ok()?;
        Some(Self::of(partner_id, &digest))
    }

    /// The partner.
    #[must_use]
    pub fn partner_id(&self) -> PartnerId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[..16]);
        PartnerId::from_bytes(bytes)
    }

    /// The SHA-256 of its bytes.
    #[must_use]
    pub fn digest(&self) -> &[u8] {
        &self.0[16..]
    }

    /// The bytes that the store keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 48] {
        &self.0
    }

    /// Makes a name from the bytes that the store keeps.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 48]) -> Self {
        Self(bytes)
    }
}

/// The media types that files are served with. Whatever a browser might run or open as a page (HTML, SVG, XML, scripts,
/// archives) is [`Self::Binary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// Anything else.
    Binary = 0,
    /// A PDF.
    Pdf = 1,
    /// An image.
    Png = 2,
    /// An image.
    Jpeg = 3,
    /// An image.
    Webp = 4,
    /// An image.
    Gif = 5,
    /// Text without markup.
    Text = 6,
}

impl MediaType {
    /// All of them, the one of most files first.
    pub const ALL: [Self; 7] = [
        Self::Binary,
        Self::Pdf,
        Self::Png,
        Self::Jpeg,
        Self::Webp,
        Self::Gif,
        Self::Text,
    ];

    /// Reads the number that the store keeps.
    #[must_use]
    pub fn from_number(n: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as i64 == n)
    }

    /// Tells it from a file's bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [b'%', b'P', b'D', b'F', b'-', ..] => Self::Pdf,
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Self::Webp,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Gif,
            _ if is_plain_text(bytes) => Self::Text,
            _ => Self::Binary,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "application/octet-stream",
            Self::Pdf => "application/pdf",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    /// What the name of such a file ends with.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Binary => "bin",
            Self::Pdf => "pdf",
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Webp => "webp",
            Self::Gif => "gif",
            Self::Text => "txt",
        }
    }
}

/// Whether it is UTF-8 without control characters, and neither markup nor a script with an interpreter's line.
fn is_plain_text(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let opens_markup = |rest: &str| {
        let next = rest.chars().next();
        next.is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '!' | '/' | '?'))
    };
    !text.starts_with("#!")
        && !text
            .chars()
            .any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
        && !text.split('<').skip(1).any(opens_markup)
}

/// A file as the store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Its name.
    pub file_id: FileId,
    /// Its bytes.
    pub size: u64,
    /// Its media type.
    pub media_type: MediaType,
    /// The CRC-32 of its bytes, which an archive names before them.
    pub crc: u32,
    /// How many of its parts are stored: the first ones, without a gap.
    pub parts: u32,
    /// When the last of them was stored.
    pub at: Timestamp,
}

impl FileState {
    /// The number of parts of a file with this many bytes.
    #[must_use]
    pub fn parts_of(size: u64) -> u32 {
        u32::try_from(size.div_ceil(FILE_PART_BYTES as u64)).unwrap_or(u32::MAX)
    }

    /// Whether every part is stored. Until then, the file does not count as stored.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.parts == Self::parts_of(self.size)
    }

    /// The name under which an item's file is saved: ASCII letters, digits, an underscore and a dot.
    #[must_use]
    pub fn name(&self, item_id: &ItemId) -> String {
        format!("{item_id}.{}", self.media_type.extension())
    }

    /// The file as answers show it; `None` until it is whole.
    #[must_use]
    pub fn shown(&self) -> Option<StoredFile> {
        self.is_whole().then(|| StoredFile {
            bytes: self.size,
            media_type: self.media_type.name().to_owned(),
            stored_at: self.at,
        })
    }
}

/// A stored file of an evidence item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct StoredFile {
    /// Its bytes.
    pub bytes: u64,
    /// Its media type, told from its first bytes; `application/octet-stream` for most.
    pub media_type: String,
    /// When it was stored.
    pub stored_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_browser_runs_has_a_media_type() {
        for (bytes, expected) in [
            (&b"%PDF-1.7\n"[..], MediaType::Pdf),
            (b"\x89PNG\r\n\x1a\n....", MediaType::Png),
            (b"\xff\xd8\xff\xe0", MediaType::Jpeg),
            (b"RIFF\x10\0\0\0WEBPVP8 ", MediaType::Webp),
            (b"GIF89a", MediaType::Gif),
            ("Grüße,\r\n\tbis 3 < 4.\n".as_bytes(), MediaType::Text),
            (b"", MediaType::Text),
            (
                b"<!DOCTYPE html><script>alert(1)</script>",
                MediaType::Binary,
            ),
            (b"\xef\xbb\xbf  <html>", MediaType::Binary),
            (b"hello <script>alert(1)</script>", MediaType::Binary),
            (
                b"<svg xmlns='http://www.w3.org/2000/svg'/>",
                MediaType::Binary,
            ),
            (b"<?xml version='1.0'?>", MediaType::Binary),
            (b"#!/bin/sh\n", MediaType::Binary),
            (b"PK\x03\x04", MediaType::Binary),
            (b"\x1f\x8b\x08", MediaType::Binary),
            (b"RIFF\x10\0\0\0AVI ", MediaType::Binary),
            (b"text\0", MediaType::Binary),
            (b"\xff\xfeh\0i\0", MediaType::Binary),
            (b"MZ\x90\0", MediaType::Binary),
        ] {
            assert_eq!(MediaType::of(bytes), expected, "{bytes:?}");
        }
        for known in MediaType::ALL {
            assert_eq!(MediaType::from_number(known as i64), Some(known));
        }
        assert_eq!(MediaType::from_number(7), None);
    }

    #[test]
    fn a_file_is_named_by_its_partner_and_its_digest() {
        let partner_id = PartnerId::from_bytes([7; 16]);
        let digest = "ab".repeat(32);
        let named = FileId::named(&partner_id, &format!("sha256:{digest}")).unwrap();
        assert_eq!(named, FileId::of(&partner_id, &[0xab; 32]));
        assert_eq!(named.partner_id(), partner_id);
        assert_eq!(hex::encode(named.digest()), digest);
        assert_eq!(FileId::named(&partner_id, &digest), None);
        assert_eq!(FileId::named(&partner_id, "sha256:ab"), None);
    }
}
