//! Paths of tiles and entry bundles: `tile/<L>/<N>[.p/<W>]` and `tile/entries/<N>[.p/<W>]`.
//!
//! The caller knows whether such a tile exists. Invariant: [`TilePath::parse`] accepts exactly what `Display` writes.

use std::fmt;
use std::str::FromStr;

use super::{HASH_BYTES, TILE_WIDTH};
use crate::ledger::checkpoint::decimal;

/// The highest tile level that the format can express.
const MAX_LEVEL: u8 = 63;

/// The kind of a tile path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TileKind {
    /// A tile of hashes at this level, 0 to 63.
    Hashes(u8),
    /// The entries whose hashes are in the level 0 tile of the same index.
    Entries,
}

/// The address of a tile or entry bundle (C2SP tlog-tiles, "Merkle Tree" and "Log entries").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TilePath {
    kind: TileKind,
    index: u64,
    width: usize,
}

impl TilePath {
    /// The path of `index` at `kind`, `width` hashes or entries wide; 256 is a full tile.
    ///
    /// # Errors
    /// [`TilePathError::Level`] above 63, [`TilePathError::Width`] outside 1 to 256.
    pub fn new(kind: TileKind, index: u64, width: usize) -> Result<Self, TilePathError> {
        if matches!(kind, TileKind::Hashes(level) if level > MAX_LEVEL) {
            return Err(TilePathError::Level);
        }
        if width == 0 || width > TILE_WIDTH {
            return Err(TilePathError::Width);
        }
        Ok(Self { kind, index, width })
    }

    /// Reads a path relative to the log's prefix, beginning with `tile/`.
    ///
    /// # Errors
    /// [`TilePathError`], naming the part that is wrong.
    pub fn parse(path: &str) -> Result<Self, TilePathError> {
        let rest = path.strip_prefix("tile/").ok_or(TilePathError::Form)?;
        let (kind, rest) = rest.split_once('/').ok_or(TilePathError::Form)?;
        let kind = match kind {
            "entries" => TileKind::Entries,
            level => TileKind::Hashes(small(level).ok_or(TilePathError::Level)?),
        };
        let (index, width) = match rest.split_once(".p/") {
            None => (rest, TILE_WIDTH),
            Some((index, width)) => {
                // A partial tile of width 256 would be a second name for the full one.
                let width = small(width).ok_or(TilePathError::Width)?;
                (index, usize::from(width))
            }
        };
        Self::new(kind, parse_index(index)?, width)
    }

    /// Hash tile or entry bundle.
    #[must_use]
    pub fn kind(&self) -> TileKind {
        self.kind
    }

    /// Position within the level, from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Hashes or entries, 1 to 256.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether the path carries `.p/<W>`.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.width < TILE_WIDTH
    }

    /// The content of a hash tile with this path, cut from the bytes stored under its level and index; `None` while the
    /// stored tile is not that wide.
    #[must_use]
    pub fn cut<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        stored.get(..self.width * HASH_BYTES)
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Hashes(level) => write!(f, "tile/{level}/")?,
            TileKind::Entries => f.write_str("tile/entries/")?,
        }
        let mut groups = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(rest % 1000);
            rest /= 1000;
        }
        for group in groups[1..].iter().rev() {
            write!(f, "x{group:03}/")?;
        }
        write!(f, "{:03}", groups[0])?;
        if self.is_partial() {
            write!(f, ".p/{}", self.width)?;
        }
        Ok(())
    }
}

impl FromStr for TilePath {
    type Err = TilePathError;

    fn from_str(path: &str) -> Result<Self, TilePathError> {
        Self::parse(path)
    }
}

/// Reads a decimal without sign and leading zeros, up to 255.
fn small(text: &str) -> Option<u8> {
    decimal(text)?.try_into().ok()
}

fn parse_index(text: &str) -> Result<u64, TilePathError> {
    let mut index: u64 = 0;
    let mut groups = text.split('/').peekable();
    let mut first = true;
    while let Some(group) = groups.next() {
        let digits = match groups.peek() {
            Some(_) => group.strip_prefix('x').ok_or(TilePathError::Index)?,
            None => group,
        };
        let padded = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A leading x000 would give every index a second, longer name.
        let redundant = first && digits == "000" && groups.peek().is_some();
        if !padded || redundant {
            return Err(TilePathError::Index);
        }
        let value: u64 = digits.parse().map_err(|_| TilePathError::Index)?;
        index = index
            .checked_mul(1000)
            .and_then(|index| index.checked_add(value))
            .ok_or(TilePathError::Index)?;
        first = false;
    }
    Ok(index)
}

/// Why a tile path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum TilePathError {
    /// Not `tile/<L>/<N>`, `tile/entries/<N>`, with or without `.p/<W>`.
    Form,
    /// The level is not a plain number from 0 to 63.
    Level,
    /// The index is not zero-padded groups of three digits, all but the last behind an `x`.
    Index,
    /// The width is not a plain number from 1 to 255 (256 for a full tile, which has no `.p`).
    Width,
}

impl fmt::Display for TilePathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "a tile path is tile/<level>/<index> or tile/entries/<index>, with .p/<width> when partial",
            Self::Level => "the level in a tile path is a number from 0 to 63 without leading zeros, or \"entries\"",
            Self::Index => {
                "the index in a tile path is written in groups of three digits, all but the last behind an x, \
                 without leading groups of zeros: x001/x234/067"
            }
            Self::Width => {
                "the width of a partial tile is a number from 1 to 255 without leading zeros; a full tile has no .p"
            }
        })
    }
}

impl std::error::Error for TilePathError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashes(level: u8, index: u64, width: usize) -> TilePath {
        TilePath::new(TileKind::Hashes(level), index, width).unwrap()
    }

    #[test]
    fn paths_are_those_of_the_published_vectors() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../../../tests/vectors/ledger.json")).unwrap();
        let cases = vectors["tilePaths"].as_array().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let width = case["width"].as_u64().unwrap_or(256);
            let path = hashes(
                u8::try_from(case["level"].as_u64().unwrap()).unwrap(),
                case["index"].as_u64().unwrap(),
                usize::try_from(width).unwrap(),
            );
            let text = case["path"].as_str().unwrap();
            assert_eq!(path.to_string(), text);
            assert_eq!(TilePath::parse(text), Ok(path));
        }
    }

    #[test]
    fn a_path_spelled_in_any_other_way_is_refused() {
        use TilePathError::{Form, Index, Level, Width};
        for (path, error) in [
            ("", Form),
            ("/tile/0/000", Form),
            ("tiles/0/000", Form),
            ("tile/0", Form),
            ("tile/64/000", Level),
            ("tile/00/000", Level),
            ("tile/01/000", Level),
            ("tile/+1/000", Level),
            ("tile/-1/000", Level),
            ("tile/256/000", Level),
            ("tile//000", Level),
            ("tile/data/000", Level),
            ("tile/Entries/000", Level),
            ("tile/0/", Index),
            ("tile/0/0", Index),
            ("tile/0/00", Index),
            ("tile/0/0000", Index),
            ("tile/0/x000", Index),
            ("tile/0/000/", Index),
            ("tile/0/000/001", Index),
            ("tile/0/x000/001", Index),
            ("tile/0/x000/x001/001", Index),
            ("tile/0/X001/001", Index),
            ("tile/0/x01/001", Index),
            ("tile/0/+01", Index),
            ("tile/0/x018/x446/x744/x073/x709/x551/616", Index),
            ("tile/0/x001/x018/x446/x744/x073/x709/x551/615", Index),
            ("tile/0/000.p", Index),
            ("tile/0/000.p/", Width),
            ("tile/0/000.p/0", Width),
            ("tile/0/000.p/01", Width),
            ("tile/0/000.p/+1", Width),
            ("tile/0/000.p/256", Width),
            ("tile/0/000.p/1 ", Width),
            ("tile/0/000.p/1.p/1", Width),
            ("tile/0/000.p/1/", Width),
            ("tile/entries/000?x", Index),
        ] {
            assert_eq!(TilePath::parse(path), Err(error), "{path:?}");
        }
        let top = hashes(63, u64::MAX, 255);
        assert_eq!(TilePath::parse(&top.to_string()), Ok(top));
        assert_eq!(TilePath::new(TileKind::Hashes(64), 0, 1), Err(Level));
        for width in [0, 257] {
            assert_eq!(TilePath::new(TileKind::Entries, 0, width), Err(Width));
        }
    }

    #[test]
    fn a_partial_tile_is_a_prefix_of_what_is_stored() {
        let stored: Vec<u8> = (0..96).collect();
        assert_eq!(hashes(0, 0, 2).cut(&stored), Some(&stored[..64]));
        assert_eq!(hashes(0, 0, 3).cut(&stored), Some(&stored[..]));
        assert_eq!(hashes(0, 0, 4).cut(&stored), None);
        assert_eq!(hashes(0, 0, 256).cut(&stored), None);
    }

    proptest! {
        #[test]
        fn paths_agree_with_an_independent_implementation(
            level in 0u8..64, index in any::<u64>(), shift in 0u32..64, width in 1usize..=256, entries: bool,
        ) {
            let index = index >> shift;
            let kind = if entries { TileKind::Entries } else { TileKind::Hashes(level) };
            let path = TilePath::new(kind, index, width).unwrap();
            let text = path.to_string();
            prop_assert_eq!(TilePath::parse(&text), Ok(path));
            // The oracle names the height and calls entries "data"; otherwise the form is the same.
            let oracle = tlog_tiles::Tile::new(
                8, if entries { 0 } else { level }, index, u32::try_from(width).unwrap(), entries,
            );
            let theirs = oracle.path().replacen("tile/8/", "tile/", 1).replacen("/data/", "/entries/", 1);
            prop_assert_eq!(text, theirs);
        }

        #[test]
        fn whatever_parses_is_printed_back_unchanged(path in "tile/([0-9]{1,3}|entries)/(x[0-9]{3}/){0,3}[0-9]{3}(\\.p/[0-9]{1,3})?") {
            if let Ok(parsed) = TilePath::parse(&path) {
                prop_assert_eq!(parsed.to_string(), path);
            }
        }
    }
}
