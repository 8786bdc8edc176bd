//! The administrator's lists across partners, and the part of them that a partner sees.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::program::Ran;
use bookguard_tests::receiver::Receiver;
use bookguard_tests::test_server::TestServer;
use serde_json::{Value, json};

/// Returns these members of each row.
fn rows<const N: usize>(ran: &Ran, names: [&str; N]) -> Vec<[Value; N]> {
    let page = ran.json();
    let rows = page.list("data").iter();
    rows.map(|row| names.map(|name| row[name].clone()))
        .collect()
}

#[tokio::test]
async fn partners_and_endpoints_of_all_are_listed_by_status() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        // Ids made in the same millisecond have no order.
        server.advance(1);
        let blue = server.partner("Blue").await;
        let list = |line: &str| server.database().command(line).run();
        let partners = list("partners list").await;
        let both = [[json!(blue.id)], [json!(acme.id)]];
        assert_eq!(rows(&partners, ["partnerId"]), both);
        let active = list("partners list --status active").await;
        assert_eq!(active.json(), partners.json());
        let pending = list("partners list --status pending").await;
        assert!(rows(&pending, ["partnerId"]).is_empty());
        assert_eq!(list("partners list --status gone").await.code, Some(5));

        let kept = acme.endpoint("https://example.com/a").await;
        server.advance(1);
        let disabled = blue.endpoint("https://example.com/b").await;
        let change = json!({"enabled": false});
        blue.change_endpoint(&disabled, change).await;
        let of_blue = [json!(blue.id), json!(disabled), json!("disabled")];
        let of_acme = [json!(acme.id), json!(kept), json!("active")];
        let names = ["partnerId", "endpointId", "status"];
        let all = list("webhook-endpoints list").await;
        assert_eq!(rows(&all, names), [of_blue.clone(), of_acme.clone()]);
        for (status, expected) in [
            ("disabled", vec![of_blue.clone()]),
            ("active", vec![of_acme.clone()]),
            ("failing", vec![]),
        ] {
            let some = list(&format!("webhook-endpoints list --status {status}")).await;
            assert_eq!(rows(&some, names), expected, "{status}");
        }
        let first = list("webhook-endpoints list --limit 1").await;
        assert_eq!(rows(&first, names), [of_blue]);
        let cursor = first.string("nextCursor");
        let second = list(&format!("webhook-endpoints list --cursor {cursor}")).await;
        assert_eq!(rows(&second, names), [of_acme]);
        blue.leave_open().await;
        for listed in ["webhook-endpoints", "bookings", "resolutions"] {
            let table = format!("{listed} list --output table");
            list(&table).await.said(&["PARTNER", &blue.id]);
            let own = list(&format!("{table} --partner {}", blue.id)).await;
            assert!(!own.stdout.contains("PARTNER"), "{own:?}");
        }

        // With `--partner`, the administrator sees that partner's own list.
        let own = list(&format!("webhook-endpoints list --partner {}", acme.id)).await;
        let shown = [Value::Null, json!(kept), json!("active")];
        assert_eq!(rows(&own, names), [shown]);
        for (partner, found) in [(&acme, 0), (&blue, 1)] {
            let rows = partner.rows("/v1/webhook-endpoints?status=disabled").await;
            assert_eq!(rows.len(), found);
            assert!(rows.iter().all(|row| row.get("partnerId").is_none()));
        }
    })
    .await;
}

#[tokio::test]
async fn events_of_all_partners_are_listed_by_status() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let (acme, blue) = (server.partner("Acme").await, server.partner("Blue").await);
        let receiver = Receiver::start().await;
        acme.endpoint(&receiver.url()).await;
        let booking = acme.book().await;
        acme.event_that_is(&booking, "delivered").await;
        server.advance(1_000);
        blue.book().await;
        let list = |flags: &str| {
            let line = server.database().command("webhook-events list");
            line.args(flags).run()
        };
        let names = ["partnerId", "seq", "status"];
        let of_blue = [json!(blue.id), json!(1), json!("no_endpoints")];
        let of_acme = [json!(acme.id), json!(1), json!("delivered")];
        let all = list("").await;
        assert_eq!(rows(&all, names), [of_blue.clone(), of_acme.clone()]);
        assert_eq!(all.json()["hasMore"], false);
        for (filter, expected) in [
            ("--status delivered", vec![of_acme.clone()]),
            ("--status failed", vec![]),
            ("--type booking.created", rows(&all, names)),
        ] {
            assert_eq!(rows(&list(filter).await, names), expected, "{filter:?}");
        }
        let first = list("--limit 1").await;
        assert_eq!(rows(&first, names), [of_blue]);
        let cursor = first.string("nextCursor");
        let second = list(&format!("--limit 1 --cursor {cursor}")).await;
        assert_eq!(rows(&second, names), [of_acme]);
        // With `--partner` it is that partner's own log, by number.
        let own = list(&format!("--partner {}", acme.id)).await;
        assert_eq!(own.json()["nextAfter"], 1);
        assert_eq!(own.json()["data"][0].get("partnerId"), None);
    })
    .await;
}
