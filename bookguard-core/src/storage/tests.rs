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
    assert!(Outage::ended(&mut outage, SETTLED, began + 9 * S).is_none());
    // A small write still fits; the next large one does not.
    outage.as_mut().unwrap().over = Some(began + 3 * S);
    assert_eq!(Outage::lasts(outage.as_ref()), None);
    assert!(Outage::ended(&mut outage, SETTLED, began + 3 * S).is_none());
    assert!(!failed(&mut outage, &StoreError::Full, began + 3 * S));
    assert!(Outage::ended(&mut outage, SETTLED, began + 9 * S).is_none());
    outage.as_mut().unwrap().over = Some(began + 12 * S);
    let (ended, lasted) = Outage::ended(&mut outage, SETTLED, began + 13 * S).unwrap();
    assert_eq!((ended.times, lasted), (5, 12));
    assert!(outage.is_none());
}

#[test]
fn a_cause_for_which_reads_fail_is_reported_once_a_minute_with_their_number() {
    let began = Instant::now();
    let mut state = State::default();
    let fails = |state: &mut State, cause: &str, now: Instant| {
        let error = StoreError::Failed(cause.to_owned());
        state.note_read(&error, now).is_some()
    };
    assert!(fails(&mut state, "silent", began));
    assert!(!fails(&mut state, "silent", began + S));
    assert!(fails(&mut state, "damaged", began + S));
    assert!(!fails(&mut state, "silent", began + 59 * S));
    assert!(state.failed_reads(began + 59 * S).is_empty());
    let again = |more: u64, lasted: u64| vec![("silent".to_owned(), more, lasted)];
    assert_eq!(state.failed_reads(began + 60 * S), again(2, 60));
    // Of the other, nothing is to be told: when it comes back, it is new.
    assert!(state.failed_reads(began + 61 * S).is_empty());
    assert!(fails(&mut state, "damaged", began + 62 * S));
    assert!(!fails(&mut state, "silent", began + 62 * S));
    assert_eq!(state.failed_reads(began + 121 * S), again(1, 61));
    let told = (0..10 * CAUSES).filter(|n| fails(&mut state, &n.to_string(), began + 121 * S));
    assert_eq!(
        told.count(),
        CAUSES - 1,
        "as many as there is room for, and one for all others"
    );
}

#[test]
fn reads_work_again_once_the_database_is_reached_and_nothing_older_is_told_after_that() {
    let began = Instant::now();
    let mut state = State::default();
    let refused = StoreError::Unreachable("connection refused".to_owned());
    let lost = StoreError::Failed("the connection was lost".to_owned());
    let works = |state: &mut State, now: Instant| {
        state.unreached.as_mut().unwrap().over.get_or_insert(now);
    };
    assert!(state.note_read(&lost, began).is_some());
    assert!(state.unreached.is_none(), "the next one may succeed");
    assert!(state.note_read(&refused, began).is_some());
    assert!(state.note_read(&refused, began + S).is_none());
    assert!(state.note_read(&lost, began + 2 * S).is_none());
    assert!(
        state.reached(began + 9 * S).is_none(),
        "no read has succeeded"
    );
    works(&mut state, began + 3 * S);
    assert!(state.reached(began + 7 * S).is_none());
    assert!(state.note_read(&refused, began + 7 * S).is_none());
    works(&mut state, began + 8 * S);
    works(&mut state, began + 9 * S);
    let (outage, lasted) = state.reached(began + 13 * S).unwrap();
    assert_eq!((outage.times, lasted), (4, 8));
    assert!(state.reached(began + 14 * S).is_none());
    assert!(state.failed_reads(began + 60 * S).is_empty());
    assert!(state.note_read(&refused, began + 61 * S).is_some());
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
