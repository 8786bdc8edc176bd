//! The protocol without a listener: `bookguard mcp` uses it on a database of its own.
//!
//! It is the same endpoint over the same operations, called by the holder of the database. Invariant: it makes no decisions of
//! its own.

use std::sync::Arc;

use bookguard_core::session::Session;
use poem::http::StatusCode;
use poem::http::header::HeaderMap;

use super::endpoint::McpEndpoint;
use crate::app::App;
use crate::courier::Courier;
use crate::payer::Payer;
use crate::refusal::Refusal;

/// A service that answers messages in this process.
pub struct LocalMcp(McpEndpoint);

impl LocalMcp {
    /// Creates an endpoint that gives every caller the session's authority. Drop it before the service is closed.
    ///
    /// # Errors
    /// A sentence for the operator if the system gives no threads.
    pub fn new(session: Session, courier: Arc<Courier>) -> Result<Self, String> {
        let app = App::operated(session, courier)?;
        Ok(Self(McpEndpoint::new(Arc::new(app), None)))
    }

    /// Answers a message with these headers as [`PATH`](super::PATH) would: a status, and a body that may be empty.
    pub async fn answer(&self, headers: HeaderMap, message: Vec<u8>) -> (StatusCode, Vec<u8>) {
        let answer = self.0.answer(headers, message, Some(Payer::Operator), None);
        let answer = answer.await;
        let response = answer.unwrap_or_else(Refusal::respond);
        let status = response.status();
        let body = response.into_body().into_vec().await;
        (status, body.unwrap_or_default())
    }
}
