//! Values of a packet that a copy of it does not show.

use serde::{Deserialize, Serialize};

/// The name of a value that a copy of a packet does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(poem_openapi::Enum))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", oai(rename_all = "camelCase"))]
pub enum Withheld {
    /// The network addresses from which parties accepted.
    Ip,
    /// The booking's metadata.
    Metadata,
    /// Notes.
    Note,
    /// The organizer's id and name.
    Organizer,
    /// The talent's id and name.
    Talent,
    /// The programs with which parties accepted.
    UserAgent,
}

impl Withheld {
    /// All of them with their names, in the order of the names.
    pub const WORDS: [(&'static str, Self); 6] = [
        ("ip", Self::Ip),
        ("metadata", Self::Metadata),
        ("note", Self::Note),
        ("organizer", Self::Organizer),
        ("talent", Self::Talent),
        ("userAgent", Self::UserAgent),
    ];
}
