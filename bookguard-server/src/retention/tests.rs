//! One damaged row keeps nothing else from being pruned or told of, and a wrong clock prunes nothing.

use std::sync::atomic::AtomicI64;

use bookguard_core::clock::Clock;
use bookguard_core::limits::DAY_MS;
use bookguard_core::model::{EventId, Timestamp};
use bookguard_core::service::ServiceConfig;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::skew::testing::Ahead;

const NOW_MS: i64 = 1_790_000_000_000;

/// A service on a file, and a connection that changes the file behind its back.
async fn damaged() -> (Arc<Service>, Connection, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let config = ServiceConfig {
        clock: Clock::Set(Arc::new(AtomicI64::new(NOW_MS))),
        ..ServiceConfig::of(file.as_path().into())
    };
    let opened = tokio::task::spawn_blocking(move || Service::open(config));
    let (service, _) = opened.await.unwrap().unwrap();
    let store = Connection::open(file).unwrap();
    store.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    (service, store, folder)
}

fn count(store: &Connection, sql: &str) -> i64 {
    store.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_damaged_event_is_passed_over_and_the_others_are_pruned() {
    let (service, store, _folder) = damaged().await;
    let id = |n: u8| {
        let at = Timestamp::from_ms(NOW_MS - 100 * DAY_MS + i64::from(n));
        EventId::new(at, [n; 10]).as_bytes().to_vec()
    };
    for n in 1..=4_u8 {
        let insert = "INSERT INTO event (id, partner_id, seq, type, retries, body) VALUES (?1, ?1, ?2, 0, 0, x'7b7d')";
        store.execute(insert, (id(n), n)).unwrap();
    }
    // This id is a byte too long.
    let insert = "INSERT INTO event (id, partner_id, seq, type, retries, body) VALUES (?1, ?1, 9, 0, 0, x'7b7d')";
    store.execute(insert, ([id(2), vec![0]].concat(),)).unwrap();
    // One has its body and what is left of it, another has neither.
    let broken = "UPDATE event SET digest = zeroblob(32) WHERE seq = 2";
    store.execute(broken, []).unwrap();
    let broken = "UPDATE event SET body = NULL WHERE seq = 3";
    store.execute(broken, []).unwrap();
    let skew = Arc::default();
    let pruned = "SELECT COALESCE(SUM(seq), 0) FROM event WHERE pruned_ms IS NOT NULL";
    assert!(!step(&service, &skew, 90, Begin::Waiting).await.unwrap());
    assert_eq!(count(&store, pruned), 1 + 4);
    let sweep = |sql: &str| store.query_row(sql, [], |row| row.get::<_, Vec<u8>>(0));
    assert_eq!(sweep("SELECT waiting FROM sweep"), Ok(id(2)));
    assert!(sweep("SELECT next FROM sweep").unwrap() > id(4));

    // Once they are repaired, they are pruned with the events that waited.
    let repaired = "UPDATE event SET digest = NULL, body = x'7b7d' WHERE seq IN (2, 3)";
    store.execute(repaired, []).unwrap();
    step(&service, &skew, 90, Begin::Next).await.unwrap();
    assert_eq!(count(&store, pruned), 1 + 4);
    step(&service, &skew, 90, Begin::Waiting).await.unwrap();
    assert_eq!(count(&store, pruned), 1 + 2 + 3 + 4);
}

#[tokio::test]
async fn keys_after_one_whose_partner_cannot_be_read_are_told_of() {
    let (service, store, _folder) = damaged().await;
    let partner = "INSERT INTO partner (id, status, events, policies, put_ms, bookings, bytes, day, day_events, file_bytes, quota, \
                   settings, body) VALUES (zeroblob(16), 2, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', '{')";
    store.execute(partner, []).unwrap();
    // As many as a look reads are of that partner.
    let keys = i64::from(KEYS_LOOKED_AT) + 1;
    for n in 1..=keys {
        let id = u128::from(n.unsigned_abs()).to_be_bytes();
        let owner = if n < keys { [0; 16] } else { [1; 16] };
        let insert = "INSERT INTO api_key (id, partner_id, hash, body, mac, standing, notice_ms) \
                      VALUES (?1, ?2, ?1, '{}', x'00', x'00', ?3)";
        store.execute(insert, (id, owner, n / 2)).unwrap();
    }
    let waiting = "SELECT COUNT(*) FROM api_key WHERE notice_ms IS NOT NULL";
    let mut after = None;
    assert!(tell_keys(&service, &mut after).await.unwrap());
    assert_eq!(count(&store, waiting), keys);
    assert!(!tell_keys(&service, &mut after).await.unwrap());
    assert_eq!(count(&store, waiting), keys - 1);
    assert_eq!(after, None, "the next turn begins with the first");
}

#[tokio::test]
async fn a_node_with_a_wrong_clock_prunes_nothing() {
    let started = tokio::task::spawn_blocking(Ahead::start);
    let Some(node) = started.await.unwrap() else {
        return;
    };
    let service = Arc::clone(&node.service);
    let old = service.clock().now().plus_ms(-500 * DAY_MS);
    let id = EventId::new(old, [1; 10]).as_bytes().to_vec();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    node.sql(&format!(
        "INSERT INTO event (id, partner_id, seq, type, retries, body) \
         VALUES ('\\x{id}', '\\x{id}', 1, 0, 0, '\\x7b7d'); \
         INSERT INTO audit (id, action, body, mac) VALUES ('\\x{id}', '', '{{}}', '\\x00')"
    ));
    let kept = format!(
        "SELECT (SELECT count(*) FROM event WHERE pruned_ms IS NULL), \
         (SELECT count(*) FROM audit WHERE id = '\\x{id}')"
    );
    let skew = Arc::default();
    assert!(step(&service, &skew, 400, Begin::Waiting).await.is_err());
    assert!(prune_records(&service, &skew, 400).await.is_err());
    assert_eq!(node.sql(&kept), "1|1");
    node.agree();
    step(&service, &skew, 400, Begin::Waiting).await.unwrap();
    prune_records(&service, &skew, 400).await.unwrap();
    assert_eq!(node.sql(&kept), "0|0");
}
