//! Files as tables: parts in any order and number, quotas, and what is forgotten.

use crate::features::items::files::HeldElsewhere;

use crate::engine::change::FilePart;
use crate::evidence::facts::{LeafPlace, Logged};
use crate::evidence::verify::tests::fixture::{self, erased_values};
use crate::evidence::{Erasable, Erasure, EvidenceItem, HeldBy, ItemKind, LegalBasis};
use crate::features::fixture::*;
use crate::features::items::files::{
    DeleteItemFile, FinishFile, ForgetFiles, ItemWithoutFile, StoreFilePart,
};
use crate::limits::{FILE_PART_BYTES, FILE_UNFINISHED_MS};

const SIZE: usize = 2 * FILE_PART_BYTES + 1;

fn part(number: u32) -> StoreFilePart {
    part_of(1, number)
}

/// A part of the file with this digest.
fn part_of(digest: u8, number: u32) -> StoreFilePart {
    StoreFilePart {
        item: item(digest),
        file: FileState {
            file_id: FileId::of(&partner_id(), &[digest; 32]),
            size: SIZE as u64,
            media_type: MediaType::Binary,
            crc: 1,
            parts: 0,
            at: NOW,
        },
        part: FilePart {
            number,
            file: Arc::new([7; SIZE].as_slice().into()),
        },
    }
}

fn store(work: &mut BatchState, number: u32) -> Result<usize, Error> {
    let (changes, _) = outcome(work, &command(part(number)))?;
    apply_all(work, &changes);
    Ok(changes.len())
}

fn used(work: &BatchState) -> u64 {
    work.partners[&partner_id()].usage.file_bytes
}

const PLACE: LeafPlace = LeafPlace {
    index: 11,
    hash: Hash([1; 32]),
    at: NOW,
};

/// A booking with an item for each of two files, and no file.
fn empty() -> BatchState {
    let mut loaded = state(None, BookingStatus::Created);
    let items = [1, 2].map(|digest| Logged {
        place: PLACE,
        fact: item(digest),
    });
    loaded.state.items.extend(items);
    work_with(loaded)
}

#[test]
fn a_file_is_whole_with_its_last_part_whoever_sends_it_and_how_often() {
    let mut work = empty();
    assert_eq!(store(&mut work, 1).unwrap_err().kind, Kind::Unavailable);
    // Two callers send the same file at the same time.
    for (number, changes) in [(0, 1), (0, 0), (1, 1), (1, 0)] {
        assert_eq!(store(&mut work, number).unwrap(), changes, "{number}");
        assert_eq!(used(&work), 0);
    }
    assert!(work.files.values().all(|file| file.shown().is_none()));
    assert_eq!(store(&mut work, 2).unwrap(), 1);
    assert_eq!(used(&work), SIZE as u64);
    for number in 0..3 {
        assert_eq!(store(&mut work, number).unwrap(), 0);
    }
    assert_eq!(used(&work), SIZE as u64);
    assert_eq!(part(0).part.bytes().len(), FILE_PART_BYTES);
    assert_eq!(part(2).part.bytes().len(), 1);
}

#[test]
fn a_file_beyond_the_quota_is_refused_at_its_first_part_or_at_its_last() {
    let quota = |bytes| Quota {
        file_bytes: Some(bytes),
        ..Quota::GENEROUS
    };
    let mut work = empty();
    work.quota = quota(SIZE as u64 - 1);
    let refused = store(&mut work, 0).unwrap_err();
    assert_eq!(
        (refused.kind, &*refused.code),
        (Kind::Conflict, "quota_exceeded")
    );
    assert!(refused.message.contains("bytes of files"), "{refused}");
    work.quota = quota(SIZE as u64);
    for number in 0..2 {
        store(&mut work, number).unwrap();
    }
    work.quota = quota(SIZE as u64 - 1);
    assert_eq!(store(&mut work, 2).unwrap_err().code, "quota_exceeded");
}

#[test]
fn what_is_not_whole_yet_takes_up_the_quota_too() {
    let other = |number| part_of(2, number);
    let begin_other = |work: &BatchState| decide(work, &command(other(0)));
    let mut work = empty();
    work.quota = Quota {
        file_bytes: Some(2 * SIZE as u64 - 1),
        ..Quota::GENEROUS
    };
    store(&mut work, 0).unwrap();
    let refused = begin_other(&work).unwrap_err();
    assert_eq!(refused.code, "quota_exceeded");
    assert!(refused.message.contains("not whole yet take"), "{refused}");
    store(&mut work, 1).unwrap();
    store(&mut work, 2).unwrap();
    assert!(begin_other(&work).is_err(), "now it is whole");
    assert_eq!(delete(&mut work), 1);
    let begun = changes(begin_other(&work));
    apply_all(&mut work, &begun);
    // The first is begun anew, and what is left of the other is deleted.
    assert!(store(&mut work, 0).is_err());
    let left = work.files[&other(0).file.file_id];
    apply_all(&mut work, &[Change::FileDeleted(left)]);
    store(&mut work, 0).unwrap();
}

#[test]
fn only_what_was_never_completed_is_forgotten_and_only_after_an_hour() {
    let mut work = empty();
    store(&mut work, 0).unwrap();
    let forget = |work: &mut BatchState, ms: i64| {
        let envelope = Envelope::new(NOW.plus_ms(ms), ForgetFiles);
        let mut needs = crate::engine::needs::Needs {
            now: envelope.at,
            ..Default::default()
        };
        envelope.command.needs(&mut needs);
        match crate::engine::decide::decide(work, &envelope).unwrap() {
            Decision::Do { changes, .. } => {
                apply_all(work, &changes);
                changes.len()
            }
            other => panic!("decided {other:?}"),
        }
    };
    assert_eq!(forget(&mut work, FILE_UNFINISHED_MS), 0);
    assert_eq!(forget(&mut work, FILE_UNFINISHED_MS + 1), 1);
    assert!(work.files.is_empty());
    for number in 0..3 {
        store(&mut work, number).unwrap();
    }
    assert_eq!(forget(&mut work, 100 * FILE_UNFINISHED_MS), 0);
}

/// The item that names the file with this digest.
fn item(digest: u8) -> EvidenceItem {
    EvidenceItem {
        item_id: id(4 + digest),
        sha256: Some(format!("sha256:{}", hex::encode([digest; 32]))),
        ..fixture::item(booking_id(), NOW, ItemKind::Contract, "Contract")
    }
}

fn deleting() -> Envelope<ItemWithoutFile> {
    let file_id = part(0).file.file_id;
    let item = item(1);
    let same_file = Vec::new();
    let reply = ItemWithoutFile { item, same_file };
    command(DeleteItemFile {
        booking_id: id(4),
        file_id,
        elsewhere: HeldElsewhere::default(),
        reply,
    })
}

/// Deletes the file, and returns how many changes that took.
fn delete(work: &mut BatchState) -> usize {
    done(work, &deleting()).0.len()
}

#[test]
fn a_deleted_file_frees_the_quota_once_and_an_upload_under_way_begins_again() {
    let mut work = empty();
    assert_eq!(delete(&mut work), 0);
    for number in 0..2 {
        store(&mut work, number).unwrap();
    }
    // Before it was whole, it did not count.
    assert_eq!((delete(&mut work), used(&work)), (1, 0));
    assert_eq!(store(&mut work, 2).unwrap_err().kind, Kind::Unavailable);
    for number in 0..3 {
        store(&mut work, number).unwrap();
    }
    assert_eq!(used(&work), SIZE as u64);
    for changes in [1, 0] {
        assert_eq!((delete(&mut work), used(&work)), (changes, 0));
    }
    for number in 0..3 {
        store(&mut work, number).unwrap();
    }
    assert_eq!(used(&work), SIZE as u64);
}

#[test]
fn a_hold_elsewhere_refuses_to_delete_only_what_is_stored() {
    let mut work = empty();
    let mut elsewhere = hold(9, HeldBy::Operator);
    elsewhere.hold.booking_id = id(77);
    work.holds.insert(elsewhere.hold.hold_id, elsewhere);
    assert_eq!(delete(&mut work), 0);
    // The file came after nobody had looked for holds.
    store(&mut work, 0).unwrap();
    let refused = decide(&work, &deleting()).unwrap_err();
    assert_eq!(refused.code, "booking_changed");
}

#[test]
fn nothing_of_a_file_is_stored_once_its_digest_was_erased_while_it_was_sent() {
    // The next part is the first, one in the middle, or the last.
    for next in 0..3 {
        let mut sent = empty();
        for number in 0..next {
            store(&mut sent, number).unwrap();
        }
        let next = |work: &BatchState| match next {
            2 => decide(work, &command(FinishFile { last: part(2) })).map(drop),
            next => decide(work, &command(part(next))).map(drop),
        };
        let booking = |work: &mut BatchState,
                       change: &dyn Fn(&mut crate::evidence::BookingState)| {
            let booking = work.bookings.get_mut(&booking_id()).unwrap();
            change(&mut Arc::make_mut(booking).state);
        };
        let mut erased = sent.clone();
        booking(&mut erased, &|state| state.items[0].fact.sha256 = None);
        assert_eq!(next(&erased).unwrap_err().code, "item_without_file");
        // In the same batch, the item is still as it was loaded.
        let fact = Erasure {
            booking_id: booking_id(),
            erased_at: NOW,
            legal_basis: LegalBasis::Objection,
            request_ref: None,
            values: vec![erased_values(1, &[Erasable::Sha256])],
        };
        let place = PLACE;
        booking(&mut sent, &|state| {
            let fact = fact.clone();
            state.erasures.push(Logged { place, fact });
        });
        assert_eq!(next(&sent).unwrap_err().kind, Kind::Unavailable);
    }
}
