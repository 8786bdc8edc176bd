use proptest::prelude::*;

use super::*;
use crate::ledger::map::pages::{MapPage, PageId};

/// A log that is made by hand, entry by entry.
#[derive(Clone, Default)]
pub(crate) struct HandmadeLog(pub(crate) Vec<Vec<u8>>);

impl HandmadeLog {
    /// The streams of its first entries.
    fn values(&self, size: usize) -> BTreeMap<[u8; 16], MapValue> {
        let leaves = self.0[..size].iter().filter_map(|bytes| {
            let leaf = Leaf::parse(bytes).ok()?;
            let (count, head) = (leaf.seq + 1, leaf_hash(bytes));
            Some((leaf.stream, MapValue { count, head }))
        });
        leaves.collect()
    }

    fn leaf(&self, stream: [u8; 16], commit: [u8; 32]) -> Leaf {
        let last = self.values(self.0.len()).remove(&stream);
        Leaf {
            commit,
            prev: last.map_or(Hash::ZERO, |last| last.head),
            seq: last.map_or(0, |last| last.count),
            stream,
            t: time(self.0.len()),
        }
    }

    fn push(mut self, leaf: &Leaf) -> Self {
        self.0.push(leaf.encode().unwrap());
        self
    }

    pub(crate) fn entry(self, stream: u8) -> Self {
        let leaf = self.leaf([stream; 16], [self.0.len() as u8; 32]);
        self.push(&leaf)
    }

    /// The true epoch of the first `size` entries.
    pub(crate) fn epoch(&self, size: usize) -> Epoch {
        Epoch {
            map_root: root(&self.values(size)),
            tree_size: size as u64,
            written_at: Timestamp::from_ms(time(size - 1)),
        }
    }

    pub(crate) fn says(self, epoch: &Epoch) -> Self {
        let leaf = self.leaf(Epoch::stream(), epoch.seal().unwrap().commit);
        self.push(&leaf)
    }

    fn mapped(self, size: usize) -> Self {
        let epoch = self.epoch(size);
        self.says(&epoch)
    }

    /// The audit in steps of `step` entries, with what it keeps at the end.
    fn audit(&self, step: usize) -> Result<(AuditedTo, Kept), MapFault> {
        let mut kept = Kept::default();
        let mut to = AuditedTo::default();
        for entries in self.0.chunks(step) {
            let audit = MapAudit::new(to, entries);
            let commits: Vec<[u8; 32]> = audit.commits().copied().collect();
            let known = kept.commits.clone().into_iter();
            let known = known.filter(|(commit, _)| commits.contains(commit));
            let pages = kept.load(&audit.keys());
            let done = audit.audit(pages, &known.collect()).unwrap()?;
            to = done.to;
            let changed = done.pages.changed();
            let changed = changed.map(|(id, page)| (id.to_bytes(), page.to_bytes()));
            kept.pages.extend(changed);
            kept.commits.extend(done.open);
            kept.commits.retain(|_, size| *size > to.covered);
        }
        Ok((to, kept))
    }
}

/// What a store keeps.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    pages: BTreeMap<Vec<u8>, Vec<u8>>,
    commits: MapCommits,
}

impl Kept {
    fn load(&self, keys: &BTreeSet<Hash>) -> Pages {
        if self.pages.is_empty() {
            return Pages::empty();
        }
        let page = |id: &PageId| {
            let bytes = &self.pages[&id.to_bytes()];
            (*id, MapPage::read(*id, bytes).unwrap())
        };
        let loaded = Pages::load(keys, |ids| {
            Ok::<_, PageError>(ids.iter().map(page).collect())
        });
        loaded.unwrap()
    }
}

fn id(stream: u8) -> [u8; 16] {
    [stream; 16]
}

fn time(index: usize) -> i64 {
    1_790_000_000_000 + index as i64
}

fn root(values: &BTreeMap<[u8; 16], MapValue>) -> Hash {
    let values = values
        .iter()
        .map(|(stream, value)| (key_of(stream), *value));
    Pages::empty().set(&values.collect()).unwrap()
}

/// Three streams of five entries, and a map of the first three.
fn log() -> HandmadeLog {
    let log = HandmadeLog::default().entry(1).entry(1).entry(2);
    log.mapped(3).entry(2).entry(3)
}

#[test]
fn a_log_that_tells_the_truth_passes() {
    #[rustfmt::skip]
    let cases = [
        ("nothing", HandmadeLog::default(), (0, 0, 0)),
        ("no map", HandmadeLog::default().entry(1).entry(1), (2, 0, 0)),
        ("one map", log(), (6, 3, 1)),
        ("a map of all", log().mapped(6), (7, 6, 2)),
        ("a map that lags", log().mapped(5), (7, 5, 2)),
        ("maps in steps", log().mapped(4).mapped(5).mapped(7), (9, 7, 4)),
        ("a map of a map", log().mapped(6).mapped(7), (8, 7, 3)),
        (
            "what is not an entry",
            {
                let mut log = log();
                log.0.push(b"{}".to_vec());
                log.entry(9).mapped(8)
            },
            (9, 8, 2),
        ),
    ];
    for (name, log, expected) in cases {
        let (size, covered, maps) = expected;
        let expected = AuditedTo {
            size,
            covered,
            maps,
        };
        let (to, _) = log
            .audit(usize::MAX)
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(to, expected, "{name}");
    }
}

#[test]
fn a_map_that_lies_is_named() {
    let lie = |change: fn(&HandmadeLog, &mut BTreeMap<[u8; 16], MapValue>)| {
        let log = log();
        let mut values = log.values(6);
        change(&log, &mut values);
        let map_root = root(&values);
        let epoch = Epoch {
            map_root,
            ..log.epoch(6)
        };
        log.says(&epoch)
    };
    let other = |change: fn(&mut Epoch)| {
        let mut epoch = log().epoch(6);
        change(&mut epoch);
        log().says(&epoch)
    };
    #[rustfmt::skip]
    let cases = [
        ("a stream is missing", lie(|_, all| { all.remove(&id(3)); })),
        ("the last entry of a stream is missing", lie(|log, all| {
            let before = log.values(4)[&id(2)];
            all.insert(id(2), before);
        })),
        ("a number is wrong", lie(|_, all| all.get_mut(&id(1)).unwrap().count += 1)),
        ("a last entry is wrong", lie(|_, all| all.get_mut(&id(1)).unwrap().head.0[0] ^= 1)),
        ("a stream is made up", lie(|_, all| {
            let value = all[&id(1)];
            all.insert(id(4), value);
        })),
        ("it says that it covers more", other(|epoch| epoch.tree_size += 1)),
        ("it says that it covers fewer", other(|epoch| epoch.tree_size -= 1)),
        ("its time is another", other(|epoch| epoch.written_at = Timestamp::from_ms(time(4)))),
        ("it covers what the last one covers", log().mapped(3)),
        ("it covers less than the last one", log().mapped(2)),
        ("it is said twice", log().mapped(6).mapped(6)),
    ];
    for (name, log) in cases {
        let index = log.0.len() as u64 - 1;
        let covered = if name == "it is said twice" { 6 } else { 3 };
        for step in [1, 2, usize::MAX] {
            let found = log.audit(step).map(|(to, _)| to);
            assert_eq!(found, Err(MapFault::Map { index, covered }), "{name}");
        }
        // What follows does not make it true.
        let later = log.entry(1).mapped(6).audit(usize::MAX);
        assert!(later.is_err(), "{name}");
    }
}

#[test]
fn an_entry_that_does_not_follow_its_stream_is_named() {
    let honest = log();
    let next = honest.leaf([1; 16], [9; 32]);
    let before = honest.values(1)[&id(1)];
    #[rustfmt::skip]
    let cases = [
        ("beside the last", Leaf { seq: 1, prev: before.head, ..next.clone() }),
        ("a beginning anew", Leaf { seq: 0, prev: Hash::ZERO, ..next.clone() }),
        ("a number that is left out", Leaf { seq: next.seq + 1, ..next.clone() }),
        ("another entry before it", Leaf { prev: Hash([8; 32]), ..next }),
    ];
    for (name, leaf) in cases {
        let found = honest.clone().push(&leaf).audit(usize::MAX);
        let found = found.map(|(to, _)| to);
        assert_eq!(found, Err(MapFault::Chain { index: 6 }), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_log_in_pieces_gives_what_it_gives_as_a_whole(
        acts in prop::collection::vec((any::<u8>(), 0..3_usize), 1..80),
        step in 1..40_usize,
        lies in any::<bool>(),
    ) {
        let (mut log, mut covered) = (HandmadeLog::default(), 0);
        for (stream, act) in acts {
            let size = log.0.len();
            if act == 0 && covered < size {
                covered += 1 + usize::from(stream) % (size - covered);
                log = log.mapped(covered);
            } else {
                log = log.entry(stream % 16);
            }
        }
        if lies {
            log = log.says(&Epoch { map_root: Hash([7; 32]), tree_size: 1, written_at: Timestamp::from_ms(0) });
        }
        let whole = log.audit(usize::MAX);
        prop_assert_eq!(whole.is_err(), lies);
        prop_assert_eq!(log.audit(step), whole);
    }
}
