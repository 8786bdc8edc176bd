use super::*;
use crate::store::Store;
use crate::store::audit::audit_where;
use crate::store::console_sessions::console_sessions_where;
use crate::store::endpoints::endpoints_where;
use crate::store::events::events_where;
use crate::store::holds::holds_where;
use crate::store::load::{damageable, deliveries, due, readable, sound, sound_event};
use crate::store::operator_keys::operator_keys_where;
use crate::store::recoveries::recoveries_where;
use crate::store::shares::shares;
use crate::store::stamps::stamps_where;

/// The macros that complete a statement, and what they make of a question mark: some make two statements. One whose name ends like
/// another's comes first.
const MACROS: [(&str, &str); 18] = [
    ("operator_keys_where!(", operator_keys_where!("?")),
    ("keys_where!(", keys_where!("?")),
    ("audit_where!(", audit_where!("?")),
    ("console_sessions_where!(", console_sessions_where!("?")),
    ("endpoints_where!(", endpoints_where!("?")),
    ("entries_where!(", entries_where!("?")),
    ("events_where!(", events_where!("?")),
    ("holds_where!(", holds_where!("?")),
    ("recoveries_where!(", recoveries_where!("?")),
    ("shares!(", shares!("?")),
    ("stamps_where!(", stamps_where!("?")),
    ("readable!(", readable!("?")),
    ("deliveries!(", deliveries!("?")),
    ("damageable!(", damageable!("?")[0]),
    ("damageable!(", damageable!("?")[1]),
    ("due!(", due!("?")[0]),
    ("due!(", due!("?")[1]),
    ("waiting_endpoints!(", waiting_endpoints!("?")),
];

/// The statements that readers and batches ask, each with the number of its arguments.
fn questions() -> impl Iterator<Item = (String, usize)> {
    let sources = [
        include_str!("../activity.rs"),
        include_str!("../audit.rs"),
        include_str!("../console_sessions.rs"),
        include_str!("../cosignatures.rs"),
        include_str!("../endpoints.rs"),
        include_str!("../epochs.rs"),
        include_str!("../events.rs"),
        include_str!("../files.rs"),
        include_str!("../holds.rs"),
        include_str!("../keys.rs"),
        include_str!("../load.rs"),
        include_str!("../operator_keys.rs"),
        include_str!("../overview.rs"),
        include_str!("../policies.rs"),
        include_str!("../read.rs"),
        include_str!("../recoveries.rs"),
        include_str!("../retention.rs"),
        include_str!("../shares.rs"),
        include_str!("../stamps.rs"),
        include_str!("../tree.rs"),
    ];
    sources.into_iter().flat_map(statements).map(|sql| {
        let sql = sql.replace("{}", "$1,$2");
        let arguments = (1..10).take_while(|n| sql.contains(&format!("${n}")));
        let arguments = arguments.count();
        (sql, arguments)
    })
}

/// The string literals of a source text that are a statement, with continued lines joined, and those that a macro completes.
fn statements(source: &str) -> Vec<String> {
    // A quotation mark within a literal does not end it.
    let source = source.replace("\\\"", "\0");
    let parts: Vec<_> = source.split('"').collect();
    let found = parts.windows(2).flat_map(|pair| {
        let (before, text) = (pair[0].trim_end(), pair[1]);
        // The beginning of several, which are among them whole.
        if text.ends_with(' ') {
            return Vec::new();
        }
        let lines: Vec<_> = text.split("\\\n").map(str::trim).collect();
        let text = lines.join(" ").replace('\0', "\"");
        if text.starts_with("SELECT") || text.starts_with("WITH") {
            return vec![text];
        }
        let called = MACROS.iter().find(|(name, _)| before.ends_with(*name));
        let made =
            (MACROS.iter()).filter(|(name, _)| called.is_some_and(|(called, _)| called == name));
        made.map(|(_, whole)| whole.replace('?', &text)).collect()
    });
    found.collect()
}

#[test]
fn no_question_scans_a_whole_table() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("b.db").into(), true).unwrap();
    let mut conn = store.reader().unwrap();
    let mut seen = 0;
    for (sql, arguments) in questions() {
        let plan: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
        let rows = conn
            .one(Statement {
                sql: plan,
                args: vec![Arg::Int(1); arguments],
            })
            .unwrap();
        for row in rows.rows {
            let step = row.text(3).unwrap();
            // A query that steps through an index key by key starts at its first row and keeps the keys it has visited.
            let met = step == "SCAN w" || step == "SCAN delivery USING INDEX delivery_waiting";
            // Leases exist only for what nodes hold in memory, and they name only as many holders as there are nodes.
            let held = step.ends_with(" USING INDEX delivery_leased");
            // The rows of a subquery with a LIMIT are only counted.
            let counted = step == "SCAN e";
            // The one row of the head.
            let one = step == "SCAN grown";
            // The operator has few keys, and some commands need all of them.
            let own = step.starts_with("SCAN operator_key");
            assert!(
                !step.starts_with("SCAN")
                    || met
                    || held
                    || counted
                    || one
                    || own
                    || step.contains("CONSTANT"),
                "{step}: {sql}"
            );
            let few = sql.starts_with("SELECT DISTINCT lease");
            assert!(few || !step.contains("TEMP B-TREE"), "{step}: {sql}");
        }
        seen += 1;
    }
    assert!(seen >= 100, "only {seen} statements were found");
}

/// Everything avoidable is forbidden, so the remaining plan shows what a query needs.
#[test]
#[cfg(feature = "postgres")]
fn no_question_scans_or_sorts_a_whole_table_on_postgresql() {
    let Some(postgres) = bookguard_test_postgres::Postgres::shared() else {
        return;
    };
    let url = postgres.fresh_database();
    Store::open(&url.as_str().into(), true).unwrap();
    let mut script =
        "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; \
                      SET plan_cache_mode = force_generic_plan;"
            .to_owned();
    for (n, (sql, arguments)) in questions().enumerate() {
        let nulls = match arguments {
            0 => String::new(),
            _ => format!("({})", vec!["NULL"; arguments].join(",")),
        };
        script += &format!("PREPARE q{n} AS {sql}; SELECT $${sql}$$; EXPLAIN EXECUTE q{n}{nulls};");
    }
    let plans = postgres.sql(bookguard_test_postgres::database_of(&url), &script);
    let mut asked = "";
    for line in plans.lines() {
        if line.starts_with("SELECT") {
            asked = line;
        }
        assert!(
            !line.contains("Seq Scan") && !line.contains("Sort "),
            "{line}: {asked}"
        );
    }
    assert!(plans.matches("Index").count() >= 100, "{plans}");
    postgres.drop_database(&url);
}
