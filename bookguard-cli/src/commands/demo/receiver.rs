//! A webhook receiver as a partner would write one: it takes the exact bytes, verifies both signatures with the library,
//! and only then accepts.

use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::webhook::{self, Secret, StandardHeaders};
use poem::http::StatusCode;
use poem::listener::{Acceptor as _, Listener as _, TcpAcceptor, TcpListener};
use poem::{Body, EndpointExt as _, Request, Route, Server, handler, post, web::Data};
use serde::Deserialize;
use tokio::sync::mpsc::{self, Receiver as Hooks, Sender};
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// The most bytes of a webhook's body that this receiver reads.
const BODY_BYTES: usize = 64 * 1024;

/// A received and verified webhook.
#[derive(Debug)]
pub struct Hook {
    /// The event's id.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// The booking it is about.
    pub booking_id: String,
    /// The signature of the body.
    pub service_signature: String,
    /// The signature of id, time and body.
    pub standard_signature: String,
}

/// A running receiver.
pub struct DemoReceiver {
    url: String,
    hooks: Hooks<Result<Hook, String>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Inbox {
    secret: Secret,
    hooks: Sender<Result<Hook, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    event_id: String,
    r#type: String,
    booking_id: String,
}

/// Listens on a free port of this machine. Returns the address to send webhooks to as well.
///
/// # Errors
/// [`Failure::Unexpected`] if it cannot listen.
pub async fn listen() -> Result<(TcpAcceptor, String), Failure> {
    let fail =
        |e: std::io::Error| Failure::Unexpected(format!("the webhook receiver cannot listen: {e}"));
    let acceptor = TcpListener::bind("127.0.0.1:0")
        .into_acceptor()
        .await
        .map_err(fail)?;
    let addresses = acceptor.local_addr();
    let address = addresses
        .first()
        .and_then(|address| address.as_socket_addr());
    let address = address.ok_or_else(|| fail(std::io::ErrorKind::AddrNotAvailable.into()))?;
    let url = format!("http://{address}/hook");
    Ok((acceptor, url))
}

impl DemoReceiver {
    /// Starts on a free port of this machine.
    ///
    /// # Errors
    /// [`Failure::Unexpected`] if it cannot listen.
    pub async fn start(secret: Secret) -> Result<Self, Failure> {
        let (acceptor, url) = listen().await?;
        let (sender, hooks) = mpsc::channel(16);
        let routes = Route::new().at("/hook", post(receive)).data(Inbox {
            secret,
            hooks: sender,
        });
        let serving = tokio::spawn(async move {
            // It ends only when it is stopped; an error shows as a webhook that never arrives.
            let _ = Server::new_with_acceptor(acceptor).run(routes).await;
        });
        Ok(Self {
            url,
            hooks,
            serving,
        })
    }

    /// The address to send webhooks to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The next webhook.
    ///
    /// # Errors
    /// [`Failure::NotVerified`] for a webhook whose signatures do not match, [`Failure::Unexpected`] if none arrives.
    pub async fn next(&mut self, patience: Duration) -> Result<Hook, Failure> {
        match tokio::time::timeout(patience, self.hooks.recv()).await {
            Ok(Some(Ok(hook))) => Ok(hook),
            Ok(Some(Err(why))) => Err(Failure::NotVerified(format!(
                "A webhook does not verify: {why}"
            ))),
            Ok(None) | Err(_) => Err(Failure::Unexpected(format!(
                "no webhook came within {} s",
                patience.as_secs()
            ))),
        }
    }

    /// Stops.
    pub async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

#[handler]
async fn receive(request: &Request, body: Body, inbox: Data<&Inbox>) -> StatusCode {
    let Ok(body) = body.into_bytes_limit(BODY_BYTES).await else {
        return StatusCode::PAYLOAD_TOO_LARGE;
    };
    let outcome = read(&inbox.secret, request, &body);
    let status = if outcome.is_ok() {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::UNAUTHORIZED
    };
    // Nobody waits for it only while the demo ends.
    let _ = inbox.hooks.send(outcome).await;
    status
}

/// Verifies the webhook before reading it.
fn read(secret: &Secret, request: &Request, body: &[u8]) -> Result<Hook, String> {
    let header = |name: &str| {
        request
            .header(name)
            .ok_or_else(|| format!("the header {name} is missing"))
    };
    let service_signature = header("x-service-signature")?;
    webhook::verify(secret, service_signature, body).map_err(|e| e.to_string())?;
    let headers = StandardHeaders {
        id: header("webhook-id")?,
        timestamp: header("webhook-timestamp")?,
        signature: header("webhook-signature")?,
    };
    webhook::verify_standard(
        secret,
        headers,
        body,
        Clock::System.now().unix_seconds(),
        None,
    )
    .map_err(|e| e.to_string())?;
    let envelope: Envelope =
        serde_json::from_slice(body).map_err(|e| format!("its body is not an event: {e}"))?;
    Ok(Hook {
        event_id: envelope.event_id,
        event_type: envelope.r#type,
        booking_id: envelope.booking_id,
        service_signature: service_signature.to_owned(),
        standard_signature: headers.signature.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(signature: &str, body: &str, secret: &Secret) -> Request {
        let now = Clock::System.now().unix_seconds();
        Request::builder()
            .header("x-service-signature", signature)
            .header("webhook-id", "evt_1")
            .header("webhook-timestamp", now)
            .header(
                "webhook-signature",
                webhook::sign_standard(secret, "evt_1", now, body).unwrap(),
            )
            .finish()
    }

    #[test]
    fn only_what_both_signatures_cover_is_read() {
        let secret = Secret::from_bytes([7; 32]);
        let body = r#"{"eventId":"evt_1","type":"booking.created","bookingId":"bkg_1"}"#;
        let good = webhook::sign_body(&secret, body);
        let hook = read(&secret, &request(&good, body, &secret), body.as_bytes()).unwrap();
        assert_eq!(
            (
                hook.event_id.as_str(),
                hook.event_type.as_str(),
                hook.booking_id.as_str()
            ),
            ("evt_1", "booking.created", "bkg_1")
        );
        let other = Secret::from_bytes([8; 32]);
        for (request, body) in [
            (request(&good, body, &secret), "{}"),
            (request(&good, body, &other), body),
            (
                request(&webhook::sign_body(&other, body), body, &secret),
                body,
            ),
            (Request::builder().finish(), body),
        ] {
            assert!(read(&secret, &request, body.as_bytes()).is_err());
        }
    }
}
