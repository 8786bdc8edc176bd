use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::pages::{MapPage, PageError, PageId, Pages};
use super::*;
use crate::tests::is_long;

type Values = BTreeMap<Hash, MapValue>;

/// Pages as a store keeps them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stored(BTreeMap<Vec<u8>, Vec<u8>>);

impl Stored {
    fn new() -> Self {
        Self([(PageId::ROOT.to_bytes(), Vec::new())].into())
    }

    /// The pages on the paths of some keys, loaded level by level.
    fn load<'a>(&self, keys: impl IntoIterator<Item = &'a Hash>) -> Pages {
        let page = |id: &PageId| {
            let bytes = &self.0[&id.to_bytes()];
            assert_eq!(PageId::read(&id.to_bytes()), Ok(*id));
            let page = MapPage::read(*id, bytes).unwrap();
            assert_eq!(page.to_bytes(), *bytes);
            (*id, page)
        };
        let loaded = Pages::load(keys, |ids| {
            Ok::<_, PageError>(ids.iter().map(page).collect())
        });
        loaded.unwrap()
    }

    /// Sets values, and returns the root.
    fn set(&mut self, values: &Values) -> Hash {
        let mut pages = self.load(values.keys());
        let root = pages.set(values).unwrap();
        let changed = pages.changed();
        (self.0).extend(changed.map(|(id, page)| (id.to_bytes(), page.to_bytes())));
        root
    }

    /// All leaves, if the pages are exactly those of the map with this root.
    fn leaves(&self, root: Hash) -> Result<Values, PageError> {
        let mut met = 0;
        let page = |id: &PageId| {
            let bytes = self.0.get(&id.to_bytes())?;
            Some(MapPage::read(*id, bytes).map(|page| (*id, page)))
        };
        let mut pages = Pages::load_below(PageId::ROOT, |ids| {
            let found: Result<Vec<_>, _> = ids.iter().filter_map(page).collect();
            met += found.as_ref().map_or(0, Vec::len);
            found
        })?;
        let mut leaves = Values::new();
        pages.check(PageId::ROOT, root, &mut |key, value| {
            assert_eq!(leaves.insert(key, value), None);
        })?;
        assert_eq!(met, self.0.len(), "pages of no map");
        Ok(leaves)
    }
}

/// All pages of a map that is made at once.
fn built(values: &Values) -> (Pages, Hash) {
    let mut pages = Pages::empty();
    let root = pages.set(values).unwrap();
    (pages, root)
}

/// Keys that often begin alike, even over many bits, and values.
fn values(most: usize) -> impl Strategy<Value = Values> {
    let bits = prop::collection::vec(0..256_usize, 0..3);
    let near = (any::<bool>(), bits).prop_map(|(ones, bits)| {
        let mut key = [if ones { 0xff } else { 0 }; 32];
        for bit in bits {
            key[bit / 8] ^= 0x80 >> (bit % 8);
        }
        key
    });
    let key = prop_oneof![near, any::<[u8; 32]>()];
    let value = (1..u64::MAX, any::<[u8; 32]>()).prop_map(|(count, head)| MapValue {
        count,
        head: Hash(head),
    });
    prop::collection::btree_map(key.prop_map(Hash), value, 0..most)
}

/// The root by the definition alone: recursively, over sorted keys.
fn defined(values: &[(Hash, MapValue)]) -> Hash {
    match values {
        [] => empty_root(),
        [(key, value)] => map_leaf(key, value),
        [(first, _), .., (last, _)] => {
            let bit = (0..=255).find(|bit| bit_of(first, *bit) != bit_of(last, *bit));
            let bit = bit.unwrap();
            let zeros = values.partition_point(|(key, _)| !bit_of(key, bit));
            let (left, right) = values.split_at(zeros);
            map_node(bit, first, &defined(left), &defined(right))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 96 } else { 24 }))]

    #[test]
    fn order_and_steps_do_not_matter(all in values(80), order: Vec<prop::sample::Index>, step in 1..9_usize) {
        let mut left: Vec<(Hash, MapValue)> = all.iter().map(|(k, v)| (*k, *v)).collect();
        let mut shuffled = Vec::new();
        let mut order = order.iter();
        while !left.is_empty() {
            let at = order.next().map_or(0, |index| index.index(left.len()));
            shuffled.push(left.swap_remove(at));
        }
        let mut stored = Stored::new();
        let mut known = Values::new();
        let mut root = empty_root();
        for some in shuffled.chunks(step) {
            // Earlier values are replaced.
            let before: Values = some.iter().map(|(k, v)| (*k, MapValue { count: 1, ..*v })).collect();
            stored.set(&before);
            let some: Values = some.iter().copied().collect();
            root = stored.set(&some);
            known.extend(some);
            prop_assert_eq!(root, built(&known).1);
        }
        prop_assert_eq!(&known, &all);
        let (_, rebuilt) = built(&all);
        let sorted: Vec<_> = all.iter().map(|(k, v)| (*k, *v)).collect();
        prop_assert_eq!((root, rebuilt), (defined(&sorted), defined(&sorted)));
        for (key, value) in &all {
            let proof = stored.load([key]).prove(key).unwrap();
            prop_assert_eq!(proof.verify(&root, key), Ok(Some(*value)));
            prop_assert_eq!(stored.load([key]).value(key), Ok(Some(*value)));
        }
        prop_assert_eq!(stored.leaves(root), Ok(all));
    }

    #[test]
    fn members_are_proven_and_others_are_proven_absent(all in values(30), others in values(10)) {
        let (mut pages, root) = built(&all);
        let mut stored = Stored::new();
        if !all.is_empty() {
            stored.set(&all);
        }
        for (key, value) in &all {
            let proof = pages.prove(key).unwrap();
            prop_assert_eq!(&stored.load([key]).prove(key).unwrap(), &proof);
            prop_assert_eq!(proof.verify(&root, key), Ok(Some(*value)));
            prop_assert_eq!(verify_value(&root, key, value, &proof.path), Ok(()));
            let more = MapValue { count: value.count + 1, ..*value };
            prop_assert_eq!(verify_value(&root, key, &more, &proof.path), Err(MapError::Root));
        }
        for key in others.keys().filter(|key| !all.contains_key(key)) {
            let proof = pages.prove(key).unwrap();
            prop_assert_eq!(proof.verify(&root, key), Ok(None));
            // A proof that one key is absent does not show that another one is.
            for (present, value) in &all {
                prop_assert!(!matches!(proof.verify(&root, present), Ok(None)));
                prop_assert!(verify_value(&root, key, value, &proof.path).is_err());
            }
        }
    }

    #[test]
    fn no_bit_of_a_proof_can_change(all in values(24), others in values(4)) {
        let (mut pages, root) = built(&all);
        for key in all.keys().take(4).chain(others.keys()) {
            let proof = pages.prove(key).unwrap();
            let right = proof.verify(&root, key);
            prop_assert!(right.is_ok());
            for flipped in flips(&proof) {
                prop_assert!(flipped.verify(&root, key).is_err(), "{:?}", flipped);
            }
            for bit in 0..=255 {
                let other = Hash(flip(root.0, bit));
                prop_assert!(proof.verify(&other, key).is_err());
            }
        }
    }
}

fn flip(mut bytes: [u8; 32], bit: u8) -> [u8; 32] {
    bytes[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
    bytes
}

/// The proof with each of its bits flipped, with a step less, a step twice, and two steps exchanged.
fn flips(proof: &MapProof) -> Vec<MapProof> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut MapProof)| {
        let mut flipped = proof.clone();
        change(&mut flipped);
        all.push(flipped);
    };
    for at in 0..proof.path.len() {
        for bit in 0..8 {
            with(&|proof| proof.path[at].bit ^= 1 << bit);
        }
        for bit in 0..=255 {
            with(&|proof| proof.path[at].hash.0 = flip(proof.path[at].hash.0, bit));
        }
        with(&|proof| {
            proof.path.remove(at);
        });
        with(&|proof| proof.path.insert(at, proof.path[at]));
        if at > 0 {
            with(&|proof| proof.path.swap(at - 1, at));
        }
    }
    for bit in 0..=255 {
        with(&|proof| match &mut proof.end {
            MapEnd::Empty => {
                proof.end = MapEnd::Leaf {
                    key: Hash(flip([0; 32], bit)),
                    value: MapValue {
                        count: 1,
                        head: Hash::ZERO,
                    },
                }
            }
            MapEnd::Leaf { key, .. } => key.0 = flip(key.0, bit),
            MapEnd::Node { prefix, .. } => prefix.0 = flip(prefix.0, bit),
        });
        with(&|proof| match &mut proof.end {
            MapEnd::Empty => proof.path.push(MapStep {
                bit,
                hash: Hash::ZERO,
            }),
            MapEnd::Leaf { value, .. } => value.head.0 = flip(value.head.0, bit),
            MapEnd::Node { left, .. } => left.0 = flip(left.0, bit),
        });
        with(&|proof| match &mut proof.end {
            MapEnd::Empty => proof.path.push(MapStep {
                bit,
                hash: Hash::ZERO,
            }),
            MapEnd::Leaf { value, .. } => value.count ^= 1 << (bit % 64),
            MapEnd::Node { right, .. } => right.0 = flip(right.0, bit),
        });
    }
    for bit in 0..8 {
        with(&|proof| match &mut proof.end {
            MapEnd::Node { bit: at, .. } => *at ^= 1 << bit,
            other => {
                *other = MapEnd::Node {
                    bit,
                    prefix: Hash::ZERO,
                    left: Hash::ZERO,
                    right: Hash::ZERO,
                }
            }
        });
    }
    all
}

fn value(n: u8) -> MapValue {
    MapValue {
        count: u64::from(n),
        head: Hash([n; 32]),
    }
}

#[test]
fn a_node_that_a_key_could_be_below_does_not_show_that_it_is_absent() {
    // The maker of a map can give a node any prefix. The end must still lie where the path leads.
    let key = Hash([0; 32]);
    let (left, right) = (Hash([1; 32]), Hash([2; 32]));
    let step = MapStep { bit: 7, hash: left };
    for (bit, begins, good) in [
        (16, [0; 32], false),
        (16, flip([0; 32], 12), true),
        (16, flip([0; 32], 16), false),
        (16, flip([0; 32], 200), false),
        (16, flip([0; 32], 3), false),
        (16, flip([0; 32], 7), false),
        (7, flip([0; 32], 3), false),
    ] {
        let begins = Hash(begins);
        let end = MapEnd::Node {
            bit,
            prefix: begins,
            left,
            right,
        };
        let path = vec![step];
        let root = map_node(7, &key, &map_node(bit, &begins, &left, &right), &left);
        let found = MapProof { path, end }.verify(&root, &key);
        assert_eq!(found == Ok(None), good, "{bit} {begins}");
    }
    let misplaced = MapProof {
        path: vec![step],
        end: MapEnd::Leaf {
            key: Hash(flip([0; 32], 7)),
            value: value(1),
        },
    };
    assert_eq!(misplaced.verify(&left, &key), Err(MapError::End));
}

#[test]
fn a_page_has_one_spelling() {
    let mut pages = Pages::empty();
    let keys = [0x00, 0x01, 0x10, 0xff].map(|first| Hash([first; 32]));
    pages.set(&keys.map(|key| (key, value(3))).into()).unwrap();
    let mut lengths = BTreeSet::new();
    for (id, page) in pages.changed() {
        let bytes = page.to_bytes();
        lengths.insert(bytes.len());
        assert_eq!(MapPage::read(id, &bytes).as_ref(), Ok(page));
        for at in 0..bytes.len() {
            assert!(MapPage::read(id, &bytes[..at]).as_ref() != Ok(page));
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert!(MapPage::read(id, &other).as_ref() != Ok(page));
            }
        }
    }
    assert_eq!(lengths, [33 + 73 + 73, 73 + 73].into());
    // Leaves, values that wait, and pages that are stored and not stored.
    let mut stored = Stored::new();
    let name = [3, 0, 0];
    let (id, bytes) = neighbours(60)
        .into_iter()
        .find_map(|one| {
            stored.set(&[one].into());
            let bytes = stored.0.get(&name[..])?;
            let (mut kinds, mut rest) = (BTreeSet::new(), &bytes[..]);
            while let [first, ..] = rest {
                kinds.insert(first & 0xf0);
                let has_key = [0x10, 0x30].contains(&(first & 0xf0));
                rest = &rest[if has_key { 73 } else { 33 }..];
            }
            let id = PageId::read(&name).unwrap();
            (kinds.len() == 4).then(|| (id, bytes.clone()))
        })
        .unwrap();
    let page = MapPage::read(id, &bytes).unwrap();
    assert_eq!(page.to_bytes(), bytes);
    for at in 0..bytes.len() {
        assert!(MapPage::read(id, &bytes[..at]).as_ref() != Ok(&page));
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            assert!(MapPage::read(id, &other).as_ref() != Ok(&page));
        }
    }
    for bad in [&[][..], &[0, 0], &[1], &[1, 0x01], &[2, 0, 0], &[64], &[63]] {
        assert_eq!(PageId::read(bad), Err(PageError::Form), "{bad:?}");
    }
    // No value waits this far up, where the hashes do not say so.
    let waiting = [&[0; 33], &[0x30; 73][..]].concat();
    for bad in [&[0; 32][..], &[0x20; 33], &[0x80; 73], &waiting] {
        assert_eq!(MapPage::read(PageId::ROOT, bad), Err(PageError::Form));
    }
    let missing = Pages::default().set(&Values::new());
    assert_eq!(missing, Err(PageError::Missing));
}

#[test]
fn keys_in_any_order_load_their_pages_once_and_no_keys_load_none() {
    let keys = [0x00, 0x01, 0x10, 0xff].map(|first| Hash([first; 32]));
    let mut stored = Stored::new();
    stored.set(&keys.map(|key| (key, value(3))).into());
    let mut fetched = Vec::new();
    let mut load = |keys: &[Hash], most: usize| {
        fetched.clear();
        let pages = Pages::load(keys, |ids| {
            fetched.extend_from_slice(ids);
            let page = |id: &PageId| (*id, MapPage::read(*id, &stored.0[&id.to_bytes()]).unwrap());
            Ok::<_, PageError>(ids.iter().take(most).map(page).collect())
        });
        (pages.unwrap(), fetched.len())
    };
    assert_eq!(load(&[], 9).1, 0);
    let [first, second, third, _] = keys;
    let (pages, fetched) = load(&[third, second, first, second], 9);
    assert_eq!(fetched, 2);
    assert_eq!(pages.value(&second), Ok(Some(value(3))));
    let (mut pages, _) = load(&[first], 0);
    assert_eq!(pages.value(&first), Err(PageError::Missing));
    assert_eq!(pages.prove(&first), Err(PageError::Missing));
}

/// Keys that begin with the same three digits, and values that tell them apart.
fn neighbours(count: u64) -> Vec<(Hash, MapValue)> {
    let key = |n: u64| {
        let mut key = Hash::of(&n.to_be_bytes());
        (key.0[0], key.0[1]) = (0, key.0[1] & 0x0f);
        (
            key,
            MapValue {
                count: 1,
                head: Hash::of(&[1]),
            },
        )
    };
    (0..count).map(key).collect()
}

#[test]
fn values_wait_above_until_a_page_is_full_of_them() {
    let mut stored = Stored::new();
    let mut all = Values::new();
    let mut written = 0;
    for some in neighbours(900).chunks(3) {
        let some: Values = some.iter().copied().collect();
        all.extend(&some);
        let mut pages = stored.load(some.keys());
        let root = pages.set(&some).unwrap();
        // Those above the third digit, and that page.
        written += pages.changed().count() - 4;
        let changed = pages.changed();
        (stored.0).extend(changed.map(|(id, page)| (id.to_bytes(), page.to_bytes())));
        let sorted: Vec<_> = all.iter().map(|(key, value)| (*key, *value)).collect();
        assert_eq!(root, defined(&sorted));
    }
    let longest = stored.0.values().map(Vec::len).max();
    assert!(
        longest.is_some_and(|bytes| (1_700..=1_900).contains(&bytes)),
        "{longest:?}"
    );
    // Three values have some five pages of their own below it.
    assert!(written < 3 * 300, "{written}");
}

/// As an audit does.
#[test]
fn values_set_one_by_one_in_the_same_pages_are_kept() {
    let all: Values = neighbours(900).into_iter().collect();
    let sorted: Vec<_> = all.iter().map(|(key, value)| (*key, *value)).collect();
    for step in [7, 40, 200] {
        let mut stored = Stored::new();
        let mut root = empty_root();
        for some in neighbours(900).chunks(step) {
            let mut pages = stored.load(some.iter().map(|(key, _)| key));
            for (key, value) in some {
                root = pages.set(&[(*key, *value)].into()).unwrap();
                assert_eq!(pages.value(key), Ok(Some(*value)));
            }
            let changed = pages.changed();
            (stored.0).extend(changed.map(|(id, page)| (id.to_bytes(), page.to_bytes())));
        }
        assert_eq!(root, defined(&sorted));
        assert_eq!(stored.leaves(root).as_ref(), Ok(&all));
    }
}

#[test]
fn a_page_that_is_missing_or_changed_is_found() {
    let mut stored = Stored::new();
    let mut all = Values::new();
    for some in neighbours(150).chunks(30) {
        stored.set(&some.iter().copied().collect());
        all.extend(some.iter().copied());
    }
    // Some values wait above what the pages below say of the same keys.
    let newer = neighbours(12)
        .into_iter()
        .map(|(key, value)| (key, MapValue { count: 2, ..value }));
    let newer: Values = newer.collect();
    let root = stored.set(&newer);
    all.extend(newer);
    assert_eq!(stored.leaves(root).as_ref(), Ok(&all));
    assert!(stored.0.len() > 8, "{}", stored.0.len());
    let mut outdated = 0;
    let step = if is_long() { 1 } else { 7 };
    for (nth, (id, bytes)) in stored.0.iter().enumerate() {
        let mut less = stored.clone();
        less.0.remove(id);
        assert_eq!(less.leaves(root), Err(PageError::Missing));
        for at in (nth % step..bytes.len()).step_by(step) {
            let mut other = stored.clone();
            other.0.get_mut(id).unwrap()[at] ^= 1;
            match other.leaves(root) {
                Err(_) => {}
                // Only what a value that waits above replaces may change: the map is the same.
                Ok(leaves) => {
                    assert_eq!(leaves, all);
                    outdated += 1;
                }
            }
        }
    }
    println!("{outdated} bytes are outdated");
}

/// The vectors of `tests/vectors/map.json`, which another implementation judges too.
#[test]
fn the_vectors_are_those_of_this_map() {
    let streams: Vec<[u8; 16]> = (0..24_u8)
        .map(|n| Hash::of(&[n]).0[..16].try_into().unwrap())
        .collect();
    let mut maps = Vec::new();
    for size in [0, 1, 2, 3, 24] {
        let of = |(n, stream): (usize, &[u8; 16])| {
            let n = n as u8 + 1;
            let count = if n == 3 { u64::MAX >> 11 } else { u64::from(n) };
            (
                *stream,
                MapValue {
                    count,
                    head: Hash::of(&[n, n]),
                },
            )
        };
        let values: Vec<_> = streams[..size].iter().enumerate().map(of).collect();
        let (mut pages, root) = built(
            &values
                .iter()
                .map(|(stream, value)| (key_of(stream), *value))
                .collect(),
        );
        let proofs = [0, 1, 2, 22, 23].map(|n| {
            let proof = pages.prove(&key_of(&streams[n])).unwrap();
            assert_eq!(
                proof.verify(&root, &key_of(&streams[n])).unwrap().is_some(),
                n < size
            );
            json!({"stream": hex::encode(streams[n]), "proof": proof})
        });
        let shown: Vec<Value> = values.iter().map(|(stream, value)| {
            json!({"stream": hex::encode(stream), "count": value.count, "head": value.head})
        }).collect();
        maps.push(json!({"root": root, "streams": shown, "proofs": proofs}));
    }
    let text = serde_json::to_string_pretty(&json!({"maps": maps})).unwrap() + "\n";
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/map.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap_or_default(),
        text,
        "run this test with UPDATE=1"
    );
}

/// In steps, as epochs are made. With `LONG=1`, a million streams.
#[test]
fn a_proof_is_short_and_a_step_touches_little() {
    let count = if is_long() { 1_000_000 } else { 20_000 };
    let key = |n: u128| key_of(&n.to_be_bytes());
    let mut stored = Stored::new();
    let mut touched = 0;
    let mut root = empty_root();
    for first in (0..count).step_by(4_096) {
        let some = first..(first + 4_096).min(count);
        let values: Values = some.map(|n| (key(n), value(1))).collect();
        let mut pages = stored.load(values.keys());
        root = pages.set(&values).unwrap();
        touched = pages.changed().count();
        let changed = pages.changed();
        (stored.0).extend(changed.map(|(id, page)| (id.to_bytes(), page.to_bytes())));
        assert!(touched <= values.len() * 6, "{touched}");
    }
    let mut keys: Vec<Hash> = (0..count).map(key).collect();
    keys.sort_unstable();
    let (mut most, mut sum) = (0, 0);
    let mut parts = vec![(&keys[..], 0)];
    while let Some((part, depth)) = parts.pop() {
        let [first, .., last] = part else {
            most = most.max(depth);
            sum += depth;
            continue;
        };
        let bit = (0..=255).find(|bit| bit_of(first, *bit) != bit_of(last, *bit));
        let zeros = part.partition_point(|key| !bit_of(key, bit.unwrap()));
        let (left, right) = part.split_at(zeros);
        parts.extend([(left, depth + 1), (right, depth + 1)]);
    }
    for key in keys.iter().step_by(keys.len() / 100) {
        let proof = stored.load([key]).prove(key).unwrap();
        assert_eq!(proof.verify(&root, key), Ok(Some(value(1))));
        assert!(proof.path.len() <= most);
    }
    let bytes: usize = stored
        .0
        .iter()
        .map(|(id, page)| id.len() + page.len())
        .sum();
    println!(
        "{count} streams: {:.2} hashes on average, {most} at most; {} pages, {:.0} bytes a stream; {touched} pages for the last step",
        sum as f64 / count as f64,
        stored.0.len(),
        bytes as f64 / count as f64
    );
    assert!(most <= 40);
}
