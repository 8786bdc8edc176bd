//! Looks for what waits, which find all of it although some of it cannot be dealt with.

use super::*;
use crate::limits::{ENDPOINTS_COUNTED, ENDPOINTS_EXAMINED};
use crate::model::{EndpointId, PartnerId, Timestamp};
use crate::seal::Seal;
use crate::store::read::Reader;

const NOW_MS: i64 = 1_790_000_000_000;

fn endpoint_id(n: u32) -> EndpointId {
    EndpointId::from_bytes(u128::from(n).to_be_bytes())
}

/// A delivery that waits for this endpoint, due so long ago.
fn waits(n: u32, ms: i64) -> Statement<'static> {
    let id = || Arg::from(endpoint_id(n).as_bytes().to_vec());
    Statement::new(
        "INSERT INTO delivery (event_id, endpoint_id, phase, attempts, charged, due_ms, since_ms) VALUES ($1, $2, 0, 0, 0, $3, $3)",
        vec![id(), id(), (NOW_MS - ms).into()],
    )
}

/// An endpoint of partner 1 that takes events.
fn endpoint(n: u32) -> Statement<'static> {
    Statement::new(
        "INSERT INTO endpoint (id, partner_id, status, failures, body) VALUES ($1, $2, 1, 0, '')",
        vec![
            endpoint_id(n).as_bytes().to_vec().into(),
            vec![1; 16].into(),
        ],
    )
}

#[test]
fn endpoints_after_one_whose_row_is_missing_are_found() {
    on_every_store(|store| {
        let seal = Seal::derive(&[7; 32]);
        let there = [3, ENDPOINTS_EXAMINED + 1, ENDPOINTS_EXAMINED + 2];
        let mut conn = store.writer().unwrap();
        conn.begin(&[]).unwrap();
        let deliveries: Vec<_> = (1..=ENDPOINTS_EXAMINED + 2)
            .map(|n| waits(n, 1_000))
            .chain(there.map(endpoint))
            .collect();
        conn.run(&deliveries).unwrap();
        // Nothing is committed, because SQLite would refuse it.
        let mut reader = Reader::new(conn, &seal, None);
        let now = Timestamp::from_ms(NOW_MS);
        let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = reader.endpoints_with_due(now, after).unwrap();
            found.extend(page.due);
            (after, pages) = (page.next, pages + 1);
            if after.is_none() {
                break;
            }
        }
        found.sort_unstable();
        let owner = PartnerId::from_bytes([1; 16]);
        assert_eq!(found, there.map(|n| (endpoint_id(n), owner, false)));
        assert_eq!(pages, 2);

        let (mut due, mut after, mut pages) = (0, None, 0);
        loop {
            let (waiting, next) = reader.waiting_deliveries(now, after).unwrap();
            due += waiting.due;
            (after, pages) = (next, pages + 1);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(due, 3);
        assert_eq!(pages, ENDPOINTS_EXAMINED / ENDPOINTS_COUNTED + 1);
    });
}

#[test]
fn running_recoveries_take_turns() {
    on_every_store(|store| {
        let seal = Seal::derive(&[7; 32]);
        let mut conn = store.writer().unwrap();
        conn.begin(&[]).unwrap();
        let recovery = |n: u8, finished: Option<i64>| {
            Statement::new(
                "INSERT INTO recovery (id, partner_id, reached, examined, recovered, deliveries, unclaimed, expired, finished_ms, body) \
                 VALUES ($1, $2, 0, 0, 0, 0, 0, 0, $3, '')",
                vec![vec![n; 16].into(), vec![n; 16].into(), finished.into()],
            )
        };
        let six: Vec<_> = (1..=6).map(|n| recovery(n, None)).collect();
        conn.run(&six).unwrap();
        conn.run(&[recovery(7, Some(0))]).unwrap();
        let mut reader = Reader::new(conn, &seal, None);
        let mut after = PartnerId::from_bytes([0; 16]);
        for expected in [[1, 2, 3, 4], [5, 6, 1, 2], [3, 4, 5, 6], [1, 2, 3, 4]] {
            let found = reader.recoveries_under_way(&after, 4).unwrap();
            let owners: Vec<_> = found.iter().map(|underway| underway.partner_id).collect();
            assert_eq!(owners, expected.map(|n| PartnerId::from_bytes([n; 16])));
            after = owners[3];
        }
        // None comes twice.
        assert_eq!(reader.recoveries_under_way(&after, 9).unwrap().len(), 6);
    });
}

#[test]
fn notices_of_keys_go_on_after_those_that_were_passed_over() {
    on_every_store(|store| {
        let seal = Seal::derive(&[7; 32]);
        let mut conn = store.writer().unwrap();
        conn.begin(&[]).unwrap();
        let key = |(n, notice): (u8, i64)| {
            let bytes = || Arg::from(vec![n; 16]);
            Statement::new(
                "INSERT INTO api_key (id, partner_id, hash, body, mac, standing, notice_ms) VALUES ($1, $2, $3, '', $4, $5, $6)",
                vec![bytes(), bytes(), bytes(), bytes(), bytes(), notice.into()],
            )
        };
        // Not in the order of their ids; the last is not due.
        let keys = [(4, 1), (1, 5), (2, 5), (3, 5), (5, 9), (6, 10)].map(key);
        conn.run(&keys).unwrap();
        let mut reader = Reader::new(conn, &seal, None);
        let mut after = None;
        for expected in [&[4, 1][..], &[2, 3], &[5], &[]] {
            let page = reader
                .expiring_keys(Timestamp::from_ms(9), after, 2)
                .unwrap();
            let found: Vec<_> = page.iter().map(|(_, id, _)| id.as_bytes()[0]).collect();
            assert_eq!(found, expected);
            after = page.last().copied();
        }
    });
}
