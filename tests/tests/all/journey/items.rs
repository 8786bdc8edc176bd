//! What a partner adds to a booking's evidence, and the files of it: hostile ones, repeated ones, and more than the quota.

use bookguard_core::limits::{
    ACCEPTANCES, CANCELLATION_EVIDENCE, EVIDENCE_KIND_CHARS, FILE_BYTES, FILE_PART_BYTES, ITEMS,
    METADATA_KEY_CHARS, METADATA_PAIRS, METADATA_VALUE_CHARS, METHOD_CHARS, NAME_CHARS,
    PACKET_BYTES, PARTY_ID_CHARS, POLICY_NAME_CHARS, POLICY_TIERS, REFERENCE_CHARS, RESCHEDULES,
    TEXT_CHARS, USER_AGENT_CHARS,
};
use bookguard_core::model::Quota;
use bookguard_server::config::Config;
use bookguard_tests::caller::Reply;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::bookguard;
use bookguard_tests::raw::Raw;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Map, Value, json};

/// Adds an item with this file, and returns the path of the file.
async fn add(acme: &Partner, booking: &str, file: &[u8]) -> String {
    let items = format!("/v1/bookings/{booking}/evidence/items");
    let item = acme.post(&items, &samples::item_with_file(file)).await;
    let item = item.ok(201);
    format!("{items}/{}/file", item.text("itemId"))
}

async fn put(acme: &Partner, path: &str, file: &[u8]) -> Reply {
    acme.send(acme.request("PUT", path).body(file.to_vec()))
        .await
}

/// Bytes that differ from part to part.
fn large(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|n| (n / 7 + n / FILE_PART_BYTES) as u8)
        .collect()
}

#[tokio::test]
async fn an_item_is_recorded_listed_and_proven_and_its_file_comes_back_byte_for_byte() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let items = format!("/v1/bookings/{booking}/evidence/items");
        let refund = json!({
            "kind": "refund", "title": "Refund of the deposit", "at": "2026-09-21T14:00:00Z", "party": "partner",
            "amount": 300.5, "reference": "re_1", "note": "By card.",
        });
        let first = acme.post_once(&items, "once-refund", &refund).await;
        let item = first.ok(201);
        item.holds(json!({"kind": "refund", "reference": "re_1", "addedAt": "2026-09-21T14:13:20.000Z"}));
        acme.post_once(&items, "once-refund", &refund).await.replays(&first);

        let file = large(2 * FILE_PART_BYTES + 17);
        let path = add(&acme, &booking, &file).await;
        acme.get(&path).await.refused(404, "not_found");
        let listed = acme.get(&items).await.ok(200);
        assert_eq!(listed.list("items").len(), 2);
        assert!(listed["items"][1].get("file").is_none(), "{listed}");

        let stored = put(&acme, &path, &file).await.ok(200);
        assert_eq!((&stored["file"]["bytes"], &stored["file"]["mediaType"]), (&json!(file.len()), &json!("application/octet-stream")));
        assert_eq!(put(&acme, &path, &file).await.ok(200), stored);
        assert_eq!(acme.get(&items).await.ok(200)["items"][1]["file"], stored["file"]);
        let got = acme.get(&path).await;
        assert_eq!((got.status, &got.body), (200, &file));
        let etag = got.header("etag").unwrap();
        let again = acme.request("GET", &path).header("if-none-match", etag);
        assert_eq!(acme.send(again).await.status, 304);

        // Another booking's item with the same bytes has the file at once, and it is stored once.
        let other = acme.book().await;
        let same = add(&acme, &other, &file).await;
        assert_eq!(acme.get(&same).await.body, file);
        let account = acme.get("/v1/partners/me").await.ok(200);
        assert_eq!(account["quota"]["fileBytes"]["used"], file.len());
        // Another partner has neither the file nor a way to it.
        let rival = server.partner("Rival").await;
        rival.get(&path).await.refused(404, "not_found");
        put(&rival, &path, &file).await.refused(404, "not_found");
        let own = add(&rival, &rival.book().await, &file).await;
        rival.get(&own).await.refused(404, "not_found");

        let packet = acme.get(&format!("/v1/bookings/{booking}/evidence")).await.ok(200);
        assert!(packet.to_string().contains("Refund of the deposit"));
        let database = server.close().await;
        database.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn no_file_is_ever_shown_as_a_page() {
    with_partner_on_every_engine(async |_server, acme| {
        let booking = acme.book().await;
        let polyglot = [
            b"%PDF-1.4\n<html><script>alert(1)</script>".as_slice(),
            &[0; 64],
        ]
        .concat();
        let bomb = [b"PK\x03\x04".as_slice(), &[0; 100_000]].concat();
        for (file, media_type, extension) in [
            (
                b"<!doctype html><script>alert(document.domain)</script>".as_slice(),
                "application/octet-stream",
                "bin",
            ),
            (
                b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>",
                "application/octet-stream",
                "bin",
            ),
            (
                b"<?xml version=\"1.0\"?><x/>",
                "application/octet-stream",
                "bin",
            ),
            (&polyglot, "application/pdf", "pdf"),
            (&bomb, "application/octet-stream", "bin"),
            (b"\x89PNG\r\n\x1a\n", "image/png", "png"),
            (b"plain words\n", "text/plain; charset=utf-8", "txt"),
        ] {
            let path = add(&acme, &booking, file).await;
            let claimed = acme
                .request("PUT", &path)
                .header("content-type", "text/html")
                .body(file.to_vec());
            acme.send(claimed).await.ok(200);
            let got = acme.get(&path).await;
            assert_eq!((got.status, &*got.body), (200, file));
            let item = path.split('/').nth_back(1).unwrap();
            for (name, value) in [
                ("content-type", media_type),
                (
                    "content-disposition",
                    &format!("attachment; filename=\"{item}.{extension}\""),
                ),
                ("x-content-type-options", "nosniff"),
                ("content-security-policy", "sandbox; default-src 'none'"),
                ("content-length", &file.len().to_string()),
            ] {
                assert_eq!(got.header(name), Some(value), "{path} {name}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn other_bytes_than_the_recorded_ones_are_refused_and_nothing_is_stored() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let path = add(&acme, &booking, b"the contract").await;
        put(&acme, &path, b"another")
            .await
            .refused(409, "file_digest_mismatch")
            .says(&["sha256:", "Nothing was stored"]);
        put(&acme, &path, b"").await.refused(400, "body_required");
        put(&acme, &path, &vec![0; FILE_BYTES + 1])
            .await
            .refused(413, "body_too_large");
        let items = format!("/v1/bookings/{booking}/evidence/items");
        let bare = acme.post(&items, &samples::item()).await.string("itemId");
        put(&acme, &format!("{items}/{bare}/file"), b"x")
            .await
            .refused(409, "item_without_file");
        let unknown = format!("{items}/itm_{}/file", "0".repeat(32));
        put(&acme, &unknown, b"x").await.refused(404, "not_found");
        let reader = acme.scoped(&["evidence:read"]).await;
        reader
            .send(reader.request("PUT", &path).body("the contract"))
            .await
            .refused(403, "insufficient_scope");

        // The connection ends in the middle of the body.
        let mut cut = Raw::connect(server.running().addr()).await;
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: 12\r\n\r\nthe con",
            acme.key
        );
        cut.send(head).await;
        cut.finish().await;
        acme.get(&path).await.refused(404, "not_found");
        put(&acme, &path, b"the contract").await.ok(200);
        assert_eq!(server.database().count("SELECT COUNT(*) FROM file"), 1);
    })
    .await;
}

#[tokio::test]
async fn files_beyond_the_quota_are_refused_and_items_are_not() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            quota: Quota {
                file_bytes: Some(1_000),
                ..Quota::GENEROUS
            },
            ..config
        })
        .await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let first = add(&acme, &booking, &[1; 600]).await;
        put(&acme, &first, &[1; 600]).await.ok(200);
        let second = add(&acme, &booking, &[2; 401]).await;
        put(&acme, &second, &[2; 401])
            .await
            .refused(409, "quota_exceeded")
            .says(&["bytes of files", "1000", "401 more"]);
        // What is there already is not counted again.
        let again = add(&acme, &booking, &[1; 600]).await;
        put(&acme, &again, &[1; 600]).await.ok(200);
        let last = add(&acme, &booking, &[3; 400]).await;
        put(&acme, &last, &[3; 400]).await.ok(200);
        let account = acme.get("/v1/partners/me").await.ok(200);
        assert_eq!(
            account["quota"]["fileBytes"],
            json!({"used": 1_000, "limit": 1_000})
        );
    })
    .await;
}

#[tokio::test]
async fn a_file_that_was_never_completed_is_continued_or_forgotten_and_damage_is_found() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let file = large(3 * FILE_PART_BYTES);
        let path = add(&acme, &booking, &file).await;
        put(&acme, &path, &file).await.ok(200);
        let database = server.database();
        // As after a kill between two parts.
        database.tamper(
            "DELETE FROM file_part WHERE number > 0; UPDATE file SET parts = 1, whole = 0; UPDATE partner SET file_bytes = 0",
        );
        acme.get(&path).await.refused(404, "not_found");
        database.verify(1).await;
        put(&acme, &path, &file).await.ok(200);
        assert_eq!(acme.get(&path).await.body, file);
        database.verify(1).await;

        database.tamper("UPDATE file_part SET bytes = (SELECT bytes FROM file_part WHERE number = 0) WHERE number = 1");
        let report = database.command(["ledger", "verify"]).run().await;
        assert_ne!(report.code, Some(0), "{report:?}");
        assert!(report.stdout.contains("somebody changed them"), "{report:?}");
    })
    .await;
}

#[tokio::test]
async fn a_file_that_was_never_completed_takes_up_the_quota() {
    on_every_engine(async |engine| {
        let file = large(3 * FILE_PART_BYTES);
        let server = TestServer::with(engine, |config| Config {
            quota: Quota { file_bytes: Some(file.len() as u64), ..Quota::GENEROUS },
            ..config
        })
        .await;
        let acme = server.partner("Acme").await;
        let booking = acme.book().await;
        let path = add(&acme, &booking, &file).await;
        put(&acme, &path, &file).await.ok(200);
        // As after a kill between two parts.
        server.database().tamper(
            "DELETE FROM file_part WHERE number > 0; UPDATE file SET parts = 1, whole = 0; UPDATE partner SET file_bytes = 0",
        );
        let other = add(&acme, &booking, b"other").await;
        let refused = put(&acme, &other, b"other").await;
        refused.refused(409, "quota_exceeded").says(&["not whole yet", &file.len().to_string()]);
        put(&acme, &path, &file).await.ok(200);
        let refused = put(&acme, &other, b"other").await;
        refused.refused(409, "quota_exceeded").says(&["has used"]);
        acme.delete(&path).await.ok(200);
        put(&acme, &other, b"other").await.ok(200);
        server.database().verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn an_archive_holds_everything_and_is_the_same_each_time() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let file = large(FILE_PART_BYTES + 5);
        let path = add(&acme, &booking, &file).await;
        put(&acme, &path, &file).await.ok(200);
        add(&acme, &booking, b"kept elsewhere").await;
        let evidence = format!("/v1/bookings/{booking}/evidence");
        let packet = acme.get(&evidence).await;
        let ask = || acme.request("GET", &evidence).header("accept", "application/zip");
        let got = acme.send(ask()).await;
        assert_eq!(got.status, 200, "{}", got.text());
        let name = format!("attachment; filename=\"{booking}.zip\"");
        assert_eq!(got.header("content-disposition"), Some(&*name));
        assert_eq!(got.header("etag"), None);
        assert_eq!(acme.send(ask()).await.body, got.body);

        let folder = tempfile::tempdir().unwrap();
        let zip = folder.path().join("all.zip");
        std::fs::write(&zip, &got.body).unwrap();
        let unpack = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall(sys.argv[2]); print('\\n'.join(z.namelist()))";
        let ran = std::process::Command::new("python3").args(["-c", unpack]).args([&zip, &folder.path().join("all")]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let item = path.split('/').nth_back(1).unwrap();
        let stored = format!("files/{item}.bin");
        let names = String::from_utf8(ran.stdout).unwrap();
        let expected = ["README.txt", "evidence.html", "evidence.pdf", &stored, "ledger.vkey", "packet.json"];
        assert_eq!(names.lines().collect::<Vec<_>>(), expected);
        let read = |name: &str| std::fs::read(folder.path().join("all").join(name)).unwrap();
        assert_eq!(read(&stored), file);
        assert_eq!(read("packet.json"), packet.body);
        let readme = String::from_utf8(read("README.txt")).unwrap();
        assert!(readme.contains(&format!("  {stored}")), "{readme}");
        let packet_file = folder.path().join("all/packet.json");
        let key = format!("@{}", folder.path().join("all/ledger.vkey").display());
        let all = folder.path().join("all");
        let verify = || bookguard(["evidence", "verify"]).arg(&packet_file).args(["--key", &key, "--files"]).arg(&all);
        let verified = verify().json().await;
        let of_files: Vec<_> = verified.list("checks").iter().filter(|check| check["name"] == "file").collect();
        assert_eq!(of_files.len(), 2, "{verified}");
        assert!(of_files[0].text("detail").contains("matches") && of_files[1].text("detail").contains("is missing"), "{verified}");
        // Whoever replaces a file replaces its line in README.txt; the command there asks the packet.
        let command: Vec<_> = readme.lines().filter(|line| line.contains("jq -r") || line.contains("sha256sum -c")).collect();
        let sums = || std::process::Command::new("sh").args(["-c", &command.join("\n")]).current_dir(&all).output().unwrap();
        let stated = |ran: &std::process::Output, what: &str| String::from_utf8_lossy(&ran.stdout).contains(&format!("{stored}: {what}"));
        let has_jq = std::process::Command::new("jq").arg("--version").output().is_ok();
        assert!(!has_jq || stated(&sums(), "OK"), "{:?}", sums());
        std::fs::write(all.join(&stored), "replaced").unwrap();
        assert!(!has_jq || stated(&sums(), "FAILED"), "{:?}", sums());
        verify().run().await.ended(6, &["not every file beside it is one that it names"]);

        // The command line makes the same archive of the server, and one of the database itself.
        let out = folder.path().join("fetched.zip");
        acme.command(["evidence", "archive", &booking, "--out", &out.display().to_string()]).json().await;
        assert_eq!(std::fs::read(&out).unwrap(), got.body);
        let database = server.close().await;
        let own = folder.path().join("own.zip");
        database.command(["evidence", "archive", &booking, "--partner", &acme.id, "--out", &own.display().to_string()]).json().await;
        // Its packet is another, made by this machine's clock.
        let own = std::fs::read(&own).unwrap();
        assert!(own.starts_with(b"PK") && own.windows(file.len()).any(|part| part == file));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_file_makes_room_and_leaves_its_record() {
    on_every_engine(async |engine| {
        let server = TestServer::with(engine, |config| Config {
            quota: Quota {
                file_bytes: Some(FILE_PART_BYTES as u64 + 9),
                ..Quota::GENEROUS
            },
            ..config
        })
        .await;
        let acme = server.partner("Acme").await;
        let (booking, other) = (acme.book().await, acme.book().await);
        let file = large(FILE_PART_BYTES + 9);
        let path = add(&acme, &booking, &file).await;
        let twin = add(&acme, &booking, &file).await;
        let elsewhere = add(&acme, &other, &file).await;
        let small = add(&acme, &booking, b"another").await;
        put(&acme, &path, &file).await.ok(200);
        put(&acme, &small, b"another")
            .await
            .refused(409, "quota_exceeded");
        let evidence = format!("/v1/bookings/{booking}/evidence");
        let archive = async || {
            let ask = acme
                .request("GET", &evidence)
                .header("accept", "application/zip");
            String::from_utf8_lossy(&acme.send(ask).await.body).into_owned()
        };
        let link = |path: &str| {
            let item = path.split('/').nth_back(1).unwrap();
            format!("<a href=\"files/{item}.bin\" download>")
        };
        let before = archive().await;
        assert!(before.contains(&link(&path)) && before.contains(&link(&twin)));
        let entries = server.database().count("SELECT COUNT(*) FROM entry");

        // Another partner, and a key that only reads, cannot delete it.
        let rival = server.partner("Rival").await;
        rival.delete(&path).await.refused(404, "not_found");
        let reader = acme.scoped(&["evidence:read"]).await;
        let refused = reader.delete(&path).await;
        refused.refused(403, "insufficient_scope");
        assert_eq!(acme.get(&path).await.body, file);

        let deleted = acme.delete(&path).await.ok(200);
        let same = twin.split('/').nth_back(1).unwrap();
        assert_eq!(deleted["sameFile"], json!([same]));
        assert_eq!(acme.delete(&path).await.ok(200), deleted);
        for gone in [&path, &twin, &elsewhere] {
            acme.get(gone).await.refused(404, "not_found");
        }
        assert_eq!(server.database().count("SELECT COUNT(*) FROM file_part"), 0);
        let account = acme.get("/v1/partners/me").await.ok(200);
        assert_eq!(account["quota"]["fileBytes"]["used"], 0);
        let listed = acme.get(&format!("{evidence}/items")).await.ok(200);
        assert_eq!(listed.list("items").len(), 3);
        assert_eq!(listed["items"][0]["sha256"], deleted["sha256"]);
        assert!(listed["items"][0].get("file").is_none(), "{listed}");
        let after = archive().await;
        assert!(!after.contains("<a href") && after.contains("not in this archive"));
        assert_eq!(
            server.database().count("SELECT COUNT(*) FROM entry"),
            entries
        );

        // The room is free, and the file can come back once there is some again.
        put(&acme, &small, b"another").await.ok(200);
        put(&acme, &path, &file)
            .await
            .refused(409, "quota_exceeded");
        acme.delete(&small).await.ok(200);
        put(&acme, &path, &file).await.ok(200);
        assert_eq!(acme.get(&elsewhere).await.body, file);
        assert!(archive().await.contains(&link(&twin)));

        // A hold on the other booking keeps the files that it names too. Where none is stored, there is nothing to keep.
        let unsent = add(&acme, &booking, b"unsent").await;
        add(&acme, &other, b"unsent").await;
        let holds = format!("/v1/bookings/{other}/holds");
        let done = acme.post(&holds, &json!({"reason": "Chargeback"})).await;
        done.ok(201);
        acme.delete(&path).await.refused(409, "legal_hold");
        acme.delete(&unsent).await.ok(200);

        let bare = acme
            .post(&format!("{evidence}/items"), &samples::item())
            .await
            .string("itemId");
        let refused = acme.delete(&format!("{evidence}/items/{bare}/file")).await;
        refused.refused(409, "item_without_file");
        let unknown = format!("{evidence}/items/itm_{}/file", "0".repeat(32));
        acme.delete(&unknown).await.refused(404, "not_found");
        let database = server.close().await;
        database.verify(2).await;
    })
    .await;
}

/// Verifiers refuse a packet that is too long, so what the limits allow a booking to hold must fit into one.
#[tokio::test]
async fn the_longest_texts_of_a_booking_leave_its_packet_room_for_deliveries() {
    // No character takes more bytes than four, escaped or not.
    let long = |chars: usize| "\u{1f989}".repeat(chars);
    let numbered = |n: usize, chars: usize| format!("{n:02}{}", long(chars - 2));
    let server = TestServer::open(Engine::Sqlite).await;
    let acme = server.partner(&long(NAME_CHARS)).await;
    let tier = |n: usize| {
        let outcome = json!({"refundBps": 10_000 - 500 * n});
        json!({"before": format!("P{}D", 200 - n), "outcome": outcome})
    };
    let tiers: Vec<Value> = (0..POLICY_TIERS).map(tier).collect();
    let pair = |n: usize| {
        let value = Value::from(long(METADATA_VALUE_CHARS));
        (numbered(n, METADATA_KEY_CHARS), value)
    };
    let metadata: Map<String, Value> = (0..METADATA_PAIRS).map(pair).collect();
    let party = json!({"id": "p".repeat(PARTY_ID_CHARS), "name": long(NAME_CHARS)});
    let booking = acme
        .book_with(json!({
            "talent": party, "organizer": party, "eventType": long(NAME_CHARS), "metadata": metadata,
            "eventDate": "2031-06-20T19:00", "timeZone": "America/New_York",
            "policy": {
                "policyId": "most", "name": long(POLICY_NAME_CHARS),
                "organizer": {"tiers": tiers, "late": {"refundBps": 0}}
            }
        }))
        .await;
    acme.protect(&booking).await;
    for day in 1..=RESCHEDULES {
        let moved = json!({
            "eventDate": format!("2031-07-{day:02}T19:00:00.123456789"),
            "timeZone": "America/Argentina/ComodRivadavia", "agreedBy": ["organizer", "talent", "partner"]
        });
        acme.reschedule(&booking, &moved).await.ok(200);
    }
    let path = format!("/v1/bookings/{booking}");
    let told = acme.get(&format!("{path}/disclosure")).await.ok(200);
    for n in 0..ACCEPTANCES {
        let mut accepted = samples::acceptance(told.text("disclosureHash"));
        accepted["method"] = numbered(n, METHOD_CHARS).into();
        accepted["userAgent"] = long(USER_AGENT_CHARS).into();
        let accepted = acme.post(&format!("{path}/acceptances"), &accepted).await;
        accepted.ok(201);
    }
    for n in 0..ITEMS {
        let item = json!({
            "kind": "refund", "title": long(NAME_CHARS), "at": "2026-09-21T14:00:00Z", "party": "organizer", "amount": 300.5,
            "reference": long(REFERENCE_CHARS), "note": long(TEXT_CHARS), "sha256": format!("sha256:{n:064x}")
        });
        let item = acme.post(&format!("{path}/evidence/items"), &item).await;
        item.ok(201);
    }
    let document = |n: usize| {
        json!({
            "kind": long(EVIDENCE_KIND_CHARS), "name": long(NAME_CHARS), "sha256": format!("sha256:{n:064x}"),
            "mediaType": format!("{}/{}", "a".repeat(127), "b".repeat(127))
        })
    };
    let documents: Vec<Value> = (0..CANCELLATION_EVIDENCE).map(document).collect();
    let canceled = json!({
        "canceledBy": "talent", "reason": "force_majeure", "note": long(TEXT_CHARS), "evidence": documents
    });
    acme.cancel(&booking, &canceled).await;
    acme.verified_packet(&booking).await;
    let bytes = acme.packet(&booking).await.body.len();
    assert!(bytes > 3_000_000, "{bytes}");
    // The ends of deliveries come besides, each an entry.
    let ends = 250 * 3_500;
    assert!(bytes + ends < PACKET_BYTES, "{bytes}");
}
