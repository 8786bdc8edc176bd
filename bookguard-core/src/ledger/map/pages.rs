//! The map in pages: each stands for four bits of its keys, so a change touches few of them, and few are read for a proof.
//!
//! A page belongs to the keys that begin with the same hex digits, and has a slot for each next digit: nothing, a leaf if one key
//! remains, or the hash of what is below. Callers load the pages on the paths of some keys ([`Pages::load`]), and keep those that
//! [`Pages::changed`] returns.
//!
//! A value that belongs far down is not written there at once, since in a large map it alone would cost a block of the disk. It
//! waits in a page above until that one is full, which then hands all that wait in it down to the pages below it, neighbours on
//! the disk: a buffer tree. Invariants: a page's slots always say what is below it with the values that wait, so a root depends
//! on streams and values alone, in whatever order they came and however many at a time; a waiting value is newer than what the
//! pages below say of its key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::mem;
use std::ops::Range;

use super::{
    HASH_BYTES, Hash, MapEnd, MapProof, MapStep, MapValue, bit_of, empty_root, map_leaf, map_node,
    prefix,
};

/// Bits of a key that a page holds.
const PAGE_BITS: u8 = 4;
/// Bytes of a slot with a hash, and of one with a leaf or a waiting value.
const HASH_SLOT: usize = 1 + HASH_BYTES;
const LEAF_SLOT: usize = 1 + HASH_BYTES + 8 + HASH_BYTES;
/// What the upper four bits of the first byte say; the lower four are a slot's digit. They are zero for a slot whose page is
/// stored. A waiting value has no digit.
const IS_LEAF: u8 = 0x10;
const IS_NOT_STORED: u8 = 0x20;
const WAITS: u8 = 0x30;
/// Values wait only in pages with at least this many digits. The pages above are few and change with every epoch anyway; and the
/// more pages a value could wait in, the more pages a proof would need.
pub const WAITING_DIGITS: u8 = 3;
/// The most bytes of a page in which values wait. In a WITHOUT ROWID table, SQLite moves part of a longer row to overflow pages.
const FULL: usize = 1_900;

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
pub struct MapPage {
    /// The slots that hold something, by their digits, in order.
    slots: Vec<(u8, Slot)>,
    /// The values that wait here for the pages below, in the order of their keys.
    waiting: Vec<(Hash, MapValue)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Leaf(Hash, MapValue),
    /// What is below. Its page is stored unless all of that still waits.
    Below {
        hash: Hash,
        is_stored: bool,
    },
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

    /// The number of digits.
    #[must_use]
    pub fn digits(self) -> u8 {
        self.digits
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
    /// Its bytes as stored: the slots that hold something, then the values that wait, in order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.length());
        let mut push = |first: u8, hash: &Hash, value: Option<&MapValue>| {
            out.push(first);
            out.extend(hash.0);
            if let Some(value) = value {
                out.extend(value.count.to_be_bytes());
                out.extend(value.head.0);
            }
        };
        for (digit, slot) in &self.slots {
            match slot {
                Slot::Leaf(key, value) => push(IS_LEAF | digit, key, Some(value)),
                Slot::Below { hash, is_stored } => {
                    let mark = if *is_stored { 0 } else { IS_NOT_STORED };
                    push(mark | digit, hash, None);
                }
            }
        }
        for (key, value) in &self.waiting {
            push(WAITS, key, Some(value));
        }
        out
    }

    /// The number of those bytes.
    fn length(&self) -> usize {
        let of = |(_, slot): &(u8, Slot)| match slot {
            Slot::Leaf(..) => LEAF_SLOT,
            Slot::Below { .. } => HASH_SLOT,
        };
        self.slots.iter().map(of).sum::<usize>() + LEAF_SLOT * self.waiting.len()
    }

    /// Reads a page from what [`Self::to_bytes`] writes.
    ///
    /// # Errors
    /// [`PageError::Form`] for any other bytes, or a leaf of another page.
    pub fn read(id: PageId, mut bytes: &[u8]) -> Result<Self, PageError> {
        let mut page = Self::default();
        while let Some(first) = bytes.first() {
            let (kind, digit) = (first & 0xf0, first & 0x0f);
            let has_key = matches!(kind, IS_LEAF | WAITS);
            let length = if has_key { LEAF_SLOT } else { HASH_SLOT };
            let (slot, rest) = bytes.split_at_checked(length).ok_or(PageError::Form)?;
            bytes = rest;
            let hash = |at: usize| {
                let bytes = slot.get(at..at + HASH_BYTES).ok_or(PageError::Form)?;
                Hash::try_from(bytes).map_err(|_| PageError::Form)
            };
            let key = hash(1)?;
            let leaf = || {
                let count = slot.get(HASH_SLOT..HASH_SLOT + 8).map(<[u8; 8]>::try_from);
                let Some(Ok(count)) = count else {
                    return Err(PageError::Form);
                };
                let value = MapValue {
                    count: u64::from_be_bytes(count),
                    head: hash(HASH_SLOT + 8)?,
                };
                let is_here = PageId::of(&key, id.digits) == id;
                match is_here && value.count > 0 {
                    true => Ok(value),
                    false => Err(PageError::Form),
                }
            };
            let slot = match kind {
                WAITS => {
                    let is_next = page.waiting.last().is_none_or(|(last, _)| *last < key);
                    let has_place = matches!(page.slot(id.digit(&key)), Some(Slot::Below { .. }));
                    let may_wait = id.digits >= WAITING_DIGITS;
                    if digit != 0 || !may_wait || !is_next || !has_place {
                        return Err(PageError::Form);
                    }
                    page.waiting.push((key, leaf()?));
                    continue;
                }
                IS_LEAF if id.digit(&key) == digit => Slot::Leaf(key, leaf()?),
                0 | IS_NOT_STORED if usize::from(id.digits) + 1 < 2 * HASH_BYTES => Slot::Below {
                    hash: key,
                    is_stored: kind == 0,
                },
                _ => return Err(PageError::Form),
            };
            let is_next = page.slots.last().is_none_or(|(last, _)| *last < digit);
            if !is_next || !page.waiting.is_empty() {
                return Err(PageError::Form);
            }
            page.slots.push((digit, slot));
        }
        let waits = |digit: u8| page.waiting(id, digit).len() > 1;
        let is_whole = page.slots.iter().all(|(digit, slot)| match slot {
            Slot::Below { is_stored, .. } => *is_stored || waits(*digit),
            Slot::Leaf(..) => true,
        });
        is_whole.then_some(page).ok_or(PageError::Form)
    }

    /// The values of its leaves, by key.
    pub fn leaves(&self) -> impl Iterator<Item = (Hash, MapValue)> {
        self.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Leaf(key, value) => Some((*key, *value)),
            Slot::Below { .. } => None,
        })
    }

    /// The pages below it, and the hash of what each holds.
    pub fn below(&self, id: PageId) -> impl Iterator<Item = (PageId, Hash)> {
        let slots = self.slots.iter();
        slots.filter_map(move |(digit, slot)| match slot {
            Slot::Below { hash, .. } => Some((id.below(*digit), *hash)),
            Slot::Leaf(..) => None,
        })
    }

    /// The hash of what it holds; that of an empty map if that is nothing.
    #[must_use]
    pub fn hash(&self, id: PageId) -> Hash {
        hash_of(id, &self.slots)
    }

    /// The place of a digit's slot, or where it would be.
    fn place(&self, digit: u8) -> Result<usize, usize> {
        self.slots.binary_search_by_key(&digit, |(digit, _)| *digit)
    }

    fn slot(&self, digit: u8) -> Option<Slot> {
        let place = self.place(digit).ok()?;
        Some(self.slots[place].1)
    }

    fn put(&mut self, digit: u8, slot: Slot) {
        match self.place(digit) {
            Ok(place) => self.slots[place].1 = slot,
            Err(place) => self.slots.insert(place, (digit, slot)),
        }
    }

    /// The values that wait here for the page of this digit.
    fn waiting(&self, id: PageId, digit: u8) -> &[(Hash, MapValue)] {
        with_digit(&self.waiting, |(key, _)| id.digit(key), digit)
    }

    fn wait(&mut self, values: &[(Hash, MapValue)]) {
        for (key, value) in values {
            match self.waiting.binary_search_by_key(key, |(key, _)| *key) {
                Ok(place) => self.waiting[place].1 = *value,
                Err(place) => self.waiting.insert(place, (*key, *value)),
            }
        }
    }

    /// Whether it hands down the values that wait here once it has grown by this many bytes. A page that is not to be stored
    /// keeps them: the pages below it would not be stored either.
    fn hands_down(&self, id: PageId, stores: bool, more: usize) -> bool {
        id.digits < WAITING_DIGITS || stores && self.length() + more > FULL
    }
}

/// The items that have this digit, of sorted ones.
fn with_digit<T>(items: &[T], of: impl Fn(&T) -> u8, digit: u8) -> &[T] {
    let first = items.partition_point(|item| of(item) < digit);
    let length = items[first..].partition_point(|item| of(item) == digit);
    &items[first..first + length]
}

/// The hash of what some slots of a page hold.
fn hash_of(id: PageId, slots: &[(u8, Slot)]) -> Hash {
    match slots {
        [] => empty_root(),
        [(_, Slot::Leaf(key, value))] => map_leaf(key, value),
        [(_, Slot::Below { hash, .. })] => *hash,
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

    /// Loads the pages on the paths of these keys, and of the values that wait for the same pages, level by level. `fetch`
    /// returns the pages that it is asked for. A page that it leaves out causes [`PageError::Missing`] later.
    ///
    /// # Errors
    /// Those of `fetch`.
    pub fn load<'k, E>(
        keys: impl IntoIterator<Item = &'k Hash>,
        mut fetch: impl FnMut(&[PageId]) -> Result<Vec<(PageId, MapPage)>, E>,
    ) -> Result<Self, E> {
        let mut keys: Vec<Hash> = keys.into_iter().copied().collect();
        keys.sort_unstable();
        let mut pages = Self::default();
        let mut level = vec![(PageId::ROOT, keys, true)];
        level.retain(|(_, keys, _)| !keys.is_empty());
        while !level.is_empty() {
            let ids: Vec<PageId> = level.iter().map(|(id, ..)| *id).collect();
            pages.pages.extend(fetch(&ids)?);
            let mut next = Vec::new();
            for (id, keys, stores) in &level {
                pages.next_level(*id, keys, *stores, &mut next);
            }
            level = next;
        }
        Ok(pages)
    }

    /// Lists the pages below a loaded one that setting the values of these keys may need, each with the keys that may be set there,
    /// and whether it may be stored then.
    fn next_level(
        &mut self,
        id: PageId,
        keys: &[Hash],
        stores: bool,
        next: &mut Vec<(PageId, Vec<Hash>, bool)>,
    ) {
        let Some(page) = self.pages.get(&id) else {
            return;
        };
        // Each key may take a leaf along.
        let may_hand_down = page.hands_down(id, stores, 2 * LEAF_SLOT * keys.len());
        let mut not_stored = Vec::new();
        for (digit, slot) in &page.slots {
            let own = with_digit(keys, |key| id.digit(key), *digit);
            let waiting = page.waiting(id, *digit);
            let is_needed = !own.is_empty() || may_hand_down && !waiting.is_empty();
            match slot {
                Slot::Below {
                    is_stored: false, ..
                } if is_needed => not_stored.push(id.below(*digit)),
                Slot::Below { .. } if is_needed => {
                    let mut keys: Vec<Hash> = waiting.iter().map(|(key, _)| *key).collect();
                    keys.extend(own);
                    keys.sort_unstable();
                    next.push((id.below(*digit), keys, stores && may_hand_down));
                }
                _ => {}
            }
        }
        let not_stored = not_stored.into_iter();
        (self.pages).extend(not_stored.map(|id| (id, MapPage::default())));
    }

    /// Loads a page and all that are below it, level by level. `fetch` is that of [`Self::load`].
    ///
    /// # Errors
    /// Those of `fetch`.
    pub fn load_below<E>(
        id: PageId,
        mut fetch: impl FnMut(&[PageId]) -> Result<Vec<(PageId, MapPage)>, E>,
    ) -> Result<Self, E> {
        let mut pages = Self::default();
        let mut level = vec![id];
        while !level.is_empty() {
            let mut next = Vec::new();
            for (id, page) in fetch(&level)? {
                for (digit, slot) in &page.slots {
                    match slot {
                        Slot::Leaf(..) => {}
                        Slot::Below {
                            is_stored: true, ..
                        } => next.push(id.below(*digit)),
                        Slot::Below { .. } => {
                            pages.pages.insert(id.below(*digit), MapPage::default());
                        }
                    }
                }
                pages.pages.insert(id, page);
            }
            level = next;
        }
        Ok(pages)
    }

    /// Checks that a page and all that are below it are those with this hash, and hands each of their leaves to `take`.
    ///
    /// # Errors
    /// [`PageError::Missing`] or [`PageError::Differs`] for the first page that is missing or has another hash.
    pub fn check(
        &mut self,
        id: PageId,
        hash: Hash,
        take: &mut impl FnMut(Hash, MapValue),
    ) -> Result<(), PageError> {
        let page = self.page(id)?.clone();
        if page.hash(id) != hash {
            return Err(PageError::Differs);
        }
        page.leaves().for_each(|(key, value)| take(key, value));
        for (below, hash) in page.below(id) {
            self.set_waiting(id, &page, below)?;
            self.check(below, hash, take)?;
        }
        Ok(())
    }

    /// The value of a key; `None` if the map does not have it.
    ///
    /// # Errors
    /// [`PageError::Missing`] for a page that is not loaded.
    pub fn value(&self, key: &Hash) -> Result<Option<MapValue>, PageError> {
        let mut id = PageId::ROOT;
        loop {
            let page = self.page(id)?;
            let waiting = &page.waiting;
            if let Ok(place) = waiting.binary_search_by_key(key, |(key, _)| *key) {
                return Ok(Some(waiting[place].1));
            }
            match page.slot(id.digit(key)) {
                Some(Slot::Below { .. }) => id = id.below(id.digit(key)),
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
        self.set_below(PageId::ROOT, &values, true)
    }

    /// As [`Self::set`], but for one page and sorted keys that belong to it. Returns the hash of what the page then holds. If
    /// `stores` is false, the page above keeps the values, and this one is updated in memory only, for its hash.
    fn set_below(
        &mut self,
        id: PageId,
        values: &[(Hash, MapValue)],
        stores: bool,
    ) -> Result<Hash, PageError> {
        let mut page = self.pages.remove(&id).ok_or(PageError::Missing)?;
        let mut touched = [false; 1 << PAGE_BITS];
        for alike in values.chunk_by(|(one, _), (next, _)| id.digit(one) == id.digit(next)) {
            let (key, value) = alike[0];
            let digit = id.digit(&key);
            touched[usize::from(digit)] = true;
            match (page.slot(digit), alike) {
                (None, [_]) => page.put(digit, Slot::Leaf(key, value)),
                (Some(Slot::Leaf(old, _)), [_]) if old == key => {
                    page.put(digit, Slot::Leaf(key, value));
                }
                (Some(Slot::Below { .. }), _) => page.wait(alike),
                // Several keys begin alike: they have a page of their own.
                (leaf, _) => {
                    if let Some(Slot::Leaf(old, value)) = leaf {
                        page.wait(&[(old, value)]);
                    }
                    page.wait(alike);
                    let (hash, is_stored) = (empty_root(), false);
                    page.put(digit, Slot::Below { hash, is_stored });
                    self.pages.insert(id.below(digit), MapPage::default());
                }
            }
        }
        let hands_down = page.hands_down(id, stores, 0);
        let waiting = mem::take(&mut page.waiting);
        for alike in waiting.chunk_by(|(one, _), (next, _)| id.digit(one) == id.digit(next)) {
            let digit = id.digit(&alike[0].0);
            if !hands_down && !touched[usize::from(digit)] {
                continue;
            }
            let stores = stores && hands_down;
            let hash = self.set_below(id.below(digit), alike, stores)?;
            let was_stored = matches!(
                page.slot(digit),
                Some(Slot::Below {
                    is_stored: true,
                    ..
                })
            );
            let is_stored = was_stored || stores;
            page.put(digit, Slot::Below { hash, is_stored });
        }
        if !hands_down {
            page.waiting = waiting;
        }
        let hash = page.hash(id);
        self.pages.insert(id, page);
        if stores && !values.is_empty() {
            self.changed.insert(id);
        }
        Ok(hash)
    }

    /// Sets in a page the values that wait for it in the page above.
    fn set_waiting(&mut self, above: PageId, page: &MapPage, id: PageId) -> Result<(), PageError> {
        let waiting = page.waiting(above, above.digit(&id.prefix));
        if !waiting.is_empty() {
            self.set_below(id, waiting, false)?;
        }
        Ok(())
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
    pub fn prove(&mut self, key: &Hash) -> Result<MapProof, PageError> {
        let mut id = PageId::ROOT;
        while let Some(Slot::Below { .. }) = self.page(id)?.slot(id.digit(key)) {
            let (above, page) = (id, self.page(id)?.clone());
            id = above.below(above.digit(key));
            self.set_waiting(above, &page, id)?;
        }
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
                [(digit, Slot::Below { .. })] => self.whole(page.below(*digit))?,
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
        let slots = 0..self.page(page)?.slots.len();
        Ok(Part { page, slots })
    }

    fn slots(&self, part: &Part) -> Result<&[(u8, Slot)], PageError> {
        let slots = self.page(part.page)?.slots.get(part.slots.clone());
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
    /// A page is not the one with the hash that the page above it has, or the ledger.
    Differs,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "a page of the map is malformed",
            Self::Missing => "a page of the map is missing",
            Self::Differs => "a page of the map is not the one that the ledger commits to",
        })
    }
}

impl std::error::Error for PageError {}
