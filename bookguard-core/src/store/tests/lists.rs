//! Lists that examine more bookings than one page may: they go on across short pages, and find everything once.

use std::sync::LazyLock;

use super::*;
use crate::evidence::facts::ResolutionFact;
use crate::features::fixture::{apply, ask_to_cancel, canceling, state, work_with};
use crate::model::{BookingId, BookingStatus, PartnerId, Search, Timestamp};
use crate::policy::{Actor, Reason, ResolutionStatus};
use crate::seal::Seal;
use crate::store::read::{BookingFilter, Reader};

static MINE: LazyLock<PartnerId> = LazyLock::new(|| PartnerId::from_bytes([1; 16]));
static THEIRS: LazyLock<PartnerId> = LazyLock::new(|| PartnerId::from_bytes([2; 16]));
/// Bookings of the usual size and, after them, large ones: more than a page may examine, by their number and by their bytes.
const SMALL: u64 = 13_000;
const LARGE: u64 = 500;
const LARGE_BYTES: usize = 40_000;
/// My bookings that are looked for: the first, the last, neighbours, those on both sides of where the large ones begin and of where
/// the third page of a search ends, and the last of its second page.
const LOOKED_FOR: [u64; 9] = [0, 1, 2, 2_213, 2_214, 12_999, 13_000, 13_040, 13_499];

fn booking_id(number: u64) -> BookingId {
    BookingId::new(Timestamp::from_ms(number as i64), [0; 10])
}

/// A partner's booking. `leaf` is the place of its resolution, and whether that waits for a person.
fn booking(
    owner: &PartnerId,
    number: u64,
    name: &str,
    leaf: Option<(i64, bool)>,
) -> Statement<'static> {
    // The partners' bookings lie between each other.
    let place = 2 * number + u64::from(owner == &*THEIRS);
    let status = match leaf {
        None => BookingStatus::Created,
        Some(_) => BookingStatus::Canceled,
    };
    let large = number >= SMALL && owner == &*MINE;
    let note = "x".repeat(if large { LARGE_BYTES } else { 0 });
    let party = serde_json::json!({"id": "1", "name": name});
    let body = serde_json::json!({
        "bookingId": booking_id(place), "talent": party, "organizer": party, "eventType": "dj", "metadata": {"note": note},
    });
    Statement::new(
        "INSERT INTO booking (id, partner_id, status, event_ms, resolution_leaf, review_leaf, stream, entries, tip, body, terms) \
         VALUES ($1, $2, $3, $4, $5, $6, $1, 1, $1, $7, '{}')",
        vec![
            booking_id(place).as_bytes().to_vec().into(),
            owner.as_bytes().to_vec().into(),
            (status as i64).into(),
            (number as i64).into(),
            leaf.map(|(leaf, _)| leaf).into(),
            leaf.filter(|(_, waits)| *waits)
                .map(|(leaf, _)| leaf)
                .into(),
            body.to_string().into(),
        ],
    )
}

fn entry(leaf: i64, fact: &ResolutionFact) -> Statement<'static> {
    let facts = serde_json::to_string(fact).unwrap();
    Statement::new(
        "INSERT INTO entry (idx, seq, leaf, kind, seed, facts) VALUES ($1, 0, $2, 'resolution.created', $2, $3)",
        vec![leaf.into(), vec![0].into(), facts.into()],
    )
}

/// What the policy says of a cancellation, or what a person has to say.
fn resolution(reason: Reason) -> ResolutionFact {
    let mut work = work_with(state(Some("firm"), BookingStatus::Protected));
    let ask = ask_to_cancel(Actor::Talent, Some(reason));
    ResolutionFact::of(apply(&mut work, "2026-06-01T00:00:00Z", canceling(ask)))
}

fn fill(store: &Store, rows: Vec<Statement<'static>>) {
    let mut conn = store.writer().unwrap();
    let partners = [&MINE, &THEIRS].map(|id| partner(id.as_bytes()));
    conn.begin(&partners).unwrap();
    for rows in rows.chunks(500) {
        conn.run(rows).unwrap();
    }
    conn.commit(&[]).unwrap();
}

/// Reads a list to its end. Returns its rows, and how many pages it had.
fn all<T>(page: impl Fn(Option<BookingId>) -> (Vec<T>, Option<BookingId>)) -> (Vec<T>, usize) {
    let (mut rows, mut pages, mut before) = (Vec::new(), 0, None);
    loop {
        let (found, next) = page(before);
        rows.extend(found);
        pages += 1;
        assert!(next.is_none() || next != before, "it goes on");
        before = next;
        if before.is_none() {
            return (rows, pages);
        }
    }
}

#[test]
fn a_search_finds_each_booking_once_however_many_lie_between() {
    on_every_store(|store| {
        let mine = (0..SMALL + LARGE).map(|n| {
            let name = if LOOKED_FOR.contains(&n) {
                "Ödön 100%"
            } else {
                "Owls"
            };
            booking(&MINE, n, name, None)
        });
        let theirs = (0..3_000).map(|n| booking(&THEIRS, n, "Ödön 100%", None));
        fill(store, mine.chain(theirs).collect());
        let seal = Seal::derive(&[0; 32]);
        let find = |partner_id, text: &str, from: Option<i64>, limit| {
            let filter = BookingFilter {
                partner_id,
                search: Some(Search::of(text)),
                event_from: from.map(Timestamp::from_ms),
                ..BookingFilter::default()
            };
            let (found, pages) = all(|before| {
                let mut reader = Reader::new(store.reader().unwrap(), &seal, None);
                let (found, next) = reader.bookings(&filter, before, limit).unwrap();
                assert!(found.len() <= limit as usize);
                (found, next)
            });
            let id = |text: &serde_json::value::RawValue| {
                let booking: serde_json::Value = serde_json::from_str(text.get()).unwrap();
                booking["bookingId"].as_str().unwrap().to_owned()
            };
            (found.iter().map(|text| id(text)).collect::<Vec<_>>(), pages)
        };
        let expected = |from: u64| -> Vec<String> {
            let numbers = LOOKED_FOR.iter().rev().filter(|n| **n >= from);
            numbers.map(|n| booking_id(2 * n).to_string()).collect()
        };
        // The large ones end the first two pages, ten thousand bookings the next.
        assert_eq!(find(Some(*MINE), "violin", None, 25), (vec![], 4));
        assert_eq!(find(Some(*MINE), "öDÖN 100%", None, 25), (expected(0), 4));
        for limit in [1, 2, 9] {
            assert_eq!(
                find(Some(*MINE), "ödön", None, limit).0,
                expected(0),
                "{limit}"
            );
        }
        assert_eq!(
            find(Some(*MINE), "ödön", Some(2_214), 100).0,
            expected(2_214)
        );
        assert_eq!(find(Some(*THEIRS), "ödön", None, 100).0.len(), 3_000);
        assert_eq!(find(None, "ödön", None, 100).0.len(), 3_009);
        // A search that everything matches comes in full pages.
        assert_eq!(find(Some(*THEIRS), "1", None, 100).1, 31);
    });
}

#[test]
fn resolutions_come_once_however_many_bookings_lie_between() {
    on_every_store(|store| {
        let is_open = |n: u64| LOOKED_FOR.contains(&n);
        let decided = [Reason::Illness, Reason::ForceMajeure].map(resolution);
        let mut rows = Vec::new();
        for n in 0..SMALL + LARGE {
            let leaf = (is_open(n) || n % 50 == 7).then_some((n as i64, is_open(n)));
            rows.extend(leaf.map(|(leaf, waits)| entry(leaf, &decided[usize::from(waits)])));
            rows.push(booking(&MINE, n, "Owls", leaf));
        }
        rows.push(entry(1_000_000, &decided[1]));
        rows.push(booking(&THEIRS, 5, "Owls", Some((1_000_000, true))));
        fill(store, rows);
        let seal = Seal::derive(&[0; 32]);
        let list = |partner_id, status, limit| {
            let (found, pages) = all(|before| {
                let mut reader = Reader::new(store.reader().unwrap(), &seal, None);
                reader
                    .resolutions(partner_id, status, before, limit)
                    .unwrap()
            });
            (found.iter().map(|it| it.status).collect::<Vec<_>>(), pages)
        };
        let pending = ResolutionStatus::PendingReview;
        let open = vec![pending; LOOKED_FOR.len()];
        // What waits is found without examining what lies between.
        assert_eq!(list(Some(*MINE), Some(pending), 25), (open.clone(), 1));
        for limit in [1, 2, 9] {
            assert_eq!(list(Some(*MINE), Some(pending), limit).0, open, "{limit}");
        }
        let (every, _) = list(Some(*MINE), None, 100);
        assert_eq!(every.len(), 270 + LOOKED_FOR.len());
        let decided = Some(ResolutionStatus::Decided);
        assert_eq!(list(Some(*MINE), decided, 25), (vec![], 2));
        assert_eq!(list(Some(*THEIRS), None, 25), (vec![pending], 1));
        assert_eq!(list(None, Some(pending), 25).0.len(), open.len() + 1);
    });
}
