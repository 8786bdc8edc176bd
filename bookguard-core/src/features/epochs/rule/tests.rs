use super::*;
use crate::evidence::Epoch;
use crate::evidence::facts::LeafPlace;
use crate::ledger::{Hash, Leaf, LeafKind};
use crate::limits::EPOCH_ENTRIES;

fn now() -> Timestamp {
    Timestamp::from_ms(1_790_000_000_000)
}

fn epoch(size: u64) -> Epoch {
    Epoch {
        map_root: Hash([5; 32]),
        tree_size: size,
        written_at: now(),
    }
}

fn batch(size: u64, latest: Option<(u64, u64)>) -> BatchState {
    BatchState {
        size,
        origin: "log".to_owned(),
        epoch: latest.map(|(index, seq)| LoggedEpoch {
            place: LeafPlace {
                index,
                hash: Hash([6; 32]),
                at: now(),
            },
            seq,
            epoch: epoch(index),
        }),
        ..BatchState::default()
    }
}

fn record(after: Option<u64>, size: u64) -> RecordEpoch {
    RecordEpoch {
        origin: "log".to_owned(),
        after,
        epoch: epoch(size),
        pages: Arc::new([(vec![0], vec![])]),
        is_behind: false,
    }
}

#[test]
fn an_epoch_is_overdue_after_several_intervals() {
    for (written_ms, expected) in [
        (0, false),
        (-60_000, false),
        (-300_000, false),
        (-300_001, true),
        // A clock was ahead.
        (600_000, false),
    ] {
        let found = is_overdue(now().plus_ms(written_ms), now(), 60_000);
        assert_eq!(found, expected, "{written_ms}");
    }
}

#[test]
fn an_entry_waits_for_the_interval_unless_many_do() {
    for (entries, written_ms, is_due) in [
        (1, 0, false),
        (1, -59_999, false),
        (1, -60_000, true),
        (EPOCH_ENTRIES - 1, 0, false),
        (EPOCH_ENTRIES, 0, true),
        // A clock was ahead.
        (1, 60_000, false),
        (1, 60_001, true),
    ] {
        let found = is_time(
            (entries, EPOCH_ENTRIES),
            now().plus_ms(written_ms),
            now(),
            60_000,
        );
        assert_eq!(found, is_due, "{entries} {written_ms}");
    }
}

#[test]
fn an_epoch_becomes_the_next_entry_of_its_chain_together_with_its_pages() {
    for (latest, seq, prev) in [(None, 0, Hash::ZERO), (Some((7, 2)), 3, Hash([6; 32]))] {
        let after = latest.map(|(index, _)| index);
        let (changes, recorded) = record(after, 9).decide(&batch(9, latest), now()).unwrap();
        assert!(recorded);
        let [Change::Entry(entry), Change::Mapped(written)] = &changes[..] else {
            panic!("{changes:?}")
        };
        let leaf = Leaf::parse(&entry.leaf).unwrap();
        assert_eq!(
            (leaf.stream, leaf.seq, leaf.prev),
            (Epoch::stream(), seq, prev)
        );
        assert_eq!((entry.index, entry.booking_id), (9, None));
        assert_eq!(entry.fact.kind, LeafKind::LogMapped);
        let members = format!(
            r#"{{"mapRoot":"{}","treeSize":9,"writtenAt":"{}"}}"#,
            Hash([5; 32]),
            now()
        );
        assert_eq!(entry.fact.members, members);
        assert_eq!(
            (written.epoch.place, written.epoch.seq),
            (entry.place(), seq)
        );
        // The same epoch by another node, in the same batch.
        let mut after = batch(9, latest);
        changes.iter().for_each(|change| after.apply(change));
        let again = record(latest.map(|(index, _)| index), 9).decide(&after, now());
        let (changes, recorded) = again.unwrap();
        assert!(changes.is_empty() && !recorded);
    }
}

#[test]
fn an_epoch_of_another_log_or_time_is_dropped() {
    let renamed = BatchState {
        origin: "other".to_owned(),
        ..batch(9, None)
    };
    for (batch, after) in [
        (renamed, None),
        (batch(8, None), None),
        (batch(9, Some((7, 2))), None),
        (batch(9, Some((7, 2))), Some(6)),
        (batch(9, None), Some(6)),
    ] {
        let (changes, recorded) = record(after, 9).decide(&batch, now()).unwrap();
        assert!(changes.is_empty() && !recorded, "{after:?}");
    }
}
