//! The map in pages: each holds four bits of its keys, so a change touches few of them, and few are read for a proof.
//!
//! A page belongs to the keys that begin with so many hex digits, and has a slot for each next digit: nothing, a leaf if one key
//! remains, or the hash of what the next page holds. Callers load the pages that [`Pages::missing`] names, level by level, and
//! keep those that [`Pages::changed`] returns. Invariant: the same streams and values give the same pages, in whatever order they
//! came and however many at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::{
    HASH_BYTES, Hash, MapEnd, MapProof, MapStep, MapValue, bit_of, empty_root, map_leaf, map_node,
    prefix,
};

/// Slots of a page.
const WIDTH: usize = 16;
/// Bits of a key that a page holds.
const PAGE_BITS: usize = 4;
/// Bytes of a slot with a hash, and of one with a leaf: the first says which, and which digit.
const HASH_SLOT: usize = 1 + HASH_BYTES;
const LEAF_SLOT: usize = 1 + HASH_BYTES + 8 + HASH_BYTES;
const IS_LEAF: u8 = 0x10;

/// Which page: the hex digits that its keys begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// How many.
    digits: u8,
    /// The digits, then zeros.
    prefix: super::Hash,
}

/// A page of the map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MapPage([Slot; WIDTH]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Nothing,
    Leaf(Hash, MapValue),
    /// What the next page holds.
    Below(Hash),
}

/// Pages of one map that were loaded, and changes to it.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    pages: HashMap<PageId, MapPage>,
    changed: BTreeSet<PageId>,
}

/// Slots of a page that lie beside each other: what is below a bit.
#[derive(Debug, Clone, Copy)]
struct Part {
    page: PageId,
    first: usize,
    width: usize,
}

/// What is at the top of a part.
enum Top {
    Nothing,
    Leaf(Hash, MapValue),
    Node { bit: u8, left: Part, right: Part },
}

impl PageId {
    /// The page of all keys.
    pub const ROOT: Self = Self {
        digits: 0,
        prefix: Hash::ZERO,
    };

    /// The page of the keys that begin with the first digits of this key.
    fn of(key: &Hash, digits: u8) -> Self {
        let prefix = prefix(key, digits * PAGE_BITS as u8);
        Self { digits, prefix }
    }

    /// The page of a digit more.
    fn below(self, digit: usize) -> Self {
        let mut next = self;
        let shift = PAGE_BITS * (1 - usize::from(self.digits % 2));
        next.prefix.0[usize::from(self.digits / 2)] |= (digit as u8) << shift;
        next.digits += 1;
        next
    }

    /// Its name as stored: the number of digits, then the bytes that hold them.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let bytes = usize::from(self.digits).div_ceil(2);
        [&[self.digits], &self.prefix.0[..bytes]].concat()
    }

    /// Reads the name that [`Self::to_bytes`] writes.
    ///
    /// # Errors
    /// [`PageError::Form`] for any other.
    pub fn read(bytes: &[u8]) -> Result<Self, PageError> {
        let (digits, rest) = bytes.split_first().ok_or(PageError::Form)?;
        let mut key = Hash::ZERO;
        let places = key.0.get_mut(..rest.len()).ok_or(PageError::Form)?;
        places.copy_from_slice(rest);
        if usize::from(*digits) >= 2 * HASH_BYTES {
            return Err(PageError::Form);
        }
        let id = Self::of(&key, *digits);
        match id.prefix == key && id.to_bytes() == bytes {
            true => Ok(id),
            false => Err(PageError::Form),
        }
    }

    /// The digit of a key that chooses its slot in this page.
    fn digit(self, key: &Hash) -> usize {
        let byte = key.0[usize::from(self.digits / 2)];
        let is_high = self.digits.is_multiple_of(2);
        usize::from(if is_high { byte >> 4 } else { byte & 0x0f })
    }

    fn whole(self) -> Part {
        Part {
            page: self,
            first: 0,
            width: WIDTH,
        }
    }
}

impl MapPage {
    /// Its bytes as stored: the slots that hold something, in order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (digit, slot) in (0_u8..).zip(&self.0) {
            match slot {
                Slot::Nothing => {}
                Slot::Below(hash) => {
                    out.push(digit);
                    out.extend(hash.0);
                }
                Slot::Leaf(key, value) => {
                    out.push(IS_LEAF | digit);
                    out.extend(key.0);
                    out.extend(value.count.to_be_bytes());
                    out.extend(value.head.0);
                }
            }
        }
        out
    }

    /// Reads a page from what [`Self::to_bytes`] writes.
    ///
    /// # Errors
    /// [`PageError::Form`] for any other bytes, or a leaf of another page.
    pub fn read(id: PageId, mut bytes: &[u8]) -> Result<Self, PageError> {
        let mut page = Self::default();
        let mut next = 0;
        while let Some(first) = bytes.first() {
            let (is_leaf, digit) = (first & IS_LEAF != 0, usize::from(first & 0x0f));
            let length = if is_leaf { LEAF_SLOT } else { HASH_SLOT };
            if first & !(IS_LEAF | 0x0f) != 0 || digit < next || bytes.len() < length {
                return Err(PageError::Form);
            }
            let (slot, rest) = bytes.split_at(length);
            let hash = |at: usize| {
                let bytes = slot.get(at..at + HASH_BYTES).ok_or(PageError::Form)?;
                Hash::try_from(bytes).map_err(|_| PageError::Form)
            };
            page.0[digit] = if is_leaf {
                let key = hash(1)?;
                let count = slot.get(HASH_SLOT..HASH_SLOT + 8).map(<[u8; 8]>::try_from);
                let Some(Ok(count)) = count else {
                    return Err(PageError::Form);
                };
                let value = MapValue {
                    count: u64::from_be_bytes(count),
                    head: hash(HASH_SLOT + 8)?,
                };
                if PageId::of(&key, id.digits) != id || id.digit(&key) != digit || value.count == 0
                {
                    return Err(PageError::Form);
                }
                Slot::Leaf(key, value)
            } else if usize::from(id.digits) + 1 < 2 * HASH_BYTES {
                Slot::Below(hash(1)?)
            } else {
                return Err(PageError::Form);
            };
            bytes = rest;
            next = digit + 1;
        }
        Ok(page)
    }

    /// The values of its leaves, by key.
    pub fn leaves(&self) -> impl Iterator<Item = (Hash, MapValue)> {
        self.0.iter().filter_map(|slot| match slot {
            Slot::Leaf(key, value) => Some((*key, *value)),
            _ => None,
        })
    }

    /// The pages below it, and the hash of what each holds.
    pub fn below(&self, id: PageId) -> impl Iterator<Item = (PageId, Hash)> {
        let slots = self.0.iter().enumerate();
        slots.filter_map(move |(digit, slot)| match slot {
            Slot::Below(hash) => Some((id.below(digit), *hash)),
            _ => None,
        })
    }

    /// The hash of what it holds; that of an empty map if that is nothing.
    #[must_use]
    pub fn hash(&self, id: PageId) -> Hash {
        self.hash_of(id.whole()).unwrap_or_else(empty_root)
    }

    /// The hash of what a part of it holds; `None` if that is nothing.
    fn hash_of(&self, part: Part) -> Option<Hash> {
        let Some((left, right)) = part.halves() else {
            return match &self.0[part.first] {
                Slot::Nothing => None,
                Slot::Leaf(key, value) => Some(map_leaf(key, value)),
                Slot::Below(hash) => Some(*hash),
            };
        };
        match (self.hash_of(left), self.hash_of(right)) {
            (Some(left), Some(right)) => Some(map_node(part.bit(), &part.prefix(), &left, &right)),
            (one, other) => one.or(other),
        }
    }

    fn holds(&self, part: Part) -> bool {
        let mut slots = self.0.iter().skip(part.first).take(part.width);
        slots.any(|slot| *slot != Slot::Nothing)
    }
}

impl Part {
    /// The bit that tells its halves apart.
    fn bit(self) -> u8 {
        let within = PAGE_BITS - self.width.ilog2() as usize;
        self.page.digits * PAGE_BITS as u8 + within as u8
    }

    /// The bits before that one, then zeros, or something else.
    fn prefix(self) -> Hash {
        self.page.below(self.first).prefix
    }

    fn halves(self) -> Option<(Self, Self)> {
        let width = self.width / 2;
        let half = |first| Self {
            first,
            width,
            ..self
        };
        (width > 0).then(|| (half(self.first), half(self.first + width)))
    }
}

impl Pages {
    /// The pages of a map without streams.
    #[must_use]
    pub fn empty() -> Self {
        let mut pages = Self::default();
        pages.pages.insert(PageId::ROOT, MapPage::default());
        pages
    }

    /// Adds a page as it was stored.
    pub fn load(&mut self, id: PageId, page: MapPage) {
        self.pages.insert(id, page);
    }

    /// A page that was loaded or made.
    #[must_use]
    pub fn get(&self, id: PageId) -> Option<&MapPage> {
        self.pages.get(&id)
    }

    /// The pages on the paths of these keys that must be loaded next. None are left once all are there.
    #[must_use]
    pub fn missing<'a>(&self, keys: impl IntoIterator<Item = &'a Hash>) -> BTreeSet<PageId> {
        let next = |key: &Hash| {
            let mut id = PageId::ROOT;
            while let Some(page) = self.pages.get(&id) {
                match page.0[id.digit(key)] {
                    Slot::Below(_) => id = id.below(id.digit(key)),
                    _ => return None,
                }
            }
            Some(id)
        };
        keys.into_iter().filter_map(next).collect()
    }

    /// The value of a key; `None` if the map does not have it.
    ///
    /// # Errors
    /// [`PageError::Missing`] for a page that is not loaded.
    pub fn value(&self, key: &Hash) -> Result<Option<MapValue>, PageError> {
        let mut id = PageId::ROOT;
        loop {
            match self.page(id)?.0[id.digit(key)] {
                Slot::Below(_) => id = id.below(id.digit(key)),
                Slot::Leaf(other, value) => return Ok((other == *key).then_some(value)),
                Slot::Nothing => return Ok(None),
            }
        }
    }

    /// Sets the values of streams, by key. Returns the map's root.
    ///
    /// # Errors
    /// [`PageError::Missing`] for a page that is not loaded. Then these pages are of no use any more.
    pub fn set(&mut self, values: &BTreeMap<Hash, MapValue>) -> Result<Hash, PageError> {
        let mut stale = BTreeSet::from([PageId::ROOT]);
        for (key, value) in values {
            self.put(*key, *value, &mut stale)?;
        }
        // The hash of a page is in the page above it, so the longest names come first.
        let mut root = empty_root();
        for id in stale.iter().rev() {
            let hash = self.page(*id)?.hash(*id);
            let Some(digits) = id.digits.checked_sub(1) else {
                root = hash;
                continue;
            };
            let above = PageId::of(&id.prefix, digits);
            let slot = above.digit(&id.prefix);
            self.page_mut(above)?.0[slot] = Slot::Below(hash);
        }
        if values.is_empty() {
            return Ok(root);
        }
        self.changed.extend(stale);
        Ok(root)
    }

    /// Puts a value into its page. The hashes in the pages that are now `stale` are no longer right.
    fn put(
        &mut self,
        key: Hash,
        value: MapValue,
        stale: &mut BTreeSet<PageId>,
    ) -> Result<(), PageError> {
        let mut id = PageId::ROOT;
        loop {
            stale.insert(id);
            let digit = id.digit(&key);
            let slot = &mut self.page_mut(id)?.0[digit];
            match *slot {
                Slot::Leaf(other, _) if other != key => {
                    // Two keys begin alike: both move into a page of their own.
                    let mut page = MapPage::default();
                    let below = id.below(digit);
                    std::mem::swap(&mut page.0[below.digit(&other)], slot);
                    *slot = Slot::Below(Hash::ZERO);
                    self.pages.insert(below, page);
                    id = below;
                }
                Slot::Below(_) => id = id.below(digit),
                Slot::Nothing | Slot::Leaf(..) => {
                    *slot = Slot::Leaf(key, value);
                    return Ok(());
                }
            }
        }
    }

    /// The pages that changed since they were loaded.
    pub fn changed(&self) -> impl Iterator<Item = (PageId, &MapPage)> {
        let pages = self.changed.iter();
        pages.filter_map(|id| Some((*id, self.pages.get(id)?)))
    }

    /// The path of a key.
    ///
    /// # Errors
    /// [`PageError::Missing`] for a page that is not loaded.
    pub fn prove(&self, key: &Hash) -> Result<MapProof, PageError> {
        let mut path = Vec::new();
        let mut at = PageId::ROOT.whole();
        let end = loop {
            let (bit, left, right) = match self.top(at)? {
                Top::Nothing => break MapEnd::Empty,
                Top::Leaf(key, value) => break MapEnd::Leaf { key, value },
                Top::Node { bit, left, right } => (bit, left, right),
            };
            let hash = |part: Part| {
                let hash = self.page(part.page)?.hash_of(part);
                Ok::<_, PageError>(hash.unwrap_or_else(empty_root))
            };
            let begins = prefix(&left.prefix(), bit);
            if begins != prefix(key, bit) {
                break MapEnd::Node {
                    bit,
                    prefix: begins,
                    left: hash(left)?,
                    right: hash(right)?,
                };
            }
            let (own, other) = match bit_of(key, bit) {
                false => (left, right),
                true => (right, left),
            };
            path.push(MapStep {
                bit,
                hash: hash(other)?,
            });
            at = own;
        };
        path.reverse();
        Ok(MapProof { path, end })
    }

    /// The topmost node or leaf of a part.
    fn top(&self, mut part: Part) -> Result<Top, PageError> {
        loop {
            let page = self.page(part.page)?;
            part = match part.halves() {
                None => match page.0[part.first] {
                    Slot::Nothing => return Ok(Top::Nothing),
                    Slot::Leaf(key, value) => return Ok(Top::Leaf(key, value)),
                    Slot::Below(_) => part.page.below(part.first).whole(),
                },
                Some((left, right)) => match (page.holds(left), page.holds(right)) {
                    (true, true) => {
                        let bit = part.bit();
                        return Ok(Top::Node { bit, left, right });
                    }
                    (true, false) => left,
                    (false, true) => right,
                    (false, false) => return Ok(Top::Nothing),
                },
            };
        }
    }

    fn page(&self, id: PageId) -> Result<&MapPage, PageError> {
        self.pages.get(&id).ok_or(PageError::Missing)
    }

    fn page_mut(&mut self, id: PageId) -> Result<&mut MapPage, PageError> {
        self.pages.get_mut(&id).ok_or(PageError::Missing)
    }
}

/// Why pages do not give a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum PageError {
    /// A page or its name is written otherwise than pages are.
    Form,
    /// A page is not there.
    Missing,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "a page of the map is not written as pages are",
            Self::Missing => "a page of the map is missing",
        })
    }
}

impl std::error::Error for PageError {}
