//! Behaviour that both engines share, and databases that must be refused.

#![cfg(all(feature = "sqlite", feature = "postgres"))]

mod lists;
mod waiting;

use std::sync::mpsc;
use std::thread;

use bookguard_test_postgres::Postgres;

use super::conn::{Arg, Cell, Row, Rows};
use super::*;

/// Runs a test on an empty database of every available engine.
pub(in crate::store) fn on_every_engine(test: impl Fn(&Database)) {
    let folder = tempfile::tempdir().unwrap();
    test(&folder.path().join("b.db").into());
    if let Some(postgres) = Postgres::shared() {
        let url = postgres.fresh_database();
        println!("on PostgreSQL:");
        test(&url.as_str().into());
        postgres.drop_database(&url);
    }
}

fn on_every_store(test: impl Fn(&Store)) {
    on_every_engine(|database| test(&Store::open(database, true).unwrap()));
}

fn secret(owner: &[u8], sealed: &[u8]) -> Statement<'static> {
    let args = vec![owner.to_vec().into(), Arg::Int(1), sealed.to_vec().into()];
    Statement::new(
        "INSERT INTO secret (owner, made_ms, from_ms, sealed) VALUES ($1, $2, 0, $3)",
        args,
    )
}

/// A partner that has nothing yet.
fn partner(id: &[u8]) -> Statement<'static> {
    let sql = "INSERT INTO partner (id, status, events, policies, put_ms, bookings, bytes, day, day_events, file_bytes, \
               quota, settings, body) VALUES ($1, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', '{}')";
    Statement::new(sql, vec![id.to_vec().into()])
}

/// A statement without arguments.
fn plain(sql: &'static str) -> Statement<'static> {
    Statement::new(sql, vec![])
}

fn secrets(conn: &mut dyn Conn) -> i64 {
    number(conn, "SELECT COUNT(*) FROM secret")
}

fn number(conn: &mut dyn Conn, sql: &'static str) -> i64 {
    first(&conn.one(plain(sql)).unwrap())
}

fn first(rows: &Rows) -> i64 {
    rows.rows[0].int(0).unwrap()
}

#[test]
fn values_come_back_as_they_went() {
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        let texts = [
            "",
            "it's \"so\" \\ %s $1",
            "ÄΩ漢😀\u{feff}\r\n\t",
            "{\"a\":\"\\u0000\"}",
        ];
        let every_byte: Vec<u8> = (0..=255).collect();
        conn.begin(&[]).unwrap();
        for (n, text) in (0..).zip(texts) {
            conn.run(&[Statement::new(
                "INSERT INTO policy (hash, body) VALUES ($1, $2)",
                vec![n.to_string().into_bytes().into(), text.into()],
            )])
            .unwrap();
        }
        let numbers = [i64::MIN, -1, 0, i64::MAX];
        let list = numbers.map(|n| {
            let mut insert = secret(b"o", &every_byte);
            insert.args[1] = n.into();
            insert
        });
        conn.commit(&list).unwrap();
        let read = conn
            .run(&[
                plain("SELECT body FROM policy ORDER BY hash"),
                Statement::new(
                    "SELECT made_ms, sealed FROM secret WHERE owner = $1 ORDER BY made_ms",
                    vec![b"o".as_slice().into()],
                ),
                plain("SELECT revoked_ms FROM api_key"),
                plain("SELECT NULL, 1"),
            ])
            .unwrap();
        let bodies: Vec<_> = (read[0].rows.iter().map(|row| row.text(0).unwrap())).collect();
        assert_eq!(bodies, texts);
        let found: Vec<_> = read[1].rows.iter().map(|row| row.int(0).unwrap()).collect();
        assert_eq!(found, numbers);
        let mut sealed = read[1].rows.iter().map(|row| row.blob(1).unwrap());
        assert!(sealed.all(|sealed| sealed == every_byte));
        assert!(read[2].rows.is_empty());
        assert_eq!(read[3].rows, [Row(vec![Cell::Null, Cell::Int(1)])]);
    });
}

#[test]
fn text_sorts_by_its_bytes() {
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        let sorted = ["", "A", "B", "_", "a", "a b", "ab", "b", "z", "ä"];
        let insert = |(size, note): (i64, &&'static str)| {
            Statement::new(
                "INSERT INTO checkpoint (size, at_ms, note) VALUES ($1, 0, $2)",
                vec![size.into(), (*note).into()],
            )
        };
        let notes: Vec<_> = (0..).zip(sorted.iter().rev()).map(insert).collect();
        conn.write(&notes).unwrap();
        let sorting = plain("SELECT note FROM checkpoint ORDER BY note");
        let rows = conn.one(sorting).unwrap();
        let found: Vec<_> = rows.rows.iter().map(|row| row.text(0).unwrap()).collect();
        assert_eq!(found, sorted);
    });
}

#[test]
fn a_list_answers_in_its_order_and_ends_with_its_first_failure() {
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        let ask = |n: i64| Statement::new("SELECT CAST($1 AS BIGINT)", vec![n.into()]);
        let list: Vec<_> = (0..300).map(ask).collect();
        let answers: Vec<i64> = conn.run(&list).unwrap().iter().map(first).collect();
        assert_eq!(answers, (0..300).collect::<Vec<i64>>());
        conn.begin(&[]).unwrap();
        let failed = conn.run(&[secret(b"1", b""), secret(b"1", b""), secret(b"2", b"")]);
        assert!(failed.is_err());
        conn.rollback();
        assert_eq!(secrets(&mut *conn), 0);
    });
}

#[test]
fn a_transaction_that_fails_leaves_nothing_and_the_connection_goes_on() {
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        conn.begin(&[]).unwrap();
        let failing = [secret(b"1", b""), secret(b"2", b""), secret(b"1", b"")];
        assert!(conn.commit(&failing).is_err());
        conn.rollback();
        assert_eq!(secrets(&mut *conn), 0);
        conn.write(&[secret(b"1", b""), secret(b"2", b"")]).unwrap();
        assert_eq!(secrets(&mut *conn), 2);
        // No transaction is open, so there is nothing to undo.
        conn.rollback();
        assert_eq!(secrets(&mut *conn), 2);
    });
}

#[test]
fn uses_of_keys_go_forward_only_and_give_way_to_a_batch() {
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        let id = [7; 16];
        let key = "INSERT INTO api_key (id, partner_id, hash, body, mac, standing) VALUES ($1, $1, $1, '{}', $1, $1)";
        let key = Statement::new(key, vec![(&id).into()]);
        conn.write(&[partner(&id), key]).unwrap();
        let note = |ms| {
            let used = (ApiKeyId::from_bytes(id), Timestamp::from_ms(ms));
            store.note_key_uses(&[used])
        };
        let last = |conn: &mut dyn Conn| number(conn, "SELECT last_used_ms FROM api_key");
        for (ms, expected) in [(5, 5), (9, 9), (8, 9), (9, 9), (10, 10)] {
            note(ms).unwrap();
            assert_eq!(last(&mut *conn), expected, "after {ms}");
        }
        store.note_key_uses(&[]).unwrap();
        // A writer of a file waits for its turn like any other.
        if !store.reads_here() {
            let revoke = plain("UPDATE api_key SET revoked_ms = 1");
            conn.begin(&[revoke]).unwrap();
            assert!(note(11).is_err(), "a batch holds the row");
            conn.commit(&[]).unwrap();
            assert_eq!(last(&mut *conn), 10);
            // The turn alone holds up nothing.
            conn.begin(&[]).unwrap();
            note(12).unwrap();
            conn.commit(&[]).unwrap();
            assert_eq!(last(&mut *conn), 12);
        }
    });
}

#[test]
fn a_commit_that_fails_as_such_leaves_nothing() {
    // Only SQLite checks references, and only once everything is written.
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("b.db").into(), true).unwrap();
    let mut conn = store.writer().unwrap();
    let orphan = Statement::new(
        "INSERT INTO api_key (id, partner_id, hash, body, mac, standing) VALUES ($1, $2, $3, $4, $1, $1)",
        vec![vec![1].into(), vec![2].into(), vec![3].into(), "{}".into()],
    );
    conn.begin(&[]).unwrap();
    assert!(conn.commit(&[secret(b"1", b""), orphan]).is_err());
    conn.rollback();
    assert_eq!(secrets(&mut *conn), 0);
}

#[test]
fn only_what_was_begun_and_did_not_fail_is_committed() {
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        let twice = || [secret(b"1", b""), secret(b"1", b"")];
        assert!(conn.commit(&[secret(b"2", b"")]).is_err(), "not begun");
        assert!(conn.begin(&twice()).is_err());
        assert!(conn.commit(&[secret(b"2", b"")]).is_err(), "begun in vain");
        conn.begin(&[]).unwrap();
        assert!(conn.run(&twice()).is_err());
        assert!(conn.commit(&[]).is_err(), "failed meanwhile");
        conn.rollback();
        assert_eq!(secrets(&mut *conn), 0);
        conn.write(&[secret(b"2", b"")]).unwrap();
        assert!(conn.commit(&[]).is_err(), "over");
        assert_eq!(secrets(&mut *conn), 1);
    });
}

#[test]
fn the_write_turn_is_waited_for_and_shows_what_was_written_in_the_last() {
    on_every_store(|store| {
        store.begin_log("log", "log+vkey", "checkpoint").unwrap();
        let mut first_turn = store.writer().unwrap();
        first_turn.begin(&[]).unwrap();
        let (told, begun) = mpsc::channel();
        let second = store.clone();
        let waiting = thread::spawn(move || {
            let mut conn = second.writer().unwrap();
            told.send(()).unwrap();
            let count = plain("SELECT COUNT(*) FROM secret");
            let seen = conn.begin(&[count]).unwrap();
            conn.rollback();
            first(&seen[0])
        });
        begun.recv().unwrap();
        first_turn.run(&[secret(b"1", b"")]).unwrap();
        assert!(!waiting.is_finished());
        first_turn.commit(&[secret(b"2", b"")]).unwrap();
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

#[test]
fn a_write_ahead_log_that_had_to_grow_is_cut_without_another_commit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let store = Store::open(&file.as_path().into(), true).unwrap();
    let log = || {
        let log = folder.path().join("b.db-wal");
        log.metadata().unwrap().len()
    };
    let mut writer = store.writer().unwrap();
    let grow = |writer: &mut dyn Conn, owner: &[u8]| {
        let large = vec![0; 20 * 1024 * 1024];
        writer.write(&[secret(owner, &large)]).unwrap();
        assert!(log() > 20 * 1024 * 1024);
    };
    grow(&mut *writer, b"1");
    assert!(writer.keep_up(false).unwrap());
    assert_eq!(log(), 0);

    // A log that a reader holds stays as it is, and nothing waits for the reader.
    let mut reader = store.reader().unwrap();
    grow(&mut *writer, b"2");
    reader.begin(&[]).unwrap();
    assert_eq!(secrets(&mut *reader), 2);
    assert!(writer.keep_up(false).unwrap(), "the file has everything");
    assert!(log() > 0);
    reader.rollback();
}

#[test]
fn a_reader_sees_one_moment_and_cannot_write() {
    on_every_store(|store| {
        let mut writer = store.writer().unwrap();
        let mut reader = store.reader().unwrap();
        let count = plain("SELECT COUNT(*) FROM secret");
        let seen = reader.begin(&[count]).unwrap();
        assert_eq!(first(&seen[0]), 0);
        writer.write(&[secret(b"1", b"")]).unwrap();
        assert_eq!(secrets(&mut *reader), 0);
        reader.rollback();
        assert_eq!(secrets(&mut *reader), 1);
        assert!(reader.run(&[secret(b"2", b"")]).is_err());
        assert_eq!(secrets(&mut *reader), 1);
    });
}

#[test]
fn a_database_is_made_only_when_it_may_be() {
    on_every_engine(|database| {
        let refused = Store::open(database, false).err().unwrap().to_string();
        for word in ["there is no", "bookguard serve --db"] {
            assert!(refused.contains(word), "{refused}");
        }
        Store::open(database, true).unwrap();
        Store::open(database, false).unwrap();
    });
}

#[test]
fn a_schema_from_the_future_is_refused() {
    on_every_engine(|database| {
        let store = Store::open(database, true).unwrap();
        let mut conn = store.writer().unwrap();
        conn.one(plain("INSERT INTO schema_version (version) VALUES (99)"))
            .unwrap();
        let known = schema::known();
        let newer = StoreError::Newer { found: 99, known };
        assert_eq!(Store::open(database, true).err(), Some(newer.clone()));
        assert_eq!(schema::upgrade(database), Err(newer));
    });
}

#[test]
fn several_that_open_in_the_same_moment_all_do() {
    on_every_engine(|database| {
        let opening: Vec<_> = (0..6)
            .map(|_| {
                let database = database.clone();
                thread::spawn(move || Store::open(&database, true).map(drop))
            })
            .collect();
        for opened in opening {
            opened.join().unwrap().unwrap();
        }
        let store = Store::open(database, true).unwrap();
        let mut reader = store.reader().unwrap();
        let versions = number(&mut *reader, "SELECT COUNT(*) FROM schema_version");
        assert_eq!(versions, schema::known());
    });
}

/// SQL selects the endpoints to load, and a rule decides what to do with them. Both must mean the same endpoints.
#[test]
fn only_endpoints_postponed_by_a_fast_clock_are_repaired() {
    use crate::engine::command::{Envelope, Reclaim};
    use crate::engine::decide::{Decision, decide};
    use crate::features::deliveries::ReclaimDeliveries;
    use crate::limits::{LEASE_MS, LEASE_SKEW_MS, MOVED_MS, PROBE_MAX_MS, PROBE_MS};
    use crate::model::{EndpointHealth, EndpointId, Timestamp};

    let now = Timestamp::from_ms(1_790_000_000_000);
    let day = 24 * 3_600_000;
    // (status, failing for, next probe in, unverified for, whether a clock that was ahead postponed it)
    let (held, skew) = (2 * LEASE_MS, LEASE_SKEW_MS);
    #[rustfmt::skip]
    let cases = [
        (1, None, Some(held + skew), Some(0), false),
        (1, None, Some(held + skew + 1), Some(0), true),
        (1, None, None, Some(-MOVED_MS - skew), false),
        (1, None, None, Some(-MOVED_MS - skew - 1), true),
        (1, None, None, None, false),
        (0, None, None, Some(-day), true),
        (2, Some(5 * day), Some(PROBE_MS + skew), None, false),
        (2, Some(5 * day), Some(PROBE_MS + skew + 1), None, true),
        (2, Some(-5 * day), Some(PROBE_MS + skew + 1), None, true),
        (2, Some(10 * day), Some(2 * PROBE_MS + skew), None, false),
        (2, Some(10 * day), Some(2 * PROBE_MS + skew + 1), None, true),
        (2, Some(900 * day), Some(PROBE_MAX_MS + skew), None, false),
        (2, Some(900 * day), Some(PROBE_MAX_MS + skew + 1), None, true),
        (2, Some(5 * day), Some(-5), None, false),
    ];
    on_every_store(|store| {
        for (number, (status, failing, probe, new, ahead)) in (1_u8..).zip(cases) {
            let mut conn = store.writer().unwrap();
            let mut work = crate::engine::batch::BatchState::default();
            let before = |ms: Option<i64>| Arg::from(ms.map(|ms| now.ms() - ms));
            conn.begin(&[]).unwrap();
            let partner_id = || Arg::from(vec![number; 16]);
            let partner = Statement::new(
                "INSERT INTO partner (id, status, events, policies, put_ms, bookings, bytes, day, day_events, file_bytes, quota, settings, body) \
                 VALUES ($1, 1, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '', '')",
                vec![partner_id()],
            );
            let endpoint = Statement::new(
                "INSERT INTO endpoint (id, partner_id, status, failures, failing_ms, probe_ms, unverified_ms, body) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, '')",
                vec![
                    partner_id(),
                    partner_id(),
                    Arg::Int(status),
                    Arg::Int(if failing.is_some() { 99 } else { 0 }),
                    before(failing),
                    before(probe.map(|ms: i64| -ms)),
                    before(new),
                ],
            );
            conn.run(&[partner, endpoint]).unwrap();
            let found = |conn: &mut dyn Conn| -> Vec<(EndpointId, EndpointHealth)> {
                let asked = load::ahead(now.ms(), 9).into_iter().skip(2);
                let rows = asked.flat_map(|(statement, _)| conn.one(statement).unwrap().rows);
                rows.map(|row| (row.id(0).unwrap(), endpoints::health(&row, 1).unwrap()))
                    .collect()
            };
            work.health.extend(found(&mut *conn));
            let told = format!("{status} {failing:?} {probe:?} {new:?}");
            assert_eq!(!work.health.is_empty(), ahead, "{told}");
            // The rule alone, whatever the query found.
            let sql = "SELECT status, failures, failing_ms, probe_ms, unverified_ms FROM endpoint";
            let row = conn.one(plain(sql)).unwrap().rows.remove(0);
            let health = endpoints::health(&row, 0).unwrap();
            work.health
                .insert(EndpointId::from_bytes([number; 16]), health);
            let from = Reclaim::Ahead;
            let reclaim = Envelope::new(now, ReclaimDeliveries { from });
            let Ok(Decision::Do { changes, .. }) = decide(&work, &reclaim) else {
                panic!("{told}")
            };
            assert_eq!(!changes.is_empty(), ahead, "{told}");
            for change in &changes {
                let crate::engine::change::Change::EndpointHealthChanged(endpoint_id, health) =
                    change
                else {
                    panic!("{change:?}")
                };
                conn.run(&[endpoints::set_health(endpoint_id, *health)])
                    .unwrap();
            }
            assert_eq!(found(&mut *conn), [], "{told}: once is enough");
            conn.rollback();
        }
    });
}

#[test]
fn deliveries_that_cannot_be_read_keep_no_other_from_being_claimed_or_dropped() {
    use crate::engine::needs::Needs;
    use crate::features::fixture;
    use crate::limits::RECLAIMED;
    use crate::model::{EndpointId, EventId, Timestamp};
    use crate::seal::Seal;

    let id = |number: i64| [[0; 8], number.to_be_bytes()].concat();
    let endpoint_id = vec![7; 16];
    let body = serde_json::to_string(&fixture::endpoint(7, &[])).unwrap();
    let endpoint = Statement::new(
        "INSERT INTO endpoint (id, partner_id, status, failures, deleted_ms, body) VALUES ($1, $2, 0, 0, 1, $3)",
        vec![
            endpoint_id.clone().into(),
            endpoint_id.clone().into(),
            body.into(),
        ],
    );
    let event = |number: i64| {
        Statement::new(
            "INSERT INTO event (id, partner_id, seq, type, retries, body) VALUES ($1, $2, $3, 0, 0, $4)",
            vec![
                id(number).into(),
                endpoint_id.clone().into(),
                number.into(),
                b"{}".to_vec().into(),
            ],
        )
    };
    let delivery = |number: i64, phase: i64| {
        Statement::new(
            "INSERT INTO delivery (event_id, endpoint_id, phase, attempts, charged, due_ms) VALUES ($1, $2, $3, 0, 0, $4)",
            vec![
                id(number).into(),
                endpoint_id.clone().into(),
                phase.into(),
                number.into(),
            ],
        )
    };
    #[rustfmt::skip]
    let damages = [
        "type = 99", "retries = -1", "seq = -1", "partner_id = body", "booking_id = body",
        "body = NULL", "pruned_ms = 1", "digest = body",
    ];
    let damage = |number: i64, damage: &str| Statement {
        sql: Box::leak(format!("UPDATE event SET {damage} WHERE id = $1").into_boxed_str()),
        args: vec![id(number).into()],
    };
    // The longest due first: those whose events are damaged, those that are damaged themselves, and one that is whole.
    let events = i64::try_from(damages.len()).unwrap();
    let whole = events + i64::try_from(RECLAIMED).unwrap();
    let damaged = (events..whole).flat_map(|number| [event(number), delivery(number, 9)]);
    let mut rows: Vec<_> = damaged.collect();
    rows.extend([endpoint, event(whole), delivery(whole, 0)]);
    for (number, what) in (0..).zip(damages) {
        rows.extend([event(number), delivery(number, 0), damage(number, what)]);
    }
    let receiver = EndpointId::from_bytes([7; 16]);
    let whole_id = EventId::from_bytes(id(whole).try_into().unwrap());
    let seal = Seal::derive(&[7; 32]);
    let now = Timestamp::from_ms(whole);
    on_every_store(|store| {
        let mut conn = store.writer().unwrap();
        conn.begin(&[]).unwrap();
        conn.run(&rows).unwrap();
        for room in [1, damages.len() + 1] {
            let needs = Needs {
                now,
                due: vec![(receiver, room)],
                ..Needs::default()
            };
            let work = load::load(&mut *conn, &seal, &needs).unwrap();
            assert_eq!(work.due[&receiver], [whole_id]);
            assert_eq!(work.left_out.len(), room, "{:?}", work.left_out);
        }
        let needs = Needs {
            dropped: vec![receiver],
            ..Needs::default()
        };
        let work = load::load(&mut *conn, &seal, &needs).unwrap();
        assert!(work.deliveries.contains_key(&(whole_id, receiver)));
        assert!(!work.left_out.is_empty());
        conn.rollback();
    });
}

#[test]
fn deliveries_that_cannot_be_read_keep_no_other_from_being_taken_back() {
    use crate::engine::command::Reclaim;
    use crate::engine::lease::Node;
    use crate::engine::needs::Needs;
    use crate::limits::{LEASE_MS, LEASE_SKEW_MS, RECLAIMED};
    use crate::model::{EventId, Timestamp};
    use crate::seal::Seal;

    let seal = Seal::derive(&[7; 32]);
    let now = 1_790_000_000_000;
    let (past, future) = (now - 10_000, now + 10 * (LEASE_MS + LEASE_SKEW_MS));
    let node = Node::of(7).unwrap();
    let lease = Some(*node.leases().start());
    let ended = Reclaim::EndedBy(Timestamp::from_ms(now));
    on_every_store(|store| {
        for (from, due, lease, since) in [
            (ended, past, lease, past),
            (Reclaim::Gone(node), past, lease, past),
            (Reclaim::Ahead, future, lease, past),
            (Reclaim::Ahead, past, None, future),
        ] {
            let mut conn = store.writer().unwrap();
            conn.begin(&[]).unwrap();
            let id = |number: i64| [[0; 8], number.to_be_bytes()].concat();
            let delivery = |number: i64, phase: i64| {
                Statement::new(
                    "INSERT INTO delivery (event_id, endpoint_id, phase, attempts, charged, due_ms, lease, since_ms) \
                     VALUES ($1, $2, $3, 0, 0, $4, $5, $6)",
                    vec![
                        id(number).into(),
                        id(number).into(),
                        phase.into(),
                        (due + number).into(),
                        Arg::from(lease),
                        (since + number).into(),
                    ],
                )
            };
            let damaged = 0..=i64::try_from(RECLAIMED).unwrap();
            let whole = damaged.end() + 1;
            let damaged = damaged.map(|number| delivery(number, 9));
            let all: Vec<_> = damaged.chain([delivery(whole, 0)]).collect();
            conn.run(&all).unwrap();
            let needs = Needs {
                now: Timestamp::from_ms(now),
                reclaims: vec![from],
                ..Needs::default()
            };
            let work = load::load(&mut *conn, &seal, &needs).unwrap();
            let whole_id = EventId::from_bytes(id(whole).try_into().unwrap());
            let mut lapsed = work.lapsed.iter().map(|(event_id, _)| *event_id);
            assert!(lapsed.any(|id| id == whole_id), "{from:?}, {lease:?}");
            conn.rollback();
        }
    });
}
