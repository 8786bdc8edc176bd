//! When a state begins, what is probed meanwhile, and what is reported about it.

use super::*;

const S: Duration = Duration::from_secs(1);

fn failed(outage: &mut Option<Outage>, error: &StoreError, now: Instant) -> bool {
    Outage::note(outage, "writes fail", error, now).is_some()
}

#[test]
fn an_outage_is_reported_once_per_reason_and_once_when_it_is_over() {
    let began = Instant::now();
    let mut outage = None;
    assert!(failed(&mut outage, &StoreError::Full, began));
    assert!(!failed(&mut outage, &StoreError::Full, began + S));
    let other = StoreError::Failed("disk I/O error".to_owned());
    assert!(failed(&mut outage, &other, began + S));
    assert!(!failed(&mut outage, &StoreError::Full, began + 2 * S));
    assert_eq!(Outage::lasts(outage.as_ref()), Some(Reason::Full));
    assert!(Outage::ended(&mut outage, began + 9 * S).is_none());
    // A small write still fits; the next large one does not.
    outage.as_mut().unwrap().over = Some(began + 3 * S);
    assert_eq!(Outage::lasts(outage.as_ref()), None);
    assert!(Outage::ended(&mut outage, began + 3 * S).is_none());
    assert!(!failed(&mut outage, &StoreError::Full, began + 3 * S));
    assert!(Outage::ended(&mut outage, began + 9 * S).is_none());
    outage.as_mut().unwrap().over = Some(began + 12 * S);
    let (ended, lasted) = Outage::ended(&mut outage, began + 13 * S).unwrap();
    assert_eq!((ended.times, lasted), (5, 12));
    assert!(outage.is_none());
}

#[test]
fn a_cause_for_which_reads_fail_is_reported_once_a_minute_with_their_number() {
    let began = Instant::now();
    let mut state = State::default();
    assert!(state.note_read("silent", began));
    assert!(!state.note_read("silent", began + S));
    assert!(state.note_read("damaged", began + S));
    assert!(!state.note_read("silent", began + 59 * S));
    assert!(state.failed_reads(began + 59 * S).is_empty());
    let again = |more: u64, lasted: u64| vec![("silent".to_owned(), more, lasted)];
    assert_eq!(state.failed_reads(began + 60 * S), again(2, 60));
    // Of the other, nothing is to be told: when it comes back, it is new.
    assert!(state.failed_reads(began + 61 * S).is_empty());
    assert!(state.note_read("damaged", began + 62 * S));
    assert!(!state.note_read("silent", began + 62 * S));
    assert_eq!(state.failed_reads(began + 121 * S), again(1, 61));
    let told = (0..10 * CAUSES).filter(|n| state.note_read(&n.to_string(), began + 121 * S));
    assert_eq!(
        told.count(),
        CAUSES - 1,
        "as many as there is room for, and one for all others"
    );
}

#[test]
fn what_nobody_knows_is_tried_and_nothing_else() {
    let now = Instant::now() + 10 * S;
    let outage = |error: &StoreError| {
        let mut outage = None;
        failed(&mut outage, error, now);
        outage
    };
    let failing = StoreError::Failed(String::new());
    let moved = StoreError::Moved(String::new());
    let room = Some(10 * DISK_RESERVE);
    let none = Some(DISK_RESERVE - 1);
    // Somebody asked, time since the last write, free bytes, reason of refusals, upkeep fails: probed.
    for (asked, written, free, writes, upkeep, tried) in [
        (false, None, room, None, false, false),
        (true, None, room, None, false, true),
        (true, Some(2 * S), None, None, false, true),
        (true, Some(S / 4), room, None, false, false),
        (false, Some(2 * S), none, None, false, true),
        (false, Some(S / 4), none, None, false, false),
        (false, None, room, Some(&failing), false, true),
        (false, None, none, Some(&failing), false, true),
        (false, None, room, Some(&StoreError::Full), false, true),
        (true, None, none, Some(&StoreError::Full), false, false),
        (true, None, room, Some(&moved), false, false),
        (false, None, room, None, true, true),
        (false, Some(2 * S), room, None, true, false),
        (false, Some(6 * S), room, None, true, true),
        (true, None, none, None, true, false),
    ] {
        let state = State {
            writes: writes.and_then(outage),
            upkeep: upkeep.then(|| outage(&failing)).flatten(),
            written: written.map(|ago| now - ago),
            free,
            ..State::default()
        };
        let case = (asked, written, free, writes, upkeep);
        assert_eq!(state.wants_probe(asked, now), tried, "{case:?}");
    }
}

#[test]
fn health_says_why_and_that_it_is_over() {
    let storage = Storage::new(0);
    let code = |storage: &Storage| storage.not_ready().map(|e| e.code.into_owned());
    for (error, expected) in [
        (StoreError::Full, Some("storage_full")),
        (StoreError::ReadOnly, Some("storage_read_only")),
        (StoreError::Busy, Some("storage_failing")),
        (StoreError::Corrupt(String::new()), Some("storage_failing")),
        // The head itself says it.
        (StoreError::Moved(String::new()), None),
        (
            StoreError::Newer { found: 9, known: 8 },
            Some("schema_newer"),
        ),
    ] {
        storage.refused(&error, 1);
        assert_eq!(code(&storage).as_deref(), expected, "{error:?}");
        storage.wrote();
        assert_eq!(code(&storage), None, "after {error:?}");
    }
    storage.kept_up(Err(StoreError::Full));
    assert_eq!(code(&storage).as_deref(), Some("checkpoints_failing"));
    storage.kept_up(Ok(()));
    assert_eq!(code(&storage), None);
}

#[test]
fn a_disk_is_low_below_what_must_be_free() {
    for (min, free, low) in [
        (0, Some(0), false),
        (100, Some(99), true),
        (100, Some(100), false),
        (100, None, false),
    ] {
        let storage = Storage::new(min);
        storage.measured(free);
        assert_eq!(storage.is_low(), low, "{min} {free:?}");
    }
}
