//! Personal data that is erased: it is nowhere afterwards, everything else is proven as before, and a legal hold prevents it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bookguard_core::evidence;
use bookguard_test_postgres::{Options, Postgres, database_of};
use bookguard_tests::engine::{Engine, TestDatabase, on_every_engine};
use bookguard_tests::is_long;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Serving, bookguard};
use bookguard_tests::receiver::Answer;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use tokio::task::block_in_place;

/// In every value that can be erased, and nowhere else.
const CANARY: &str = "Quokkazephyr";

/// A booking with the canary wherever a person can be named, and what was answered under the key `once`.
async fn known_everywhere(acme: &Partner) -> String {
    let body = samples::booking_with(json!({
        "talent": {"id": format!("t-{CANARY}"), "name": format!("{CANARY} Band")},
        "organizer": {"id": format!("o-{CANARY}"), "name": format!("{CANARY} Smith")},
        "eventType": format!("{CANARY}'s birthday"),
        "metadata": {"email": format!("{CANARY}@example.com")},
        "policyId": "case_by_case",
    }));
    let booking = acme.post_once("/v1/bookings", "once", &body).await.ok(201);
    let booking = booking.text("bookingId").to_owned();
    let path = |end: &str| format!("/v1/bookings/{booking}/{end}");
    let terms = acme.get(&path("disclosure")).await.ok(200);
    let mut acceptance = samples::acceptance(terms.text("disclosureHash"));
    acceptance["method"] = json!(format!("said {CANARY}"));
    acceptance["ip"] = json!("203.0.113.77");
    acceptance["userAgent"] = json!(format!("{CANARY}/1.0"));
    acme.post(&path("acceptances"), &acceptance).await.ok(201);
    let file = format!("signed, {CANARY}\n").repeat(50_000);
    let mut item = samples::item_with_file(&file);
    item["title"] = json!(format!("Contract of {CANARY}"));
    item["note"] = json!(format!("{CANARY} signed late"));
    item["reference"] = json!(format!("case {CANARY}"));
    let item = acme.post(&path("evidence/items"), &item).await.ok(201);
    let file_path = path(&format!("evidence/items/{}/file", item.text("itemId")));
    let done = acme.send(acme.request("PUT", &file_path).body(file)).await;
    done.ok(200);
    let share = json!({"note": format!("for {CANARY}")});
    let done = acme.post_once(&path("shares"), "share", &share).await;
    done.ok(201);
    let hold =
        json!({"reason": format!("{CANARY} sues"), "reference": format!("court of {CANARY}")});
    let hold = acme.post_once(&path("holds"), "hold", &hold).await.ok(201);
    acme.delete(&path(&format!("holds/{}", hold.text("holdId"))))
        .await
        .ok(200);
    acme.protect(&booking).await;
    let mut cancellation = samples::cancellation();
    cancellation["note"] = json!(format!("{CANARY} is ill"));
    cancellation["evidence"] = json!([{
        "kind": format!("letter of {CANARY}"), "name": format!("{CANARY}.pdf"), "mediaType": "application/pdf",
        "sha256": format!("sha256:{}", "ab".repeat(32)),
    }]);
    let canceled = acme.cancel(&booking, &cancellation).await;
    let decide = format!("/v1/resolutions/{}/decide", canceled.text("resolutionId"));
    let decision = json!({"refund": 1000.25, "decidedBy": format!("{CANARY} Jones"), "rationale": format!("{CANARY} was ill indeed.")});
    acme.post_once(&decide, "decide", &decision).await.ok(201);
    // What changes nothing is remembered too.
    let done = acme.post_once(&decide, "decide-again", &decision).await;
    done.ok(201);
    booking
}

#[tokio::test]
async fn a_report_names_only_files_that_are_there() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let path = |end: &str| format!("/v1/bookings/{booking}/{end}");
        let mut sent = String::new();
        for file in ["sent", "never sent"] {
            let item = samples::item_with_file(file);
            let item = acme.post(&path("evidence/items"), &item).await.ok(201);
            if file == "sent" {
                item.text("itemId").clone_into(&mut sent);
                let to = path(&format!("evidence/items/{sent}/file"));
                acme.send(acme.request("PUT", &to).body(file)).await.ok(200);
            }
        }
        let mut body =
            json!({"party": "everybody", "legalBasis": "consent_withdrawn", "dryRun": true});
        let would = acme.post(&path("erasures"), &body).await.ok(200);
        assert_eq!(would["files"], json!([sent]));
        body["dryRun"] = json!(false);
        body["expected"] = would["planHash"].clone();
        let done = acme.post(&path("erasures"), &body).await.ok(200);
        assert_eq!(done["files"], json!([sent]));
        server.close().await.verify(1).await;
    })
    .await;
}

/// How often the canary is in the files of a folder.
fn in_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(in_files(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let times = String::from_utf8_lossy(&bytes).matches(CANARY).count();
        if times > 0 {
            found.push(format!("{} ×{times}", path.display()));
        }
    }
    found
}

/// In which tables of a PostgreSQL database the canary is, in any column.
fn in_tables(database: &TestDatabase) -> Vec<String> {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let rows = |table: &String| {
        format!(
            "(SELECT COUNT(*) FROM {table} t WHERE t::text LIKE '%{CANARY}%' OR t::text LIKE '%{hex}%')"
        )
    };
    let found = |table: &String| database.count(&format!("SELECT {}", rows(table))) > 0;
    let tables = database.tables();
    // First all at once, because each query starts a program.
    let all = tables.iter().map(rows).collect::<Vec<_>>().join(" + ");
    match database.count(&format!("SELECT {all}")) {
        0 => Vec::new(),
        _ => tables.into_iter().filter(found).collect(),
    }
}

/// Where the canary is.
fn places(database: &TestDatabase, engine: Engine) -> Vec<String> {
    match engine {
        Engine::Sqlite => in_files(database.folder()),
        Engine::Postgres => in_tables(database),
    }
}

fn verifies(packet: &str, key: &str) -> bool {
    let report = evidence::verify(packet.as_bytes(), key);
    assert!(report.verified(), "{report}");
    report.verified()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_erased_is_nowhere_and_everything_else_is_proven_as_before() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let (_receiver, _) = acme.receiving(Answer::Status(200)).await;
        let (_failing, _) = acme.receiving(Answer::Status(500)).await;
        let booking = known_everywhere(&acme).await;
        let other = acme.book().await;
        let path = |end: &str| format!("/v1/bookings/{booking}/{end}");
        assert!(!places(server.database(), engine).is_empty());
        let before = acme.packet(&booking).await.text();
        let key = server.vkey().await;
        assert!(before.contains(CANARY) && verifies(&before, &key));

        let asked =
            json!({"party": "everybody", "legalBasis": "consent_withdrawn", "requestRef": format!("mail of {CANARY}")});
        let mut dry = asked.clone();
        dry["dryRun"] = json!(true);
        let would = acme.post(&path("erasures"), &dry).await;
        assert!(!would.text().contains(CANARY));
        let would = would.ok(200);
        assert_eq!((would.list("holds").len(), would.list("shares").len()), (1, 1));
        would.holds(json!({"dryRun": true}));
        assert_eq!(
            would["values"][0],
            json!({"entry": 0, "names": ["eventType", "metadata", "organizer", "talent"]})
        );
        assert_eq!(
            (would.list("values").len(), would.list("files").len()),
            (5, 1),
            "{would}"
        );
        assert!(acme.booking(&booking).await.to_string().contains(CANARY));

        // A hold keeps it, and the file too, whichever booking names it.
        let hold = acme
            .post(&path("holds"), &json!({"reason": "Chargeback"}))
            .await
            .ok(201);
        for asked in [&asked, &dry] {
            let refused = acme.post(&path("erasures"), asked).await;
            refused
                .refused(409, "legal_hold")
                .says(&[hold.text("holdId"), "Release the hold"]);
        }
        let items = acme.get(&path("evidence/items")).await.ok(200);
        let file = path(&format!(
            "evidence/items/{}/file",
            items["items"][0].text("itemId")
        ));
        acme.delete(&file).await.refused(409, "legal_hold");
        let same =
            json!({"kind": "other", "title": "Same file", "sha256": items["items"][0]["sha256"]});
        acme.post(&format!("/v1/bookings/{other}/evidence/items"), &same)
            .await
            .ok(201);
        let everything = json!({"fields": ["sha256"], "legalBasis": "other"});
        let elsewhere = acme
            .post(&format!("/v1/bookings/{other}/erasures"), &everything)
            .await;
        let shared = format!("A file of booking {other} is also evidence of booking {booking}, which is under");
        elsewhere.refused(409, "legal_hold").says(&[&shared]);
        let hold_path = path(&format!("holds/{}", hold.text("holdId")));
        let released = acme.delete(&hold_path).await.ok(200);
        assert!(released["releasedAt"].is_string());
        assert_eq!(acme.delete(&hold_path).await.ok(200), released);
        assert_eq!(acme.get(&path("holds")).await.ok(200).list("data").len(), 2);

        // A key that may write bookings may not erase.
        let writer = acme.scoped(&["bookings:write", "evidence:read"]).await;
        let refused = writer.post(&path("erasures"), &asked).await;
        refused.refused(403, "insufficient_scope");
        let rival = server.partner("Rival").await;
        let refused = rival.post(&path("erasures"), &asked).await;
        refused.refused(404, "not_found");
        rival.get(&path("erasures")).await.refused(404, "not_found");
        rival.get(&path("holds")).await.refused(404, "not_found");

        // The texts of a hold that was released since would go too, and nobody was shown that.
        let mut shown = asked.clone();
        shown["expected"] = would["planHash"].clone();
        acme.post(&path("erasures"), &shown).await.refused(409, "erasure_changed");
        let would = acme.post(&path("erasures"), &dry).await.ok(200);
        shown["expected"] = would["planHash"].clone();
        let done = acme.post(&path("erasures"), &shown).await.ok(200);
        assert_eq!((&done["values"], done.list("holds").len()), (&would["values"], 2));
        assert!(done["receipt"]["leafIndex"].is_u64(), "{done}");
        let again = acme.post(&path("erasures"), &shown).await.ok(200);
        assert_eq!(
            (again.list("values").len(), again.get("receipt")),
            (0, None)
        );

        let shown = acme.booking(&booking).await;
        let nobody = json!({"id": "erased", "name": "erased"});
        assert_eq!(
            (&shown["organizer"], &shown["talent"], shown.get("metadata")),
            (&nobody, &nobody, None)
        );
        assert_eq!(shown["status"], "canceled");
        let listed = acme.get(&path("erasures")).await.ok(200);
        listed["erasures"][0]
            .holds(json!({"legalBasis": "consent_withdrawn", "requestRef": format!("mail of {CANARY}")}));
        let holds = acme.get(&path("holds")).await.ok(200);
        for hold in holds.list("data") {
            assert_eq!((&hold["reason"], hold.get("reference")), (&json!("erased"), None));
            assert!(hold["releasedAt"].is_string());
        }
        // The reference of the request goes with an erasure of its own.
        let reference = json!({"fields": ["requestRef"], "legalBasis": "other"});
        let gone = acme.post(&path("erasures"), &reference).await.ok(200);
        assert_eq!(gone["values"][0]["names"], json!(["requestRef"]));
        let again = acme.post(&path("erasures"), &reference).await.ok(200);
        assert_eq!((again.list("values").len(), again.get("receipt")), (0, None));
        let resolution = format!("/v1/resolutions/{}", shown.text("resolutionId"));
        acme.get(&resolution).await.ok(200)["decision"]
            .holds(json!({"decidedBy": "erased", "rationale": "erased"}));
        let after = acme.packet(&booking).await.text();
        assert!(!after.contains(CANARY) && !after.contains("203.0.113.77"));
        assert!(verifies(&after, &key) && verifies(&before, &key));
        assert!(after.contains("name erased"), "{after}");

        // Nobody answers again with what was erased, and nothing is done twice.
        for (key, decision) in [("decide", &resolution), ("decide-again", &resolution)] {
            let decided = acme.get(decision).await.ok(200);
            let path = format!("/v1/resolutions/{}/decide", decided.text("supersedes"));
            let body = json!({"refund": 1000.25, "decidedBy": format!("{CANARY} Jones"), "rationale": format!("{CANARY} was ill indeed.")});
            acme.post_once(&path, key, &body).await.refused(409, "answer_erased");
        }
        let body = samples::booking_with(json!({
            "talent": {"id": format!("t-{CANARY}"), "name": format!("{CANARY} Band")},
            "organizer": {"id": format!("o-{CANARY}"), "name": format!("{CANARY} Smith")},
            "eventType": format!("{CANARY}'s birthday"),
            "metadata": {"email": format!("{CANARY}@example.com")},
            "policyId": "case_by_case",
        }));
        let refused = acme.post_once("/v1/bookings", "once", &body).await;
        refused.refused(409, "answer_erased");
        acme.get(&file).await.refused(404, "not_found");
        let sent = acme.send(acme.request("PUT", &file).body("x")).await;
        sent.refused(409, "item_without_file");
        for event in acme.events(&booking).await {
            assert!(
                event["prunedAt"].is_string() && event["payload"].is_null(),
                "{event}"
            );
            assert_ne!(event["status"], "pending");
        }
        let shares = acme.get(&path("shares")).await.ok(200);
        assert!(shares["data"][0].get("note").is_none(), "{shares}");
        acme.get("/v1/bookings?search=Quokkazephyr")
            .await
            .ok(200)
            .holds(json!({"data": []}));

        // The booking goes on: what is recorded later is shown, and can be erased in its turn.
        let later = json!({"kind": "message", "title": "Later words", "note": "after it"});
        acme.post(&path("evidence/items"), &later).await.ok(201);
        let packet = acme.packet(&booking).await.text();
        assert!(packet.contains("Later words") && verifies(&packet, &key));
        let notes = json!({"fields": ["note"], "legalBasis": "unlawful"});
        let second = acme.post(&path("erasures"), &notes).await.ok(200);
        assert_eq!(second.list("values").len(), 1, "{second}");
        assert!(verifies(&acme.packet(&booking).await.text(), &key));

        // Notes on shares and holds go when nothing else is left, too.
        let note = json!({"note": format!("for {CANARY} again")});
        acme.post_once(&path("shares"), "share-again", &note).await.ok(201);
        let late = json!({"reason": format!("{CANARY} sues again")});
        let late = acme.post(&path("holds"), &late).await.ok(201);
        let late = path(&format!("holds/{}", late.text("holdId")));
        acme.delete(&late).await.ok(200);
        let third = acme.post(&path("erasures"), &notes).await.ok(200);
        assert_eq!(
            (third.list("values").len(), third.list("shares").len(), third.list("holds").len()),
            (0, 1, 1),
            "{third}"
        );
        assert_eq!(third.get("receipt"), None);
        let refused = acme.post_once(&path("shares"), "share-again", &note).await;
        refused.refused(409, "answer_erased");

        if engine == Engine::Sqlite {
            let folder = server.folder().join("later");
            std::fs::create_dir(&folder).unwrap();
            let backup = server.database().command("backup").arg(folder.join("b.db"));
            backup.run().await.ended(0, &[]);
        }
        assert_eq!(places(server.database(), engine), Vec::<String>::new());
        let database = server.close().await;
        assert_eq!(places(&database, engine), Vec::<String>::new());
        database.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn one_partys_data_is_erased_and_the_others_stays() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book_with(json!({"metadata": {"room": "blue"}})).await;
        let path = |end: &str| format!("/v1/bookings/{booking}/{end}");
        for party in ["organizer", "talent"] {
            let item = json!({"kind": "message", "title": format!("From the {party}"), "party": party, "note": "private"});
            acme.post(&path("evidence/items"), &item).await.ok(201);
        }
        let before = acme.booking(&booking).await;
        for (body, pointer, code) in [
            (json!({"legalBasis": "objection"}), "/fields", "fields_or_party"),
            (json!({"legalBasis": "objection", "fields": ["note"], "party": "talent"}), "/fields", "fields_or_party"),
            (json!({"fields": [], "legalBasis": "other"}), "/fields", "empty"),
            (json!({"fields": ["bookingValue"], "legalBasis": "objection"}), "/fields/0", "not_allowed"),
            (json!({"party": "talent"}), "/legalBasis", "missing_field"),
        ] {
            acme.post(&path("erasures"), &body).await.faulty(&[(pointer, code)]);
        }
        for (body, message) in [
            (json!({"legalBasis": "objection"}), "is missing, and so is \"party\""),
            (json!({"legalBasis": "objection", "fields": ["note"], "party": "talent"}), "stands beside \"party\""),
        ] {
            let refused = acme.post(&path("erasures"), &body).await;
            assert_eq!(refused.json()["details"][0]["message"], message);
        }
        let asked = json!({"party": "organizer", "legalBasis": "objection"});
        let done = acme.post(&path("erasures"), &asked).await.ok(200);
        assert_eq!(done["values"], json!([
            {"entry": 0, "names": ["organizer"]},
            {"entry": 1, "names": ["note", "title"]},
        ]));
        let shown = acme.booking(&booking).await;
        assert_eq!((&shown["talent"], &shown["metadata"]), (&before["talent"], &before["metadata"]));
        assert_eq!(shown["organizer"]["name"], "erased");
        let items = acme.get(&path("evidence/items")).await.ok(200);
        let titles: Vec<&Value> = items.list("items").iter().map(|item| &item["title"]).collect();
        assert_eq!(titles, ["erased", "From the talent"]);

        // An acceptance that is sent again does not bring back where it came from.
        let terms = acme.get(&path("disclosure")).await.ok(200);
        let mut acceptance = samples::acceptance(terms.text("disclosureHash"));
        acceptance["ip"] = json!("203.0.113.77");
        let accepted = acme.post(&path("acceptances"), &acceptance).await.ok(201);
        let fields = json!({"fields": ["ip", "method", "userAgent"], "legalBasis": "objection"});
        acme.post(&path("erasures"), &fields).await.ok(200);
        let again = acme.post(&path("acceptances"), &acceptance).await.ok(201);
        assert_eq!(again["receipt"]["leafIndex"], accepted["receipt"]["leafIndex"]);
        assert_eq!((&again["method"], again.get("ip")), (&json!("erased"), None));
        acme.verified_packet(&booking).await;
        let database = server.close().await;
        database.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn what_the_operator_holds_only_the_operator_releases() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let booking = acme.book().await;
    let placed = server.database().command([
        "bookings",
        "holds",
        "place",
        &booking,
        "--reason",
        "Court order",
    ]);
    let hold = placed.run().await.string("holdId");
    let path = format!("/v1/bookings/{booking}/holds/{hold}");
    acme.delete(&path)
        .await
        .refused(409, "operator_hold")
        .says(&["Ask the operator"]);
    let refused = acme.command([
        "bookings",
        "erase",
        &booking,
        "--party",
        "everybody",
        "--legal-basis",
        "objection",
    ]);
    refused.arg("--yes").run().await.refused(5, &["legal_hold"]);
    let listed = acme
        .command(["bookings", "holds", "list", &booking])
        .run()
        .await;
    assert_eq!(listed.json()["data"][0]["placedBy"], "operator");
    let released = server
        .database()
        .command(["bookings", "holds", "release", &booking, &hold]);
    assert!(released.json().await["releasedAt"].is_string());
    let asked = [
        "bookings",
        "erase",
        &booking,
        "--party",
        "everybody",
        "--legal-basis",
        "objection",
    ];
    let dry = acme.command(asked).arg("--dry-run").json().await;
    let unasked = acme.command(asked).run().await;
    unasked.refused(2, &["--yes"]);
    let expecting = async |plan: &str, more: &str| {
        let erase = acme.command(asked).arg("--expect-plan").arg(plan);
        erase.args(more).run().await
    };
    let other = expecting(&format!("sha256:{}", "0".repeat(64)), "--yes").await;
    other.refused(5, &["erasure_changed"]);
    let plan = dry.text("planHash");
    let done = expecting(plan, "--yes --idempotency-key once").await.json();
    assert_eq!(done["values"], dry["values"]);
    // Repeated, it has nothing to ask about, and the answer is the first one's.
    let again = expecting(plan, "--idempotency-key once").await.json();
    assert_eq!(again, done);
    let erasures = acme
        .command(["bookings", "erasures", &booking])
        .json()
        .await;
    assert_eq!(erasures["erasures"][0]["legalBasis"], "objection");
}

#[tokio::test]
async fn a_contract_ends_page_by_page_and_what_is_held_stays() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let acme = server.partner(CANARY).await;
        let rival = server.partner("Rival").await;
        let other = rival.book().await;
        let mut bookings = Vec::new();
        for _ in 0..3 {
            bookings.push(named_canary(&acme).await);
        }
        acme.endpoint("http://127.0.0.1:9/").await;
        let held = &bookings[1];
        let hold = acme
            .post(
                &format!("/v1/bookings/{held}/holds"),
                &json!({"reason": "Court"}),
            )
            .await
            .ok(201);
        let archive = server.folder().join("acme.tar");
        let beside = server.folder().join("acme.part");
        std::fs::write(&beside, "mine").unwrap();
        let exported = acme
            .command("partners export --out")
            .arg(&archive)
            .json()
            .await;
        assert_eq!(exported["bookings"], 3, "{exported}");
        let bytes = std::fs::read(&archive).unwrap();
        assert_eq!(bytes.len() as u64, exported["bytes"]);
        let names: Vec<String> = bytes
            .chunks(512)
            .filter(|block| &block[257..262] == b"ustar")
            .map(|block| {
                String::from_utf8_lossy(&block[..100])
                    .trim_end_matches('\0')
                    .to_owned()
            })
            .collect();
        assert!(
            names.contains(&format!("bookings/{held}/packet.json")),
            "{names:?}"
        );
        std::fs::remove_file(&archive).unwrap();
        assert_eq!(std::fs::read_to_string(&beside).unwrap(), "mine");

        let end = || {
            server
                .database()
                .command(["partners", "end", &acme.id, "--yes"])
        };
        let first = end().run().await;
        first.ended(5, &["legal_hold", "has not ended"]);
        let first: Value = serde_json::from_str(&first.stdout).unwrap();
        first.holds(json!({"erased": 2, "done": false}));
        assert_eq!(first["held"][0]["holdId"], hold["holdId"]);
        // A running server knows for some seconds that a key was good, but records nothing for it.
        let late = acme.post("/v1/bookings", &samples::booking()).await;
        late.refused(403, "partner_suspended");
        server.advance(60_000);
        until("the key to be refused", async || {
            (acme.get("/v1/bookings").await.status == 401).then_some(())
        })
        .await;
        let shown = server
            .database()
            .command(["bookings", "get", held])
            .json()
            .await;
        assert!(shown.to_string().contains(CANARY));
        let listed = end().arg("--output=table").run().await;
        listed.ended(5, &["has not ended"]);
        for words in [held.as_str(), hold.text("holdId"), "Court"] {
            assert!(listed.stdout.contains(words), "{words} in {listed:?}");
        }
        let back = |word: &str| {
            let line = server.database().command(["partners", word, &acme.id]);
            line.arg("--output=table").run()
        };
        let reinstated = back("reinstate").await;
        reinstated.ended(0, &[]);
        assert!(reinstated.stdout.contains("stay revoked"), "{reinstated:?}");
        back("suspend").await.ended(0, &[]);
        let released = server
            .database()
            .command(["bookings", "holds", "release", held]);
        released.arg(hold.text("holdId")).run().await.ended(0, &[]);
        let told = end().arg("--output=table").run().await;
        told.ended(0, &[]);
        assert!(told.stdout.contains("bookings erased"), "{told:?}");
        assert!(!told.stdout.contains("at least"), "{told:?}");
        // Not even beside the database, while a server has it open and nobody comes.
        assert_eq!(in_files(server.folder()), Vec::<String>::new());
        end()
            .json()
            .await
            .holds(json!({"erased": 0, "held": [], "done": true}));
        assert_eq!(
            rival.booking(&other).await["organizer"]["name"],
            "Acme Events"
        );
        assert_eq!(places(server.database(), engine), Vec::<String>::new());
        let database = server.close().await;
        database.verify(4).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_leaves_nothing_of_what_it_erased_beside_a_reader_that_ends() {
    let database = TestDatabase::new(Engine::Sqlite);
    let server = Serving::start(&database, &[]).await;
    let acme = server.partner("Acme").await;
    let booking = named_canary(&acme).await;
    server.stop().await;
    let entries = |connection: &rusqlite::Connection| -> i64 {
        let count = "SELECT COUNT(*) FROM entry";
        connection.query_row(count, [], |row| row.get(0)).unwrap()
    };
    let opened = || rusqlite::Connection::open(database.file()).unwrap();
    // As a server does: while it is connected, no end of a command cuts the write-ahead log by itself.
    let server = opened();
    let reader = opened();
    reader.execute_batch("BEGIN").unwrap();
    let before = entries(&reader);
    assert_eq!(entries(&server), before);
    let line = format!(
        "bookings erase {booking} --party everybody --legal-basis objection --yes --partner {}",
        acme.id
    );
    let (erased, ()) = tokio::join!(database.command(line).run(), async {
        until("the erasure", async || {
            (entries(&opened()) > before).then_some(())
        })
        .await;
        drop(reader);
    });
    erased.ended(0, &[]);
    assert_eq!(in_files(database.folder()), Vec::<String>::new());
    drop(server);
}

/// A booking with the canary in it.
async fn named_canary(acme: &Partner) -> String {
    let organizer = json!({"organizer": {"id": "o", "name": CANARY}});
    acme.book_with(organizer).await
}

/// The tables of which rows may hold what is erased.
const TABLES: &str =
    "entry, booking, event, attempt, answer, share, hold, file, file_part, partner";

#[tokio::test(flavor = "multi_thread")]
async fn what_postgresql_keeps_of_it_in_its_own_files_goes_as_the_operators_page_says() {
    let Some(postgres) = block_in_place(|| Postgres::start(&Options::default())) else {
        return;
    };
    let url = block_in_place(|| postgres.fresh_database());
    let name = database_of(&url).to_owned();
    let server = TestServer::on(TestDatabase::at(url.as_str()), |config| config).await;
    let acme = server.partner("Acme").await;
    let booking = known_everywhere(&acme).await;
    let sql = |sql: &str| block_in_place(|| postgres.sql(&name, sql));
    // Statistics hold samples of rows.
    sql("ANALYZE");
    let asked = json!({"party": "everybody", "legalBasis": "objection"});
    acme.post(&format!("/v1/bookings/{booking}/erasures"), &asked)
        .await
        .ok(200);
    let data = std::path::PathBuf::from(sql("SHOW data_directory").trim());
    let (tables, log) = (data.join("base"), data.join("pg_wal"));
    sql("CHECKPOINT");
    assert!(
        !in_files(&tables).is_empty() && !in_files(&log).is_empty(),
        "old versions of rows stay until they are vacuumed"
    );
    // What the page says, to the letter.
    sql(&format!("VACUUM (FULL, ANALYZE) {TABLES}"));
    sql("VACUUM FULL pg_statistic");
    sql("CHECKPOINT");
    assert_eq!(in_files(&tables), Vec::<String>::new());
    block_in_place(|| postgres.set("wal_recycle", "off"));
    sql("SELECT pg_switch_wal()");
    sql("CHECKPOINT");
    assert_eq!(in_files(&log), Vec::<String>::new());
    acme.verified_packet(&booking).await;
    let page = include_str!("../../../../docs/operate/backup.md");
    for said in [
        TABLES,
        "VACUUM FULL pg_statistic",
        "wal_recycle",
        "pg_switch_wal",
    ] {
        assert!(
            page.contains(said),
            "docs/operate/backup.md does not say {said}"
        );
    }
    server.close().await.verify(1).await;
}

/// How many bookings a contract has that is killed three times while it ends: six pages, and with `LONG=1` a dozen.
fn many_bookings() -> usize {
    if is_long() { 600 } else { 400 }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_contract_that_is_killed_between_its_pages_goes_on_and_nothing_is_half_erased()
{
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let operated = ["--operator-listen", "127.0.0.1:0"];
        let mut server = Serving::start(&database, &operated).await;
        let operator_url = server.operator_url().await;
        let acme = server.partner("Acme").await;
        let named = json!({"organizer": {"id": "o", "name": CANARY}, "metadata": {"who": CANARY}});
        let bookings = many_bookings();
        acme.book_many(bookings, &named).await;
        let erased = || database.count("SELECT COUNT(*) FROM entry WHERE kind = 'evidence.erased'");
        let end = || database.command(["partners", "end", &acme.id, "--yes"]);
        // Twice the command, then the server that carries it out.
        for _ in 0..2 {
            let before = erased();
            let killed = end().killed_when(|| block_in_place(erased) > before).await;
            assert!(killed && erased() < bookings, "it had ended before");
            whole_or_erased(&database, &acme, erased()).await;
        }
        database.command("ledger verify").run().await.ended(0, &[]);
        let made = database
            .command("operator-keys create --name desk")
            .run()
            .await;
        let remote = bookguard(["partners", "end", &acme.id, "--yes", "--url", &operator_url])
            .env("BOOKGUARD_OPERATOR_KEY", made.string("operatorKey"));
        let before = erased();
        let is_away = AtomicBool::new(false);
        let (is_asking, ()) = tokio::join!(
            remote.killed_when(|| is_away.load(Ordering::Relaxed)),
            async {
                until("some more that is erased", async || {
                    (block_in_place(erased) > before).then_some(())
                })
                .await;
                server.kill().await;
                is_away.store(true, Ordering::Relaxed);
            }
        );
        assert!(is_asking, "it ended although there was more to erase");
        whole_or_erased(&database, &acme, erased()).await;
        database.command("ledger verify").run().await.ended(0, &[]);
        let ended = end().json().await;
        ended.holds(json!({"held": [], "done": true}));
        for shown in [
            format!("partners get {} --output table", acme.id),
            "partners list --output table".to_owned(),
        ] {
            let shown = database.command(shown).run().await;
            shown.said(&["ended"]);
            assert!(!shown.stdout.contains("suspended"), "{shown:?}");
        }
        assert_eq!(erased(), bookings);
        assert_eq!(places(&database, engine), Vec::<String>::new());
        database.verify(bookings).await;
    })
    .await;
}

/// Requires that each booking shows everything or nothing, and that `erased` of them show nothing.
async fn whole_or_erased(database: &TestDatabase, acme: &Partner, erased: usize) {
    let mut nothing = 0;
    let mut cursor = String::new();
    loop {
        let list = format!("bookings list --partner {} --limit 100{cursor}", acme.id);
        let page = database.command(list.as_str()).json().await;
        for booking in page.list("data") {
            let shown = [&booking["organizer"]["name"], &booking["talent"]["name"]];
            let is_erased = shown.map(|name| name == "erased");
            assert_eq!(is_erased[0], is_erased[1], "{booking}");
            assert_eq!(is_erased[0], booking.get("metadata").is_none(), "{booking}");
            nothing += usize::from(is_erased[0]);
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!(" --cursor {next}"),
            None => break,
        }
    }
    assert_eq!(nothing, erased);
}

#[tokio::test]
async fn sqlite_keeps_nothing_of_it_in_rows_that_were_moved_between_pages() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let mut bookings = Vec::new();
    let many: usize = if is_long() { 150 } else { 50 };
    for n in 0..many {
        let metadata = json!({"who": CANARY, "more": "x".repeat(1 + n * 7 % 400)});
        let booking = acme
            .book_with(json!({"organizer": {"id": "o", "name": CANARY}, "metadata": metadata}))
            .await;
        bookings.push(booking);
    }
    // Rows grow, so that pages overflow.
    for booking in &bookings {
        acme.reschedule(booking, &samples::new_date()).await.ok(200);
        acme.protect(booking).await;
        acme.cancel(booking, &samples::cancellation()).await;
    }
    assert!(!in_files(server.folder()).is_empty());
    let asked = json!({"party": "everybody", "legalBasis": "objection"});
    for booking in &bookings {
        let path = format!("/v1/bookings/{booking}/erasures");
        acme.post(&path, &asked).await.ok(200);
    }
    assert_eq!(in_files(server.folder()), Vec::<String>::new());
    server.close().await.verify(many).await;
}
