//! Bodies that are not JSON objects are refused, and each operation with a body reads it by its declaration.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::test_server::TestServer;

use crate::wire::world::{World, documented};

/// Decodes a line in which `\x00`, `\n` and `\\` stand for bytes that cannot be seen.
fn unescaped(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line.as_bytes();
    while let [first, more @ ..] = rest {
        (rest, _) = match (first, more) {
            (b'\\', [b'x', digits @ ..]) => {
                let hex = std::str::from_utf8(&digits[..2]).unwrap();
                (
                    &digits[2..],
                    bytes.push(u8::from_str_radix(hex, 16).unwrap()),
                )
            }
            (b'\\', [b'n', more @ ..]) => (more, bytes.push(b'\n')),
            (b'\\', [b'\\', more @ ..]) => (more, bytes.push(b'\\')),
            (byte, more) => (more, bytes.push(*byte)),
        };
    }
    bytes
}

#[tokio::test]
async fn what_is_not_json_is_refused_however_it_is_broken() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let lines = include_str!("grammar.txt").lines().skip(1);
        let deep = [
            "{\"talent\":".to_owned() + &"[".repeat(60_000),
            "{\"a\":".repeat(12_000),
        ];
        for body in lines.map(unescaped).chain(deep.map(String::into_bytes)) {
            let reply = acme.send_json("POST", "/v1/bookings", body).await;
            reply.refused(400, "invalid_json");
        }
        let broken = acme
            .post_text("/v1/bookings", "{\n  \"talent\": {,}\n}")
            .await;
        broken.says(&["line 2 column 14"]);
        for body in ["[]", "[{}]", "null", "true", "1e400", "\"{}\""] {
            let reply = acme.post_text("/v1/bookings", body).await;
            reply.refused(400, "wrong_type");
        }
    })
    .await;
}

#[tokio::test]
async fn every_operation_with_a_body_reads_it_by_its_declaration() {
    on_every_engine(async |engine| {
        let world = World::new(engine).await;
        let mut read = 0;
        for operation in documented()
            .iter()
            .filter(|operation| operation.body.is_some())
        {
            // A check of a policy answers 200 for any JSON.
            if operation.id == "validatePolicy" {
                continue;
            }
            let path = world.path(operation, &world.acme).await;
            let send = |body: String| world.acme.send_json(&operation.method, &path, body);
            send("{".to_owned()).await.refused(400, "invalid_json");
            send("[]".to_owned()).await.refused(400, "wrong_type");
            // Valid JSON that is deeply nested is read without being built in memory.
            let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(30_000));
            let bomb = format!("{{\"metadata\":{open}1{close}}}");
            assert_eq!(send(bomb).await.status, 400, "{path}");
            let mut surplus = operation.body.clone().unwrap();
            surplus["surplus"] = 1.into();
            let reply = send(surplus.to_string()).await;
            let unknown = ("/surplus".to_owned(), "unknown_field".to_owned());
            let is_named = reply.details().contains(&unknown);
            assert!(is_named, "{path}: {}", reply.text());
            for blank in ["", " ", "\r\n\t "] {
                let reply = send(blank.to_owned()).await;
                if operation.body_required {
                    reply.refused(400, "body_required");
                } else {
                    assert!(reply.status < 300, "{path}: {}", reply.text());
                }
            }
            read += 1;
        }
        assert_eq!(read, 20);
    })
    .await;
}

#[tokio::test]
async fn an_operation_without_a_body_takes_none_or_an_empty_object() {
    on_every_engine(async |engine| {
        let (_server, acme) = TestServer::with_partner(engine).await;
        let booking = acme.book().await;
        let protect = format!("/v1/bookings/{booking}/protect");
        for body in ["[]", "{\"a\":1}", "null", "x", "{"] {
            let reply = acme.post_text(&protect, body).await;
            reply.refused(400, "unexpected_body");
        }
        assert_eq!(acme.booking(&booking).await["protected"], false);
        acme.post_text(&protect, "{}").await.ok(200);
    })
    .await;
}
