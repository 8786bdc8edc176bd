//! Everything of a partner as one archive: nothing of it is left out.

use std::path::Path;

use bookguard_core::limits::DAY_MS;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

/// More than a page of them.
const VERSIONS: u32 = 27;

/// The files of an archive, in its order.
fn files(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(archive).unwrap();
    let text = |field: &[u8]| {
        let text = String::from_utf8(field.to_vec()).unwrap();
        text.trim_end_matches('\0').to_owned()
    };
    let (mut files, mut rest) = (Vec::new(), &bytes[..]);
    while rest[0] != 0 {
        let (head, after) = rest.split_at(512);
        let size = usize::from_str_radix(&text(&head[124..136]), 8).unwrap();
        files.push((text(&head[..100]), after[..size].to_vec()));
        rest = &after[size.next_multiple_of(512)..];
    }
    files
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[tokio::test]
async fn every_version_of_a_policy_and_the_whole_log_of_events_are_exported() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        for version in 1..=VERSIONS {
            let policy = samples::policy(version * 100);
            assert_eq!(acme.put_policy("late", &policy).await, u64::from(version));
        }
        let longest = "p".repeat(64);
        acme.put_policy(&longest, &samples::policy(100)).await;
        let failing = Receiver::answering(Answer::Status(500)).await;
        let listing = Receiver::start().await;
        let failing_id = acme.endpoint(&failing.url()).await;
        acme.new_endpoint(json!({"url": listing.url(), "events": ["endpoint.suspended"]}))
            .await;
        let failed = async |times: u64| {
            until("a failed delivery", async || {
                let shown = acme.endpoint_shown(&failing_id).await;
                (shown.number("failures") >= times).then_some(())
            })
            .await;
        };
        for n in 1..=10 {
            acme.book().await;
            failed(n).await;
        }
        server.advance(5 * DAY_MS);
        listing.wait_for(1).await;
        for _ in 0..20 {
            acme.book().await;
        }

        let here = server
            .database()
            .command(["partners", "export", "--partner", &acme.id]);
        for (line, name) in [
            (acme.command("partners export"), "there.tar"),
            (here, "here.tar"),
        ] {
            let archive = server.folder().join(name);
            line.arg("--out").arg(&archive).run().await.ended(0, &[]);
            let files = files(&archive);
            let of = |folder: &str| -> Vec<(String, Value)> {
                let named = |(name, bytes): &(String, Vec<u8>)| {
                    let name = name.strip_prefix(folder)?.strip_suffix(".json")?;
                    Some((name.to_owned(), json_of(bytes)))
                };
                files.iter().filter_map(named).collect()
            };
            let versions = of("policies/late/");
            let numbers: Vec<&str> = versions.iter().map(|(name, _)| name.as_str()).collect();
            let all: Vec<String> = (1..=VERSIONS).rev().map(|n| n.to_string()).collect();
            assert_eq!(numbers, all);
            for (number, policy) in &versions {
                let path = format!("/v1/policies/late?version={number}");
                assert_eq!(*policy, acme.get(&path).await.ok(200), "{number}");
            }
            assert_eq!(of(&format!("policies/{longest}/")).len(), 1);

            let pages = of("events/");
            let first: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(first, ["1", "26"]);
            let events: Vec<&Value> = pages
                .iter()
                .flat_map(|(_, page)| page.as_array().unwrap())
                .collect();
            let seqs: Vec<u64> = events.iter().map(|event| event.number("seq")).collect();
            assert_eq!(seqs, (1..=31).collect::<Vec<_>>());
            let of_none: Vec<&&Value> = events
                .iter()
                .filter(|event| event.get("bookingId").is_none_or(Value::is_null))
                .collect();
            assert_eq!(of_none.len(), 1);
            assert_eq!(of_none[0]["type"], "endpoint.suspended");
        }
    })
    .await;
}
