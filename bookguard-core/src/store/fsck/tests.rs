//! A small database with everything in it has no findings. Then every column of every row is changed in turn, and rows
//! are removed and duplicated, behind the service's back: the ledger check or the opening of the database notices.

use std::collections::HashSet;

use rusqlite::ToSql;
use rusqlite::types::Value;

use super::*;
use crate::clock::Clock;
use crate::ledger::event::Opening;
use crate::limits::{DAY_MS, HOUR_MS};
use crate::store::Database;
use crate::tests::{is_long, shared_out};

mod bench;
mod changes;
pub(in crate::store) mod fixture;

use bench::Bench;
use changes::others;

/// Values that no ledger entry describes and nothing else in the database contradicts: table, column, kind of change,
/// and why. Each line must be needed: it is an error if every change under it is noticed.
#[rustfmt::skip]
const UNATTESTED: &[(&str, &str, &str, &str)] = &[
    ("partner", "body", "/name", "a partner is not in the ledger, its bookings are"),
    ("partner", "status", "by one", "that the operator suspended a partner is not in the ledger"),
    ("partner", "body", "/businessType", "as its name"),
    ("partner", "body", "/contactEmail", "as its name"),
    ("api_key", "last_used_ms", "", "when a key was used decides nothing"),
    ("api_key", "notice_ms", "", "when its expiry is told of decides nothing"),
    ("answer", "key", "erased, ", "an erased answer holds nothing that is sealed under its key"),
    (
        "answer",
        "body",
        "erased of, ",
        "an answer about a booking of which something was erased may be empty, and is forgotten after a day anyway",
    ),
    ("answer", "booking_id", "", "which booking an answer is about decides only which erasure takes it"),
    ("file", "at_ms", "", "when a file was stored is not in the ledger, its digest is"),
    ("partner", "settings", "/defaultPolicies", "what a partner decides is not in the ledger, the terms of each booking are"),
    ("partner", "settings", "/timeZone", "the same"),
    ("partner", "settings", "of another row", "the same"),
    ("partner", "quota", "/bookings", "what a partner may have is the operator's word alone; what it has is counted"),
    ("partner", "quota", "of another row", "the same"),
    ("policy_version", "made_ms", "by", "known to lie between the versions before and after it"),
    (
        "policy_version",
        "hash",
        "of another row",
        "which of two texts with one name and number is whose hangs on this alone; what a booking is under does not",
    ),
    ("policy_version", "made_ms", "of another row", "the same"),
    ("endpoint", "body", "/url", "endpoints are not in the ledger, and events do not say where they went"),
    ("endpoint", "body", "/description", "as its address"),
    ("endpoint", "deleted_ms", "by", "that it was deleted is certain, the hour is not"),
    ("endpoint", "body", "/rateLimitPerSecond", "as its address"),
    ("endpoint", "status", "of another row", "that its partner changed it is certain, not whether it disabled it"),
    ("endpoint", "body", "/ownSecret", "of a deleted endpoint nothing is signed"),
    ("endpoint", "failures", "by", "the recent health of an endpoint is the service's word alone"),
    ("endpoint", "failing_ms", "by", "the same"),
    ("endpoint", "failing_ms", "of another row", "the same"),
    ("endpoint", "since_ms", "by", "that its partner changed it is certain, the hour is not"),
    ("endpoint", "since_ms", "of another row", "what an endpoint took before it was changed is not kept"),
    ("endpoint", "since_ms", "to nothing", "the same: all it takes it may have taken from the first"),
    ("event", "retries", "", "a retry that met an attempt under way leaves no other trace"),
    ("event", "body", "/payload/failures", "how an endpoint fared before it was suspended is the service's word alone"),
    ("event", "body", "/payload/url", "the same"),
    ("event", "pruned_ms", "pruned, by", "that it was pruned is certain, the hour is not"),
    ("event", "pruned_ms", "without a booking, pruned, by", "the same"),
    ("event", "pruned_ms", "pruned, of another row", "the same"),
    ("event", "pruned_ms", "without a booking, pruned, of another row", "the same"),
    ("event", "digest", "without a booking, pruned, ", "no entry of the ledger tells what such an event said"),
    ("event", "type", "without a booking, pruned, ", "nor, to an endpoint that lists both types, which of them it was"),
    ("delivery", "phase", "without a booking, pruned, ", "nor whether it was received"),
    ("delivery", "attempts", "without a booking, pruned, ", "nor how often it was tried"),
    ("delivery", "attempts", "pruned, ", "what is given up may be tried again by hand, and its attempts went with the event"),
    ("delivery", "charged", "pruned, ", "the same"),
    ("sweep", "next", "", "where the next look begins: what it leaves out is met when looks are set back"),
    ("sweep", "waiting", "", "the same"),
    ("delivery", "due_ms", "by", "due times are spread at random, and those of a lease hang on when it was taken"),
    ("delivery", "due_ms", "of another row", "what is given back unsent is due from then on"),
    ("delivery", "since_ms", "by", "what is given back or tried by hand is due from some moment on that nothing else tells"),
    ("delivery", "since_ms", "of another row", "the same"),
    ("delivery", "lease", "by", "a random name"),
    ("delivery", "lease", "to nothing", "a lease that was given back, or ran out, leaves no other trace"),
    ("delivery", "lease", "of another row", "the same"),
    ("delivery", "begun_ms", "by one", "known to within minutes of the recovery's end"),
    ("delivery", "begun_ms", "to nothing", "an endpoint made within minutes of the event may have had it from the first"),
    ("delivery", "begun_ms", "of another row", "the same"),
    ("delivery", "begun_ms", "pruned, of another row", "the same"),
    ("recovery", "recovered", "of another row", "what deliveries were when it came by is not kept, only what they can have been"),
    ("recovery", "deliveries", "by one", "the same"),
    ("recovery", "unclaimed", "", "the same"),
    ("recovery", "expired", "", "the same"),
    ("recovery", "finished_ms", "by", "known to lie between its beginning and now"),
    ("recovery", "finished_ms", "of another row", "the same"),
    ("recovery", "body", "/statuses", "what was asked for is known only by what came of it"),
    ("recovery", "body", "/dryRun", "one that only counted leaves the same numbers as one that found nothing left to do"),
    ("recovery", "body", "/endpointId", "as its statuses"),
    ("attempt", "body", "/startedAt", "what a receiver did and when is the service's word alone"),
    ("attempt", "body", "/durationMs", "the same"),
    ("attempt", "body", "/statusCode", "another status of the same class"),
    ("attempt", "body", "of another row", "another attempt with the same outcome"),
    ("answer", "at_ms", "", "remembered answers are forgotten after a day, and say nothing about bookings"),
    ("answer", "request", "", "the same: a digest of what was asked"),
    ("stamping", "next_ms", "", "when an authority may be asked; if it is changed, one is asked sooner or later"),
    ("stamping", "asked", "", "the same"),
    ("stamping", "trouble", "", "an authority's word alone"),
    ("head", "moved_to", "", "the operator's mark that the log goes on elsewhere"),
];

/// Rows that can be removed without a trace, and why.
#[rustfmt::skip]
const UNMISSED: &[(&str, &str)] = &[
    ("answer", "remembered answers are forgotten after a day anyway"),
    ("api_key", "a partner's other keys do not count it"),
    ("operator_key", "nothing else tells of it"),
    ("console_session", "nothing else tells of it"),
    ("audit", "a record tells of others, and nothing tells of it"),
    ("recovery", "one that only counted leaves no other trace; the other is missed"),
    ("share", "who may look is the partner's to decide; nothing else tells of it"),
    ("hold", "that it was placed and released is in the audit; nothing else tells of it"),
    ("sweep", "without it looks begin with the first event"),
    ("witness", "without it the witness is asked at once"),
    ("cosignature", "the witness is asked for another"),
    ("stamping", "without it an authority is asked at once"),
];

fn exemption(table: &str, column: &str, part: &str) -> Option<usize> {
    UNATTESTED.iter().position(|(t, c, p, why)| {
        (*t, *c) == (table, column) && part.starts_with(p) && !why.is_empty()
    })
}

/// Requires that the ledger check of a database has no findings.
pub(in crate::store) fn is_clean(database: &Database, log: &Log) {
    let store = Store::open(database, false).unwrap();
    let moment = (Clock::System.now(), false);
    let report = verify(&store, &log.seal(), log, moment, &mut |_, _| {}).unwrap();
    let found = (report.findings, report.warnings);
    assert_eq!(found, (vec![], vec![]), "{database}");
}

#[test]
fn a_database_that_only_the_service_wrote_is_clean() {
    let bench = Bench::new();
    let (service, _) = &bench.service;
    let mut steps = Vec::new();
    let report = service
        .verify_ledger(false, |done, total| steps.push((done, total)))
        .unwrap();
    assert_eq!((&report.findings, &report.warnings), (&vec![], &vec![]));
    assert!(report.clean() && report.more == 0);
    assert_eq!(
        (report.entries, report.bookings, report.events),
        (45, 10, 23)
    );
    assert_eq!(steps.first(), Some(&(0, 90)));
    assert_eq!(steps.last(), Some(&(90, 90)));
    assert!(steps.is_sorted() && report.entries_per_second() > 0.0);
}

#[test]
fn events_counted_after_a_clock_was_ahead_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let pauses = [20 * DAY_MS, HOUR_MS, -20 * DAY_MS, HOUR_MS, HOUR_MS];
    let (service, _closing) = fixture::ahead(&folder.path().join("b.db"), &pauses);
    let report = service.verify_ledger(false, |_, _| {}).unwrap();
    assert_eq!((report.findings, report.warnings), (vec![], vec![]));
}

#[test]
fn events_that_an_older_program_counted_after_a_clock_was_ahead_are_only_doubted() {
    let day = fixture::START_MS / DAY_MS;
    for (pauses, counted_on, events) in [
        // It let no day go back.
        ([2 * DAY_MS, -2 * DAY_MS, DAY_MS], day + 2, 3),
        // It had counted the one before the last on the day ahead.
        ([20 * DAY_MS, -20 * DAY_MS, HOUR_MS], day, 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("b.db");
        let (service, _closing) = fixture::ahead(&db, &pauses);
        let raw = rusqlite::Connection::open(&db).unwrap();
        let counted = raw.execute(
            "UPDATE partner SET day = ?1, day_events = ?2",
            [counted_on, events],
        );
        assert_eq!(counted, Ok(1));
        let report = service.verify_ledger(false, |_, _| {}).unwrap();
        assert_eq!((report.findings, report.warnings.len()), (vec![], 1));
    }
}

/// The result of changing every cell of some tables.
#[derive(Default)]
struct Flipped {
    /// Changes that nothing noticed and no line excuses.
    surprises: Vec<String>,
    /// The lines of [`UNATTESTED`] that excused a change.
    needed: HashSet<usize>,
}

#[test]
fn every_column_of_every_row_changed_in_turn_is_noticed() {
    let first = Bench::new();
    // Changes are undone before the next one, so each thread needs its own database.
    let copy = first.copier();
    let begin = || (copy(), Flipped::default());
    let all = shared_out(&rows_to_change(&first), begin, |(bench, flipped), row| {
        flip_row(bench, row, flipped);
    });
    let all: Vec<Flipped> = all
        .into_iter()
        .map(|(bench, flipped)| {
            assert_eq!(bench.verify().findings, [], "everything was put back");
            flipped
        })
        .collect();
    let surprises: Vec<&String> = all.iter().flat_map(|f| &f.surprises).collect();
    assert!(surprises.is_empty(), "{surprises:#?}");
    let idle: Vec<_> = (0..UNATTESTED.len())
        .filter(|line| !all.iter().any(|f| f.needed.contains(line)))
        .map(|line| UNATTESTED[line])
        .collect();
    // A part of the changes cannot show that a line is needed by none.
    assert!(
        idle.is_empty() || !is_long(),
        "noticed, and yet listed as unattested: {idle:#?}"
    );
}

/// Every row, as its table and its position there, which are the same in every copy.
fn all_rows(bench: &Bench) -> Vec<(String, usize)> {
    let tables = bench.tables().into_iter();
    let rows =
        tables.flat_map(|table| (0..bench.rows(&table).len()).map(move |n| (table.clone(), n)));
    rows.collect()
}

/// A row, by its table and its position there, and what to put into it: a column, the part of it that changes, the other value.
struct RowToChange {
    table: String,
    place: usize,
    others: Vec<(usize, String, Value)>,
}

/// The changes to try: in one column of cells of one shape the first, and of changes of one name to whatever cells the first. The
/// check reads cells of one shape, and a member of documents, in one way.
fn rows_to_change(bench: &Bench) -> Vec<RowToChange> {
    let mut tried = HashSet::new();
    let mut is_new = |what: (String, usize, String)| tried.insert(what) || is_long();
    let to_change = |(table, place): (String, usize)| {
        let rows = bench.rows(&table);
        let mut all = Vec::new();
        for (at, cell) in rows[place].iter().enumerate() {
            if !is_new((table.clone(), at, changes::shape(cell))) {
                continue;
            }
            let mut others = others(cell);
            others.retain(|(part, _)| {
                let is_of_the_value = part.is_empty() || part == "by one";
                is_of_the_value || is_new((table.clone(), at, format!("change {part}")))
            });
            let elsewhere = elsewhere(&rows, place, at).into_iter();
            others.extend(elsewhere.map(|value| ("of another row".to_owned(), value)));
            all.extend(others.into_iter().map(|(part, other)| (at, part, other)));
        }
        RowToChange {
            table,
            place,
            others: all,
        }
    };
    all_rows(bench).into_iter().map(to_change).collect()
}

/// What other rows have in a column, each value once: of the rows that follow, the first value.
fn elsewhere(rows: &[Vec<Value>], place: usize, column: usize) -> Vec<Value> {
    let most = if is_long() { usize::MAX } else { 1 };
    let mut values: Vec<Value> = Vec::new();
    for row in rows[place..].iter().chain(&rows[..place]) {
        let is_new = row[column] != rows[place][column] && !values.contains(&row[column]);
        if is_new && values.len() < most {
            values.push(row[column].clone());
        }
    }
    values
}

fn flip_row(bench: &mut Bench, to_change: &RowToChange, flipped: &mut Flipped) {
    let table = to_change.table.as_str();
    let events = bench.rows("event");
    let (columns, keys) = (bench.columns(table), bench.keys(table));
    let row = bench.rows(table).swap_remove(to_change.place);
    let cell = |column: &str| &row[columns.iter().position(|c| c == column).unwrap()];
    let event =
        (events.iter()).find(|event| matches!(table, "delivery" | "event") && event[0] == row[0]);
    let key = matching(&keys, 2);
    let is_answer = table == "answer";
    let is_erased_of = is_answer && may_be_erased_of(bench, cell("booking_id"));
    for (at, part, other) in &to_change.others {
        if *other == row[*at] {
            continue;
        }
        let column = &columns[*at];
        let kind = match event {
            Some(event) if event[6] == Value::Null && event[3] == Value::Null => {
                "without a booking, pruned, "
            }
            Some(event) if event[6] == Value::Null => "pruned, ",
            None if is_answer && changes::is_empty(cell("body")) => "erased, ",
            None if is_erased_of && changes::is_empty(other) => "erased of, ",
            _ => "",
        };
        let part = format!("{kind}{part}");
        let sql = format!("UPDATE main.{table} SET {column} = ?1 WHERE {key}");
        let mut args: Vec<&dyn ToSql> = vec![other];
        args.extend(keys.iter().map(|key| cell(key) as &dyn ToSql));
        let Some(findings) = bench.changed(table, &sql, &args) else {
            continue;
        };
        match exemption(table, column, &part) {
            _ if !findings.is_empty() => {}
            Some(line) => drop(flipped.needed.insert(line)),
            None => (flipped.surprises).push(format!("{table}.{column} {part}: {other:?}")),
        }
    }
}

/// Whether anything of a booking may have been erased: values of its entries, or what somebody wrote of a share or a hold.
fn may_be_erased_of(bench: &Bench, booking_id: &Value) -> bool {
    let erased = Value::Text("evidence.erased".to_owned());
    [("entry", Some(&erased)), ("share", None), ("hold", None)]
        .iter()
        .any(|(table, word)| {
            let rows = bench.rows(table);
            let of_it = rows.iter().filter(|row| row.contains(booking_id));
            of_it
                .into_iter()
                .any(|row| word.is_none_or(|word| row.contains(word)))
        })
}

/// `a = ?n AND b = ?m`
fn matching(keys: &[String], from: usize) -> String {
    let pairs: Vec<String> = (from..)
        .zip(keys)
        .map(|(n, key)| format!("{key} = ?{n}"))
        .collect();
    pairs.join(" AND ")
}

#[test]
fn every_row_taken_away_or_doubled_is_noticed() {
    let first = Bench::new();
    let copy = first.copier();
    let begin = || (copy(), HashSet::new());
    let rows = rows_to_take(&first);
    let all = shared_out(&rows, begin, |(bench, doubled), (table, row)| {
        take_away_and_double(bench, table, *row, doubled);
    });
    let mut doubled = HashSet::new();
    for (bench, of_one) in &all {
        assert_eq!(bench.verify().findings, [], "everything was put back");
        doubled.extend(of_one);
    }
    assert_eq!(doubled.len(), first.tables().len(), "{doubled:?}");
}

/// Of the rows of one shape in one table the last: no row after it can miss it.
fn rows_to_take(bench: &Bench) -> Vec<(String, usize)> {
    let mut taken = HashSet::new();
    let mut rows = all_rows(bench);
    rows.reverse();
    rows.retain(|(table, place)| {
        let row = &bench.rows(table)[*place];
        let shape: Vec<String> = row.iter().map(changes::shape).collect();
        taken.insert((table.clone(), shape)) || is_long()
    });
    rows
}

fn take_away_and_double(bench: &mut Bench, table: &str, row: usize, doubled: &mut HashSet<String>) {
    let (columns, keys) = (bench.columns(table), bench.keys(table));
    let row = bench.rows(table).swap_remove(row);
    let cell = |column: &str| &row[columns.iter().position(|c| c == column).unwrap()];
    let args: Vec<&dyn ToSql> = keys.iter().map(|key| cell(key) as &dyn ToSql).collect();
    let key = matching(&keys, 1);
    let less = format!("DELETE FROM main.{table} WHERE {key}");
    let findings = bench.changed(table, &less, &args).unwrap();
    let exempt = UNMISSED
        .iter()
        .any(|(t, why)| *t == table && !why.is_empty());
    assert!(
        exempt || !findings.is_empty(),
        "a row of {table} is missing: {row:?}"
    );

    // The same row again, under another key and with every other unique value changed too.
    let unique = ["seq", "hash"];
    for step in [1_u8, 7, 100] {
        let mut copy = row.clone();
        for (at, column) in columns.iter().enumerate() {
            if keys.last() == Some(column)
                || (unique.contains(&column.as_str()) && table != "policy")
                || column == "leaf_idx"
            {
                copy[at] = next(&copy[at], step);
            }
        }
        let places = vec!["?"; columns.len()].join(", ");
        let args: Vec<&dyn ToSql> = copy.iter().map(|cell| cell as &dyn ToSql).collect();
        let sql = format!("INSERT INTO main.{table} VALUES ({places})");
        let Some(findings) = bench.changed(table, &sql, &args) else {
            continue;
        };
        doubled.insert(table.to_owned());
        assert!(
            // A newer program adds a row with each step. An erased answer answers nothing, under whatever key.
            !findings.is_empty() || table == "schema_version" || is_erased_answer(table, &copy),
            "{table} has one row too many: {copy:?}"
        );
        if !is_long() {
            break;
        }
    }
}

/// Whether this is an answer that was erased with its booking's values.
fn is_erased_answer(table: &str, row: &[Value]) -> bool {
    table == "answer" && row[3] == Value::Blob(Vec::new())
}

/// Another value of the same form.
fn next(value: &Value, step: u8) -> Value {
    match value {
        Value::Integer(n) => Value::Integer(n + i64::from(step)),
        Value::Text(text) => Value::Text(format!("{text}{step}")),
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            *bytes.last_mut().unwrap() ^= step;
            Value::Blob(bytes)
        }
        other => other.clone(),
    }
}

#[test]
fn a_manipulated_row_is_named_with_booking_and_field() {
    let mut bench = Bench::new();
    for (sql, field, row, ledger) in [
        (
            "body = replace(body, '\"bookingValue\":1200.5', '\"bookingValue\":12.5')",
            "bookingValue",
            "12.5",
            "1200.5",
        ),
        (
            "body = replace(body, 'The Night Owls', 'Others')",
            "talent",
            r#"{"id":"t1","name":"Others"}"#,
            r#"{"id":"t1","name":"The Night Owls"}"#,
        ),
        ("status = 0", "status", "created", "protected"),
        ("event_ms = 7", "event_ms", "7", "1813532400000"),
    ] {
        let sql = format!(
            "UPDATE main.booking SET {sql} WHERE policy_hash IS NOT NULL AND body LIKE '%amountPaid%'"
        );
        let findings = bench.changed("booking", &sql, &[]).unwrap();
        let id = bench.strings("SELECT json_extract(body, '$.bookingId') FROM whole.booking WHERE body LIKE '%amountPaid%'");
        assert_eq!(
            findings[0].to_string(),
            format!(
                "booking {} field {field}: row says {row}, ledger says {ledger}",
                id[0]
            )
        );
    }
}

#[test]
fn salts_kept_of_an_entry_that_open_nothing_are_noticed() {
    let mut bench = Bench::new();
    let salt = serde_json::json!("A".repeat(43));
    let mut tried = [0, 0];
    for row in bench.rows("entry") {
        let columns = bench.columns("entry");
        let cell = |name: &str| &row[columns.iter().position(|column| column == name).unwrap()];
        let (Value::Blob(seed), Value::Text(facts)) = (cell("seed"), cell("facts")) else {
            panic!("an entry has a seed and facts");
        };
        let others = match serde_json::from_slice::<serde_json::Value>(seed) {
            Ok(kept) => {
                tried[0] += 1;
                let erased = kept["erased"].as_object().unwrap().keys().cloned();
                let with = |name: String| {
                    let mut other = kept.clone();
                    other["salts"][name] = salt.clone();
                    other
                };
                erased.chain(["other".to_owned()]).map(with).collect()
            }
            Err(_) => {
                tried[1] += 1;
                let members = serde_json::from_str(facts).unwrap();
                let opening = Opening::read(seed).unwrap().without(&[], &members);
                vec![serde_json::from_slice(&opening.unwrap().to_bytes()).unwrap()]
            }
        };
        for other in others {
            let sql = "UPDATE main.entry SET seed = ?1 WHERE idx = ?2";
            // In the order in which the program writes them.
            let parts =
                ["salt", "salts", "erased"].map(|part| format!("\"{part}\":{}", other[part]));
            let other = format!("{{{}}}", parts.join(",")).into_bytes();
            assert!(Opening::read(&other).is_ok());
            let findings = bench.changed("entry", sql, &[&other, cell("idx")]).unwrap();
            assert!(!findings.is_empty(), "{:?}: {other:?}", cell("idx"));
        }
    }
    assert!(tried.iter().all(|tried| *tried > 0), "{tried:?}");
}

#[test]
fn deliveries_begun_anew_by_a_recovery_that_is_not_there_are_noticed() {
    let mut bench = Bench::new();
    let sql = "DELETE FROM main.recovery WHERE body LIKE '%\"dryRun\":false%'";
    let findings = bench.changed("recovery", sql, &[]).unwrap();
    assert_eq!(findings.len(), 3, "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.what == "delivery"));
}

#[test]
fn a_stamp_over_another_state_of_the_log_is_noticed() {
    use crate::ledger::{Checkpoint, Hash};
    let mut bench = Bench::new();
    let sql = "SELECT MAX(size) FROM main.stamp";
    let size: i64 = bench.raw.query_row(sql, [], |row| row.get(0)).unwrap();
    let service = Arc::clone(&bench.service.0);
    let signer = service.signer(&service.head().unwrap().origin).unwrap();
    let other = Checkpoint::sign(&signer, size.unsigned_abs(), Hash([7; 32]));
    let sql = "UPDATE main.stamp SET checkpoint = ?1 WHERE size = ?2";
    let findings = bench.changed("stamp", sql, &[&other, &size]).unwrap();
    let details: Vec<_> = findings.iter().map(|it| it.detail.as_str()).collect();
    assert_eq!(details, ["the entries give another root than was stamped"]);
}

#[test]
fn a_file_whose_row_names_billions_of_parts_is_read_to_its_last_part() {
    let mut bench = Bench::new();
    let sql = "UPDATE main.file SET parts = 4294967295, whole = 0";
    let findings = bench.changed("file", sql, &[]).unwrap();
    let details: Vec<_> = findings.iter().map(|it| it.detail.as_str()).collect();
    let expected = "its row says 4294967295 parts; there are 1";
    assert!(details.contains(&expected), "{details:?}");
}

#[test]
fn a_database_damaged_all_over_gives_a_bounded_report() {
    let mut bench = Bench::new();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
               INSERT INTO main.answer SELECT CAST(printf('%032d', i) AS BLOB), 0, zeroblob(32), x'00', NULL FROM n";
    bench.raw.execute(sql, []).unwrap();
    let report = bench.verify();
    assert_eq!((report.findings.len(), report.more), (KEPT_FINDINGS, 2_000));
    let findings = bench
        .changed("answer", "DELETE FROM main.answer", &[])
        .unwrap();
    assert_eq!(findings, []);
}
