//! The map in pages: each holds four bits of its keys, so a change touches few of them, and few are read for a proof.
//!
//! A page belongs to the keys that begin with so many hex digits, and has a slot for each next digit: nothing, a leaf if one key
//! remains, or the hash of what the next page holds. Callers load the pages on the paths of some keys ([`Pages::load`]), and
//! keep those that [`Pages::changed`] returns. Invariant: the same streams and values give the same pages, in whatever order they
//! came and however many at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;

use super::{
    HASH_BYTES, Hash, MapEnd, MapProof, MapStep, MapValue, bit_of, empty_root, map_leaf, map_node,
    prefix,
};

/// Bits of a key that a page holds.
const PAGE_BITS: u8 = 4;
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

/// A page of the map: the slots that hold something, by their digits, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MapPage(Vec<(u8, Slot)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
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

/// Slots of a page that hold something and lie beside each other.
#[derive(Debug, Clone)]
struct Part {
    page: PageId,
    slots: Range<usize>,
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
        let prefix = prefix(key, digits * PAGE_BITS);
        Self { digits, prefix }
    }

    /// The page of a digit more.
    fn below(self, digit: u8) -> Self {
        let mut next = self;
        let shift = PAGE_BITS * (1 - self.digits % 2);
        next.prefix.0[usize::from(self.digits / 2)] |= digit << shift;
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
    fn digit(self, key: &Hash) -> u8 {
        let byte = key.0[usize::from(self.digits / 2)];
        let is_high = self.digits.is_multiple_of(2);
        if is_high { byte >> 4 } else { byte & 0x0f }
    }
}

impl MapPage {
    /// Its bytes as stored: the slots that hold something, in order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (digit, slot) in &self.0 {
            match slot {
                Slot::Below(hash) => {
                    out.push(*digit);
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
            let (is_leaf, digit) = (first & IS_LEAF != 0, first & 0x0f);
            let length = if is_leaf { LEAF_SLOT } else { HASH_SLOT };
            if first & !(IS_LEAF | 0x0f) != 0 || digit < next || bytes.len() < length {
                return Err(PageError::Form);
            }
            let (slot, rest) = bytes.split_at(length);
            let hash = |at: usize| {
                let bytes = slot.get(at..at + HASH_BYTES).ok_or(PageError::Form)?;
                Hash::try_from(bytes).map_err(|_| PageError::Form)
            };
            let slot = if is_leaf {
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
            page.0.push((digit, slot));
            bytes = rest;
            next = digit + 1;
        }
        Ok(page)
    }

    /// The values of its leaves, by key.
    pub fn leaves(&self) -> impl Iterator<Item = (Hash, MapValue)> {
        self.0.iter().filter_map(|(_, slot)| match slot {
            Slot::Leaf(key, value) => Some((*key, *value)),
            Slot::Below(_) => None,
        })
    }

    /// The pages below it, and the hash of what each holds.
    pub fn below(&self, id: PageId) -> impl Iterator<Item = (PageId, Hash)> {
        self.0.iter().filter_map(move |(digit, slot)| match slot {
            Slot::Below(hash) => Some((id.below(*digit), *hash)),
            Slot::Leaf(..) => None,
        })
    }

    /// The hash of what it holds; that of an empty map if that is nothing.
    #[must_use]
    pub fn hash(&self, id: PageId) -> Hash {
        hash_of(id, &self.0)
    }

    /// The place of a digit's slot, or where it would be.
    fn place(&self, digit: u8) -> Result<usize, usize> {
        self.0.binary_search_by_key(&digit, |(digit, _)| *digit)
    }

    fn slot(&self, digit: u8) -> Option<Slot> {
        let place = self.place(digit).ok()?;
        Some(self.0[place].1)
    }

    fn put(&mut self, digit: u8, slot: Slot) {
        match self.place(digit) {
            Ok(place) => self.0[place].1 = slot,
            Err(place) => self.0.insert(place, (digit, slot)),
        }
    }
}

/// The hash of what some slots of a page hold.
fn hash_of(id: PageId, slots: &[(u8, Slot)]) -> Hash {
    match slots {
        [] => empty_root(),
        [(_, Slot::Leaf(key, value))] => map_leaf(key, value),
        [(_, Slot::Below(hash))] => *hash,
        [(first, _), ..] => {
            let (bit, ones) = divide(id, slots);
            let (left, right) = slots.split_at(ones);
            let begins = id.below(*first).prefix;
            map_node(bit, &begins, &hash_of(id, left), &hash_of(id, right))
        }
    }
}

/// The first bit in which two or more slots of a page differ, and the place of the first slot in which it is 1.
fn divide(id: PageId, slots: &[(u8, Slot)]) -> (u8, usize) {
    let differs = slots[0].0 ^ slots[slots.len() - 1].0;
    let highest = differs.checked_ilog2().unwrap_or(0) as u8;
    let ones = slots.partition_point(|(digit, _)| digit >> highest & 1 == 0);
    (id.digits * PAGE_BITS + (PAGE_BITS - 1 - highest), ones)
}

impl Pages {
    /// The pages of a map without streams.
    #[must_use]
    pub fn empty() -> Self {
        let mut pages = Self::default();
        pages.pages.insert(PageId::ROOT, MapPage::default());
        pages
    }

    /// Loads the pages on the paths of these keys, level by level. `fetch` returns those that it is asked for; one that it leaves out is
    /// missing later ([`PageError::Missing`]).
    ///
    /// # Errors
    /// Those of `fetch`.
    pub fn load<'k, E>(
        keys: impl IntoIterator<Item = &'k Hash>,
        mut fetch: impl FnMut(&[PageId]) -> Result<Vec<(PageId, MapPage)>, E>,
    ) -> Result<Self, E> {
        let mut keys: Vec<&Hash> = keys.into_iter().collect();
        keys.sort_unstable();
        let mut pages = Self::default();
        let mut level = vec![(PageId::ROOT, &keys[..])];
        level.retain(|(_, keys)| !keys.is_empty());
        while !level.is_empty() {
            let ids: Vec<PageId> = level.iter().map(|(id, _)| *id).collect();
            pages.pages.extend(fetch(&ids)?);
            let mut next = Vec::new();
            for (id, keys) in level {
                let page = pages.pages.get(&id);
                for alike in keys.chunk_by(|one, next| id.digit(one) == id.digit(next)) {
                    let digit = id.digit(alike[0]);
                    if let Some(Slot::Below(_)) = page.and_then(|page| page.slot(digit)) {
                        next.push((id.below(digit), alike));
                    }
                }
            }
            level = next;
        }
        Ok(pages)
    }

    /// The value of a key; `None` if the map does not have it.
    ///
    /// # Errors
    /// [`PageError::Missing`] for a page that is not loaded.
    pub fn value(&self, key: &Hash) -> Result<Option<MapValue>, PageError> {
        let mut id = PageId::ROOT;
        loop {
            match self.page(id)?.slot(id.digit(key)) {
                Some(Slot::Below(_)) => id = id.below(id.digit(key)),
                Some(Slot::Leaf(other, value)) => return Ok((other == *key).then_some(value)),
                None => return Ok(None),
            }
        }
    }

    /// Sets the values of streams, by key. Returns the map's root.
    ///
    /// # Errors
    /// [`PageError::Missing`] for a page that is not loaded. Then these pages are of no use any more.
    pub fn set(&mut self, values: &BTreeMap<Hash, MapValue>) -> Result<Hash, PageError> {
        let values: Vec<_> = values.iter().map(|(key, value)| (*key, *value)).collect();
        self.set_below(PageId::ROOT, &values)
    }

    /// As [`Self::set`], of one page and sorted keys that belong to it. Returns the hash of what it then holds.
    fn set_below(&mut self, id: PageId, values: &[(Hash, MapValue)]) -> Result<Hash, PageError> {
        let mut page = self.pages.remove(&id).ok_or(PageError::Missing)?;
        for alike in values.chunk_by(|(one, _), (next, _)| id.digit(one) == id.digit(next)) {
            let (key, value) = alike[0];
            let digit = id.digit(&key);
            let slot = match (page.slot(digit), alike) {
                (Some(Slot::Below(_)), _) => Slot::Below(self.set_below(id.below(digit), alike)?),
                (None, [_]) => Slot::Leaf(key, value),
                (Some(Slot::Leaf(old, _)), [_]) if old == key => Slot::Leaf(key, value),
                // Several keys begin alike: they have a page of their own.
                (leaf, _) => {
                    let below = id.below(digit);
                    let mut page = MapPage::default();
                    if let Some(leaf @ Slot::Leaf(old, _)) = leaf {
                        page.put(below.digit(&old), leaf);
                    }
                    self.pages.insert(below, page);
                    Slot::Below(self.set_below(below, alike)?)
                }
            };
            page.put(digit, slot);
        }
        let hash = page.hash(id);
        self.pages.insert(id, page);
        if !values.is_empty() {
            self.changed.insert(id);
        }
        Ok(hash)
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
        let mut at = self.whole(PageId::ROOT)?;
        let end = loop {
            let (bit, left, right) = match self.top(at)? {
                Top::Nothing => break MapEnd::Empty,
                Top::Leaf(key, value) => break MapEnd::Leaf { key, value },
                Top::Node { bit, left, right } => (bit, left, right),
            };
            let hash = |part: &Part| Ok(hash_of(part.page, self.slots(part)?));
            let first = self.slots(&left)?.first().map_or(0, |(digit, _)| *digit);
            let begins = prefix(&left.page.below(first).prefix, bit);
            if begins != prefix(key, bit) {
                break MapEnd::Node {
                    bit,
                    prefix: begins,
                    left: hash(&left)?,
                    right: hash(&right)?,
                };
            }
            let (own, other) = match bit_of(key, bit) {
                false => (left, right),
                true => (right, left),
            };
            path.push(MapStep {
                bit,
                hash: hash(&other)?,
            });
            at = own;
        };
        path.reverse();
        Ok(MapProof { path, end })
    }

    /// The topmost node or leaf of a part.
    fn top(&self, mut part: Part) -> Result<Top, PageError> {
        loop {
            let (page, slots) = (part.page, self.slots(&part)?);
            part = match slots {
                [] => return Ok(Top::Nothing),
                [(_, Slot::Leaf(key, value))] => return Ok(Top::Leaf(*key, *value)),
                [(digit, Slot::Below(_))] => self.whole(page.below(*digit))?,
                _ => {
                    let (bit, ones) = divide(page, slots);
                    let half = |slots| Part { page, slots };
                    let Range { start, end } = part.slots;
                    let (left, right) = (half(start..start + ones), half(start + ones..end));
                    return Ok(Top::Node { bit, left, right });
                }
            };
        }
    }

    /// All slots of a page.
    fn whole(&self, page: PageId) -> Result<Part, PageError> {
        let slots = 0..self.page(page)?.0.len();
        Ok(Part { page, slots })
    }

    fn slots(&self, part: &Part) -> Result<&[(u8, Slot)], PageError> {
        let slots = self.page(part.page)?.0.get(part.slots.clone());
        slots.ok_or(PageError::Missing)
    }

    fn page(&self, id: PageId) -> Result<&MapPage, PageError> {
        self.pages.get(&id).ok_or(PageError::Missing)
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
