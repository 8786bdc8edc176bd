//! Receives webhooks with axum and accepts only those that Bookguard signed within the last five minutes.
//!
//! `WEBHOOK_SECRET=whsec_… cargo run -p bookguard-examples --example webhook_axum`, and then, with a server that runs with `--dev`,
//! `bookguard webhook-endpoints create http://127.0.0.1:3000/webhooks`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use bookguard_core::webhook::{Secret, StandardHeaders, VerifyError, verify_standard};
use serde_json::Value;

/// The state of a receiver: its secret and the events it has handled. A real receiver keeps the events in its database.
struct Receiver {
    secret: Secret,
    handled: Mutex<HashSet<String>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let receiver = Receiver {
        secret: Secret::new(std::env::var("WEBHOOK_SECRET")?),
        handled: Mutex::default(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, router(receiver)).await?;
    Ok(())
}

fn router(receiver: Receiver) -> Router {
    Router::new()
        .route("/webhooks", post(receive))
        .with_state(Arc::new(receiver))
}

/// Receives one webhook. `body` is the raw bytes: they are verified before they are parsed as JSON.
async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if let Err(why) = check(&receiver.secret, &headers, &body) {
        eprintln!("refused: {why}");
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(event) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let id = event["eventId"].as_str().unwrap_or_default().to_owned();
    // The same event may come more than once.
    let mut handled = receiver
        .handled
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if handled.insert(id) {
        println!("{} of {}", event["type"], event["bookingId"]);
    }
    StatusCode::NO_CONTENT
}

fn check(secret: &Secret, headers: &HeaderMap, body: &[u8]) -> Result<(), VerifyError> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    };
    let signed = StandardHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |elapsed| elapsed.as_secs());
    verify_standard(
        secret,
        signed,
        body,
        i64::try_from(now).unwrap_or(i64::MAX),
        None,
    )
}

#[cfg(test)]
mod tests {
    use bookguard_core::webhook::sign_standard;

    use super::*;

    const BODY: &str = r#"{"eventId":"evt_1","type":"booking.created","bookingId":"bkg_1"}"#;

    async fn answer(sent_s_ago: u64, body: &str) -> StatusCode {
        let secret = Secret::from_bytes([7; 32]);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let at = i64::try_from(now - sent_s_ago).unwrap();
        let signature = sign_standard(&secret, "evt_1", at, BODY).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", "evt_1".parse().unwrap());
        headers.insert("webhook-timestamp", at.to_string().parse().unwrap());
        headers.insert("webhook-signature", signature.parse().unwrap());
        let receiver = Receiver {
            secret,
            handled: Mutex::default(),
        };
        receive(
            State(Arc::new(receiver)),
            headers,
            Bytes::from(body.to_owned()),
        )
        .await
    }

    #[tokio::test]
    async fn only_what_bookguard_signed_lately_is_taken() {
        assert_eq!(answer(0, BODY).await, StatusCode::NO_CONTENT);
        assert_eq!(answer(600, BODY).await, StatusCode::UNAUTHORIZED);
        assert_eq!(answer(0, "{}").await, StatusCode::UNAUTHORIZED);
    }
}
