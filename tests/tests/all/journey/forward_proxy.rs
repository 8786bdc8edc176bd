//! Webhooks through the operator's proxy: the addresses it is asked to connect to, and who is blamed for a failure.

use std::time::Duration;

use bookguard_core::webhook::{Attempt, FailureClass};
use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;
use bookguard_server::courier::proxy::Proxy;
use bookguard_server::courier::sender::{DeliveryHeaders, Sender};
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::forward_proxy::{ForwardProxy, Way};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::json;
use tokio::net::TcpListener;

/// A sender, and how long its attempts may take.
type Timed = (Sender, Duration);

/// Returns a sender that goes through this proxy and gives up after `patience_ms`.
fn through(proxy: &str, rules: AddressRules, patience_ms: u64) -> Timed {
    let (proxy, patience) = (
        Proxy::parse(proxy).unwrap(),
        Duration::from_millis(patience_ms),
    );
    (Sender::new(rules, Some(proxy), patience).unwrap(), patience)
}

async fn attempt((sender, patience): &Timed, url: &str) -> Attempt {
    let value = HeaderValue::from_static("x");
    let headers = DeliveryHeaders {
        service_signature: value.clone(),
        webhook_id: value.clone(),
        webhook_timestamp: value.clone(),
        webhook_signature: value,
    };
    let url: Url = url.parse().unwrap();
    sender
        .send(*patience, &url, headers, Bytes::from_static(b"{}"), 0)
        .await
}

#[tokio::test]
async fn webhooks_go_through_the_proxy_to_the_address_that_was_checked() {
    on_every_engine(async |engine| {
        let proxy = ForwardProxy::start().await;
        let address = proxy.url("us%40er:p%3Ass@");
        let server = TestServer::with(engine, |config| Config {
            webhook_proxy: Some(Proxy::parse(&address).unwrap()),
            ..config
        })
        .await;
        let acme = server.partner("Acme").await;
        let receiver = Receiver::start().await;
        let port = receiver.url().parse::<Url>().unwrap().port().unwrap();
        acme.endpoint(&format!("http://localhost:{port}/hook"))
            .await;
        for _ in 0..2 {
            let booking = acme.book().await;
            acme.event_that_is(&booking, "delivered").await;
        }
        // The proxy is asked for IP addresses, never for names. If a name has two, the last request is for the one that works.
        let asked = proxy.asked();
        let (line, authorization) = asked.last().unwrap();
        assert_eq!(*line, format!("CONNECT 127.0.0.1:{port} HTTP/1.1"));
        assert_eq!(authorization.as_deref(), Some("Basic dXNAZXI6cDpzcw=="));
        assert!(
            asked.iter().all(|(line, _)| !line.contains("localhost")),
            "{asked:?}"
        );
        let tunnels = asked.iter().filter(|(asked, _)| asked == line).count();
        assert_eq!(tunnels, 1, "one tunnel carries both");
        let received = receiver.received();
        assert_eq!(received.len(), 2);
        assert_eq!(received[0].header("host"), format!("localhost:{port}"));
        assert_eq!(received[0].header("proxy-authorization"), "");

        // A failure of the proxy is our own fault and uses up no attempt of the schedule.
        proxy.way(Way::Says(
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        ));
        let (_other, path) = acme.receiving(Answer::Status(200)).await;
        let path = format!("/v1/webhook-endpoints/{path}/test");
        let told = acme.post_nothing(&path).await.ok(200);
        told.holds(json!({"error": "our_fault", "delivered": false}));
        let detail = told.text("detail");
        assert_eq!(
            detail,
            "the proxy of this service refused the credentials (407)"
        );
        proxy.way(Way::Open);
        let told = acme.post_nothing(&path).await.ok(200);
        assert_eq!(told["delivered"], true, "{told}");
        server.close().await;
    })
    .await;
}

#[tokio::test]
async fn whatever_the_proxy_does_wrong_is_our_fault() {
    let receiver = Receiver::start().await;
    let proxy = ForwardProxy::start().await;
    let (patient, impatient) = (
        through(&proxy.url("user:hunter2@"), AddressRules::dev(), 10_000),
        through(&proxy.url("user:hunter2@"), AddressRules::dev(), 200),
    );
    let says = |answer| (Way::Says(answer), &patient);
    let no = "did not open a connection";
    for ((way, sender), what) in [
        (
            says("HTTP/1.1 407 No\r\n\r\n"),
            "refused the credentials (407)",
        ),
        (says("HTTP/1.1 403 No\r\n\r\n"), &format!("{no} (403)")),
        (says("HTTP/1.1 502 No\r\n\r\nbody"), &format!("{no} (502)")),
        (says("HTTP/1.1 503 No\r\n\r\n"), &format!("{no} (503)")),
        (says("HTTP/1.1 504 No\r\n\r\n"), &format!("{no} (504)")),
        (
            says("HTTP/1.1 302 No\r\nlocation: http://x\r\n\r\n"),
            &format!("{no} (302)"),
        ),
        (
            says("220 smtp.example ESMTP\r\n\r\n"),
            "answered something other than HTTP",
        ),
        (
            says("HTTP/1.1 200 OK\r\n\r\nand more"),
            "sent more than its answer",
        ),
        (says("HTTP/1.1 200 OK\r\nhalf"), "closed the connection"),
        ((Way::Endless, &patient), "sent an answer that does not end"),
        ((Way::Closes, &patient), "closed the connection"),
        ((Way::Resets, &patient), "broke off"),
        (
            (Way::Silent, &impatient),
            "timed out after 200 ms, while the proxy of this service was opening",
        ),
    ] {
        proxy.way(way);
        let attempt = attempt(sender, &receiver.url()).await;
        assert_eq!(
            attempt.class,
            Some(FailureClass::OurFault),
            "{way:?}: {attempt:?}"
        );
        let detail = attempt.detail.unwrap();
        assert!(detail.contains(what), "{way:?}: {detail}");
        assert!(
            !detail.contains("hunter2") && !detail.contains("127.0.0.1"),
            "{detail}"
        );
    }
    proxy.way(Way::Open);
    assert!(attempt(&patient, &receiver.url()).await.delivered());
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    // A label longer than 63 characters: every resolver refuses it without a query.
    let nowhere = format!("http://{}.invalid:3128", "a".repeat(64));
    for gone in [address, nowhere] {
        let lost = attempt(
            &through(&gone, AddressRules::dev(), 10_000),
            &receiver.url(),
        )
        .await;
        assert_eq!(lost.class, Some(FailureClass::OurFault), "{lost:?}");
        assert!(lost.detail.unwrap().contains("cannot be reached"));
    }
    assert_eq!(receiver.received().len(), 1, "and nothing goes another way");
}

#[tokio::test]
async fn what_a_receiver_does_wrong_behind_the_proxy_is_its_own_fault() {
    let receiver = Receiver::start().await;
    let proxy = ForwardProxy::start().await;
    let sender = through(&proxy.url(""), AddressRules::dev(), 10_000);
    receiver.answer(Answer::Status(500));
    let refused = attempt(&sender, &receiver.url()).await;
    assert_eq!(refused.class, Some(FailureClass::Http5xx));
    receiver.answer(Answer::Close);
    let broken = attempt(&sender, &receiver.url()).await;
    assert_eq!(
        broken.class,
        Some(FailureClass::ConnectionReset),
        "{broken:?}"
    );
    receiver.answer(Answer::Silence);
    let impatient = through(&proxy.url(""), AddressRules::dev(), 500);
    let silent = attempt(&impatient, &receiver.url()).await;
    assert_eq!(silent.class, Some(FailureClass::Timeout), "{silent:?}");
    // The receiver speaks no TLS, but the handshake still asks for it by its name.
    let port = receiver.url().parse::<Url>().unwrap().port().unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let secure = format!("https://localhost:{}/", plain.local_addr().unwrap().port());
    let hello = tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        let mut hello = vec![0; 4096];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut hello)
            .await
            .unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        hello.truncate(read);
        hello
    });
    let unclear = attempt(&sender, &secure).await;
    assert_eq!(unclear.class, Some(FailureClass::TlsError), "{unclear:?}");
    let hello = hello.await.unwrap();
    assert!(
        hello.windows(9).any(|name| name == b"localhost"),
        "the name TLS asks for"
    );

    // For an address that webhooks may not go to, the proxy is not asked at all.
    let before = proxy.asked().len();
    let http = AddressRules {
        allow_http: true,
        ..AddressRules::public()
    };
    let strict = through(&proxy.url(""), http, 10_000);
    for host in [
        "127.0.0.1",
        "localhost",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ] {
        let blocked = attempt(&strict, &format!("http://{host}:{port}/")).await;
        assert_eq!(
            blocked.class,
            Some(FailureClass::BlockedAddress),
            "{host}: {blocked:?}"
        );
    }
    let unknown = attempt(&strict, &format!("http://{}.invalid/", "a".repeat(64))).await;
    assert_eq!(unknown.class, Some(FailureClass::DnsError), "{unknown:?}");
    assert_eq!(proxy.asked().len(), before);
}

#[tokio::test]
async fn a_connection_that_opens_for_nobody_is_given_up() {
    let (receiver, proxy) = (Receiver::start().await, ForwardProxy::start().await);
    receiver.answer(Answer::Late(Duration::from_millis(300), 200));
    let sender = through(&proxy.url(""), AddressRules::dev(), 2_000);
    let url = receiver.url();
    // The second opens a connection of its own, and then takes that of the first.
    let second = async {
        until("the first has its connection", async || {
            (!proxy.asked().is_empty()).then_some(())
        })
        .await;
        proxy.way(Way::Silent);
        attempt(&sender, &url).await
    };
    let (first, second) = tokio::join!(attempt(&sender, &url), second);
    assert!(first.delivered() && second.delivered(), "{second:?}");
    assert_eq!((proxy.asked().len(), proxy.waiting()), (2, 1));
    until("its own is given up", async || {
        (proxy.waiting() == 0).then_some(())
    })
    .await;
}
