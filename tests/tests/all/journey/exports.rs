//! Everything of a partner as one archive: nothing of it is left out.

use std::path::Path;

use bookguard_core::limits::DAY_MS;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, with_partner_on_every_engine};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

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
    with_partner_on_every_engine(async |server, acme| {
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

        let mut put = Vec::new();
        for version in (1..=VERSIONS).rev() {
            let path = format!("/v1/policies/late?version={version}");
            put.push((version.to_string(), acme.get(&path).await.ok(200)));
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
            assert_eq!(of("policies/late/"), put);
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

/// Passes on what a client asks. The file at `path` is deleted at the moment it is asked for.
async fn relay(mut client: TcpStream, acme: &Partner, path: &str) {
    let addr = acme.caller.base().trim_start_matches("http://");
    let mut server = TcpStream::connect(addr).await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asked = async {
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let read = from_client.read(&mut bytes).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            if String::from_utf8_lossy(&bytes[..read]).contains(path) {
                acme.delete(path).await.ok(200);
            }
            to_server.write_all(&bytes[..read]).await.unwrap();
        }
    };
    tokio::select! {
        () = asked => {}
        _ = copy(&mut from_server, &mut to_client) => {}
    }
}

/// Relays every connection. A client may open another while one is still open, and then it waits for the other alone.
async fn relay_all(listener: &TcpListener, acme: &Partner, path: &str) {
    let (client, _) = listener.accept().await.unwrap();
    let others = Box::pin(relay_all(listener, acme, path));
    tokio::join!(relay(client, acme, path), others);
}

#[tokio::test]
async fn a_file_that_is_deleted_while_it_is_exported_does_not_end_the_export() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let items = format!("/v1/bookings/{booking}/evidence/items");
        let mut ids = Vec::new();
        for file in ["gone", "kept"] {
            let item = samples::item_with_file(file);
            let item = acme.post(&items, &item).await.ok(201);
            let path = format!("{items}/{}/file", item.text("itemId"));
            let done = acme.send(acme.request("PUT", &path).body(file)).await;
            done.ok(200);
            ids.push(item.text("itemId").to_owned());
        }
        let path = format!("{items}/{}/file", ids[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let archive = server.folder().join("acme.tar");
        let export = acme.on(&url).command("partners export --out");
        tokio::select! {
            ran = export.arg(&archive).run() => { ran.ended(0, &[]); }
            () = relay_all(&listener, &acme, &path) => {}
        }

        let files = files(&archive);
        let of_booking = |end: &str| {
            let name = format!("bookings/{booking}/{end}");
            let file = files.iter().find(|(known, _)| *known == name);
            file.map(|(_, bytes)| bytes.as_slice())
        };
        assert_eq!(of_booking(&format!("files/{}", ids[0])), None);
        let kept = of_booking(&format!("files/{}", ids[1]));
        assert_eq!(kept, Some(b"kept".as_slice()));
        let listed = json_of(of_booking("items.json").unwrap());
        assert_eq!(listed, acme.get(&items).await.ok(200));
        assert!(listed["items"][0].get("file").is_none(), "{listed}");
    })
    .await;
}
