use super::*;
use crate::features::timestamps::Unstamped;
use crate::limits::DAY_MS;

fn now() -> Timestamp {
    Timestamp::from_ms(1_790_000_000_000)
}
const INTERVAL_MS: i64 = 600_000;

fn batch(size: u64, stamping: Stamping, stamped: Option<u64>) -> BatchState {
    BatchState {
        size,
        stamping,
        stamped,
        origin: "log".to_owned(),
        ..BatchState::default()
    }
}

fn stamping(after_ms: i64, asked: u32) -> Stamping {
    Stamping {
        next: now().plus_ms(after_ms),
        asked,
        trouble: None,
    }
}

fn record(size: u64) -> RecordStamp {
    RecordStamp {
        of: Unstamped {
            origin: "log".to_owned(),
            size,
            checkpoint: "checkpoint".to_owned(),
            imprint: [0; 32],
        },
        time: now(),
        response: vec![1, 2, 3],
        interval_ms: INTERVAL_MS,
        stream: [7; 16],
        seed: [8; 32],
    }
}

#[test]
fn a_turn_is_taken_when_the_pause_is_over_and_no_sooner() {
    let take = TakeTurn {
        interval_ms: INTERVAL_MS,
    };
    for (after_ms, asked, pause_s) in [
        (0, 0, Some(30)),
        (-1, 1, Some(60)),
        (0, 3, Some(240)),
        (0, 40, Some(3_600)),
        (1, 0, None),
        (STAMP_PAUSE_MAX_MS, 9, None),
        // A clock was ahead.
        (STAMP_PAUSE_MAX_MS + 1, 0, Some(30)),
    ] {
        let batch = batch(5, stamping(after_ms, asked), None);
        let (changes, turn) = take.decide(&batch, now()).unwrap();
        assert_eq!(turn, pause_s.map(|_| asked + 1), "{after_ms} {asked}");
        let next = changes.iter().map(|change| match change {
            Change::StampingChanged(stamping) => stamping.next.ms() - now().ms(),
            other => panic!("{other:?}"),
        });
        let expected = pause_s.map(|s: i64| s * 1_000);
        assert_eq!(next.collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

#[test]
fn what_was_logged_is_stamped_and_the_entry_of_a_stamp_alone_is_not() {
    let ago = |ms: i64| now().plus_ms(-ms);
    for (size, last, wanted) in [
        (0, None, false),
        (1, None, true),
        (5, Some((4, ago(1))), false),
        (6, Some((4, ago(1))), true),
        // Two were written while the authority was asked.
        (7, Some((4, ago(1))), true),
        (5, Some((4, ago(STAMP_IDLE_MS - 1))), false),
        (5, Some((4, ago(STAMP_IDLE_MS))), true),
    ] {
        assert_eq!(is_wanted(size, last, now()), wanted, "{size} {last:?}");
    }
}

#[test]
fn stamping_has_stopped_if_even_a_log_at_rest_would_have_been_stamped() {
    for (age_ms, stopped) in [
        (STAMP_IDLE_MS, false),
        (8 * DAY_MS, false),
        (8 * DAY_MS + 1, true),
        // A clock was ahead.
        (-DAY_MS, false),
    ] {
        assert_eq!(
            has_stopped(now().plus_ms(-age_ms), now()),
            stopped,
            "{age_ms}"
        );
    }
}

#[test]
fn a_stamp_becomes_an_entry_and_ends_the_questions() {
    let before = Stamping {
        trouble: Some("it was away".to_owned()),
        ..stamping(30_000, 2)
    };
    let batch = batch(9, before, Some(4));
    let (changes, recorded) = record(7).decide(&batch, now()).unwrap();
    assert!(recorded);
    let [
        Change::Entry(entry),
        Change::Stamped(stamp),
        Change::StampingChanged(after),
    ] = &changes[..]
    else {
        panic!("{changes:?}")
    };
    assert_eq!(
        (entry.index, entry.booking_id, entry.fact.kind),
        (9, None, LeafKind::LogAnchored)
    );
    let hash = Anchor::hash(&[1, 2, 3]);
    assert_eq!(
        entry.fact.members,
        format!(
            r#"{{"anchoredAt":"{}","responseHash":"{hash}","treeSize":7}}"#,
            now()
        )
    );
    assert_eq!((stamp.leaf, stamp.size, stamp.time), (9, 7, now()));
    assert_eq!(**after, stamping(INTERVAL_MS, 0));
}

#[test]
fn a_checkpoint_is_stamped_once_and_only_while_the_log_has_it() {
    let renamed = BatchState {
        origin: "other".to_owned(),
        ..batch(9, stamping(0, 1), None)
    };
    for batch in [
        batch(9, stamping(0, 1), Some(7)),
        batch(9, stamping(0, 1), Some(8)),
        batch(6, stamping(0, 1), None),
        renamed,
    ] {
        let (changes, recorded) = record(7).decide(&batch, now()).unwrap();
        assert!(changes.is_empty() && !recorded);
    }
}

#[test]
fn trouble_is_noted_in_a_sentence_of_bounded_length() {
    let note = NoteTrouble {
        why: "x".repeat(10_000),
    };
    let (changes, ()) = note.decide(&batch(9, stamping(5, 2), None), now()).unwrap();
    let [Change::StampingChanged(after)] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert_eq!((after.next, after.asked), (now().plus_ms(5), 2));
    let kept = after.trouble.as_ref().unwrap().chars().count();
    assert!(kept <= STAMP_TROUBLE_CHARS + 1, "{kept}");
}
