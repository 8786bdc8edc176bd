//! A partner's events as a log: read to the end, waited on, filtered, and never another partner's.

use std::time::{Duration, Instant};

use bookguard_core::limits::EVENT_WAIT_S;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::Answer;
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

const LOG: &str = "/v1/webhook-events";

/// Returns the numbers of the events in the answer, `hasMore`, and `nextAfter`.
async fn read(caller: &Caller, query: &str) -> (Vec<u64>, bool, u64) {
    let answer = caller.get(&format!("{LOG}?{query}")).await.ok(200);
    (
        numbers(&answer),
        answer["hasMore"].as_bool().unwrap(),
        answer.number("nextAfter"),
    )
}

fn numbers(answer: &Value) -> Vec<u64> {
    let data = answer.list("data");
    data.iter().map(|e| e.number("seq")).collect()
}

#[tokio::test]
async fn every_event_is_in_the_log_once_in_its_order_with_or_without_endpoints() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        assert_eq!(read(&acme.caller, "").await, (vec![], false, 0));
        let (first, second) = (acme.book().await, acme.book().await);
        acme.protect(&first).await;
        let foreign = other.book().await;
        // From here on there is an endpoint, and it fails.
        let (receiver, _) = acme.receiving(Answer::Status(500)).await;
        acme.protect(&second).await;
        let third = acme.book().await;
        acme.event_that_is(&third, "failed").await;
        receiver.answer(Answer::Status(200));

        let caller = &acme.caller;
        assert_eq!(read(caller, "").await, (vec![1, 2, 3, 4, 5], false, 5));
        assert_eq!(read(caller, "limit=2").await, (vec![1, 2], true, 2));
        assert_eq!(read(caller, "limit=2&after=2").await, (vec![3, 4], true, 4));
        assert_eq!(read(caller, "limit=2&after=4").await, (vec![5], false, 5));
        assert_eq!(read(caller, "after=5").await, (vec![], false, 5));
        assert_eq!(read(caller, "after=latest").await, (vec![], false, 5));
        // The next event is number 6, which whoever reads after it would miss.
        for query in [
            "after=6",
            "after=6&wait=30&type=booking.created",
            "after=9223372036854775807",
        ] {
            let refused = caller.get(&format!("{LOG}?{query}")).await;
            refused.faulty(&[("?after", "out_of_range")]);
            refused.says(&["beyond the last event, 5"]);
        }
        let protections = read(caller, "type=booking.protected").await;
        assert_eq!(protections, (vec![3, 4], false, 5));
        let unheard = read(caller, "status=no_endpoints&limit=2").await;
        assert_eq!(unheard, (vec![1, 2], true, 2));
        let unheard = read(caller, "status=no_endpoints&limit=2&after=2").await;
        assert_eq!(unheard, (vec![3], false, 5));
        let both = read(caller, "status=failed&type=booking.created").await;
        assert_eq!(both, (vec![5], false, 5));
        let of_first = read(caller, &format!("bookingId={first}")).await;
        assert_eq!(of_first, (vec![1, 3], false, 3));
        let of_first = format!("bookingId={first}&after=1&status=pending");
        assert_eq!(read(caller, &of_first).await, (vec![], false, 3));
        assert_eq!(read(&other.caller, "").await, (vec![1], false, 1));

        // The log and the booking show the same event.
        let listed = caller.get(&format!("{LOG}?after=2&limit=1")).await.ok(200);
        assert_eq!(listed["data"][0], acme.events(&first).await[1]);
        // Another partner's booking is answered like an unknown one.
        let ask = async |id: &str| caller.get(&format!("{LOG}?bookingId={id}")).await;
        let unknown = ask("bkg_00000000000000000000000000000000").await;
        assert_eq!(
            (unknown.status, ask("x").await.text()),
            (400, unknown.text())
        );
        assert_eq!(ask(&foreign).await.text(), unknown.text());
        assert_eq!(
            unknown.details(),
            [("?bookingId".to_owned(), "booking_unknown".to_owned())]
        );
    })
    .await;
}

#[tokio::test]
async fn a_log_longer_than_a_page_is_examined_to_its_end() {
    with_partner_on_every_engine(async |_server, acme| {
        let first = acme.book().await;
        acme.book_many(160, &json!({})).await;
        acme.protect(&first).await;
        let found = read(&acme.caller, "type=booking.protected").await;
        assert_eq!(found, (vec![162], false, 162));
        let mut after = 0;
        let mut seen = Vec::new();
        loop {
            let (page, more, next) = read(&acme.caller, &format!("limit=70&after={after}")).await;
            seen.extend(page);
            after = next;
            if !more {
                break;
            }
        }
        assert_eq!(seen, (1..=162).collect::<Vec<u64>>());
    })
    .await;
}

/// The numbers of the events in the answer, `hasMore`, `nextAfter` and `nextBefore`.
async fn read_back(caller: &Caller, query: &str) -> (Vec<u64>, bool, u64, u64) {
    let answer = caller.get(&format!("{LOG}?{query}")).await.ok(200);
    (
        numbers(&answer),
        answer["hasMore"].as_bool().unwrap(),
        answer.number("nextAfter"),
        answer.number("nextBefore"),
    )
}

#[tokio::test]
async fn the_log_is_read_newest_first_and_goes_on_from_either_end() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        let caller = &acme.caller;
        let back = async |query: &str| read_back(caller, query).await;
        assert_eq!(back("before=latest").await, (vec![], false, 0, 1));
        assert_eq!(back("before=1").await, (vec![], false, 0, 1));
        assert_eq!(back("before=0").await, (vec![], false, 0, 0));
        let (first, second) = (acme.book().await, acme.book().await);
        acme.protect(&first).await;
        acme.protect(&second).await;
        let foreign = other.book().await;
        let (_receiver, _) = acme.receiving(Answer::Status(500)).await;
        let third = acme.book().await;
        acme.event_that_is(&third, "failed").await;

        let all = (vec![5, 4, 3, 2, 1], false, 5, 1);
        for place in ["latest", "6", "7", "9223372036854775807"] {
            assert_eq!(back(&format!("before={place}")).await, all, "{place}");
        }
        let page = back("before=latest&limit=2").await;
        assert_eq!(page, (vec![5, 4], true, 5, 4));
        assert_eq!(back("before=4&limit=3").await, (vec![3, 2, 1], false, 3, 1));
        let failed = back("before=latest&status=failed").await;
        assert_eq!(failed, (vec![5], false, 5, 1));
        let protections = back("before=latest&type=booking.protected&limit=1").await;
        assert_eq!(protections, (vec![4], true, 5, 4));
        let both = back("before=4&type=booking.protected&status=no_endpoints").await;
        assert_eq!(both, (vec![3], false, 3, 1));
        let of_first = back(&format!("before=latest&bookingId={first}")).await;
        assert_eq!(of_first, (vec![3, 1], false, 5, 1));
        let of_first = back(&format!("before=3&bookingId={first}&limit=1")).await;
        assert_eq!(of_first, (vec![1], false, 2, 1));
        // What is new since the page with the newest events.
        acme.book().await;
        assert_eq!(read(caller, "after=5").await, (vec![6], false, 6));
        let own = read_back(&other.caller, "before=latest").await;
        assert_eq!(own, (vec![1], false, 1, 1));
        // Forward, the answer is as it was.
        let forward = caller.get(&format!("{LOG}?after=0")).await.ok(200);
        assert_eq!(forward.get("nextBefore"), None);

        let ask = async |query: &str| caller.get(&format!("{LOG}?{query}")).await;
        let conflict = ("?before", "parameters_conflict");
        let range = ("?before", "out_of_range");
        for (query, faults) in [
            ("before=latest&after=0", &[conflict][..]),
            ("before=3&after=latest", &[conflict]),
            ("before=3&wait=0", &[conflict]),
            ("before=3&wait=30&after=1", &[conflict, conflict]),
            ("before=first", &[range]),
            ("before=", &[range]),
            ("before=-1", &[range]),
            ("before=9223372036854775808", &[range]),
            ("after=9223372036854775808", &[("?after", "out_of_range")]),
            (
                "before=x&wait=31",
                &[conflict, range, ("?wait", "out_of_range")],
            ),
        ] {
            ask(query).await.faulty(faults);
        }
        let unknown = ask("before=latest&bookingId=bkg_00000000000000000000000000000000").await;
        let foreign = ask(&format!("before=latest&bookingId={foreign}")).await;
        assert_eq!((foreign.status, foreign.text()), (400, unknown.text()));
    })
    .await;
}

#[tokio::test]
async fn newest_first_finds_every_event_once_while_events_are_added() {
    with_partner_on_every_engine(async |_server, acme| {
        acme.book_many(140, &json!({})).await;
        for filter in ["", "&status=no_endpoints", "&type=booking.created"] {
            let (mut seen, mut before) = (Vec::new(), "latest".to_owned());
            loop {
                let query = format!("before={before}&limit=30{filter}");
                let (page, more, _, next) = read_back(&acme.caller, &query).await;
                seen.extend(page);
                acme.book().await;
                if !more {
                    break;
                }
                before = next.to_string();
            }
            let newest = seen[0];
            assert!(newest >= 140);
            assert_eq!(seen, (1..=newest).rev().collect::<Vec<u64>>(), "{filter}");
        }
    })
    .await;
}

/// Sends a request in the background that waits for the longest permitted time.
fn waits(caller: &Caller, after: u64) -> tokio::task::JoinHandle<Result<Reply, String>> {
    let caller = caller.clone();
    tokio::spawn(async move {
        let path = format!("{LOG}?after={after}&wait={EVENT_WAIT_S}");
        let asked = caller.try_send(caller.request("GET", &path)).await;
        asked.map_err(|e| e.to_string())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_reader_gets_the_next_event_from_any_node() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let second = match engine {
            Engine::Postgres => Some(server.second_node().await),
            Engine::Sqlite => None,
        };
        let (acme, other) = (server.partner("Acme").await, server.partner("Other").await);
        for round in 0..20 {
            let at = match &second {
                Some(second) if round % 2 == 1 => acme.at(&second.url()),
                _ => acme.caller.clone(),
            };
            let waiting = waits(&at, round);
            other.book().await;
            acme.book().await;
            let answer = waiting.await.unwrap().unwrap().ok(200);
            assert_eq!(numbers(&answer), [round + 1]);
        }
        // A filtered request keeps waiting while events arrive that do not match.
        let (caller, booking) = (acme.caller.clone(), acme.book().await);
        let before = format!("{LOG}?after=0&type=booking.protected&wait=30");
        let asked = tokio::spawn(async move { caller.get(&before).await });
        acme.book().await;
        acme.protect(&booking).await;
        assert_eq!(numbers(&asked.await.unwrap().ok(200)), [23]);
        if let Some(second) = second {
            second.stop().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_with_patience_with_the_key_and_with_the_server() {
    with_partner_on_every_engine(async |server, acme| {
        let answer = acme.get(&format!("{LOG}?wait=1")).await.ok(200);
        assert_eq!(
            answer,
            json!({"data": [], "hasMore": false, "nextAfter": 0})
        );

        let made = acme.post("/v1/api-keys", &json!({})).await;
        let (id, key) = (made.string("apiKeyId"), made.string("apiKey"));
        let waiting = waits(&acme.with_key(&key), 0);
        let revoked = acme.delete(&format!("/v1/api-keys/{id}")).await;
        assert_eq!(revoked.status, 200, "{}", revoked.text());
        acme.book().await;
        assert_eq!(waiting.await.unwrap().unwrap().status, 401);

        let waiting: Vec<_> = (0..4).map(|_| waits(&acme.caller, 1)).collect();
        let began = Instant::now();
        server.close().await;
        // Otherwise waiting requests would hold up the shutdown until their wait ends.
        assert!(began.elapsed() < Duration::from_secs(8));
        for waiting in waiting {
            if let Ok(reply) = waiting.await.unwrap() {
                assert_eq!(numbers(&reply.ok(200)), [0; 0]);
            }
        }
    })
    .await;
}
