//! Receives webhooks with poem and checks only the short signature, the header `x-service-signature`.
//!
//! This signature proves that a body comes from Bookguard, but not when it was sent. So the handled events must be remembered
//! for good, as this program does while it runs; `webhook_axum.rs` checks the age as well.
//!
//! `WEBHOOK_SECRET=whsec_… cargo run -p bookguard-examples --example webhook_poem`, and then, with a server that runs with `--dev`,
//! `bookguard webhook-endpoints create http://127.0.0.1:3000/webhooks`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bookguard_core::webhook::{Secret, verify};
use poem::http::{HeaderMap, StatusCode};
use poem::listener::TcpListener;
use poem::web::Data;
use poem::{EndpointExt as _, Route, Server, handler, post};
use serde_json::Value;

/// The state of a receiver: its secret and the events it has handled. A real receiver keeps the events in its database.
struct Receiver {
    secret: Secret,
    handled: Mutex<HashSet<String>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let receiver = Arc::new(Receiver {
        secret: Secret::new(std::env::var("WEBHOOK_SECRET")?),
        handled: Mutex::default(),
    });
    let app = Route::new().at("/webhooks", post(receive)).data(receiver);
    Server::new(TcpListener::bind("127.0.0.1:3000"))
        .run(app)
        .await?;
    Ok(())
}

#[handler]
fn receive(receiver: Data<&Arc<Receiver>>, headers: &HeaderMap, body: Vec<u8>) -> StatusCode {
    take(&receiver, headers, &body)
}

/// Handles one webhook. `body` is the raw bytes: they are verified before they are parsed as JSON.
fn take(receiver: &Receiver, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let signature = headers.get("x-service-signature");
    let signature = signature.and_then(|value| value.to_str().ok());
    if let Err(why) = verify(&receiver.secret, signature.unwrap_or_default(), body) {
        eprintln!("refused: {why}");
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(event) = serde_json::from_slice::<Value>(body) else {
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

#[cfg(test)]
mod tests {
    use bookguard_core::webhook::sign_body;

    use super::*;

    #[test]
    fn only_what_bookguard_signed_is_taken() {
        let body = br#"{"eventId":"evt_1","type":"booking.created","bookingId":"bkg_1"}"#;
        let receiver = Receiver {
            secret: Secret::from_bytes([7; 32]),
            handled: Mutex::default(),
        };
        let mut headers = HeaderMap::new();
        assert_eq!(take(&receiver, &headers, body), StatusCode::UNAUTHORIZED);
        let signature = sign_body(&receiver.secret, body);
        headers.insert("x-service-signature", signature.parse().unwrap());
        assert_eq!(take(&receiver, &headers, body), StatusCode::NO_CONTENT);
        assert_eq!(take(&receiver, &headers, b"{}"), StatusCode::UNAUTHORIZED);
    }
}
