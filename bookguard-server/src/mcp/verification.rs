//! The tool that verifies an evidence packet: the core's offline verification, for programs that cannot run it themselves. It
//! is not an operation of the HTTP interface, and only this tool reaches it.

use bookguard_core::error::Error;
use bookguard_core::evidence::{self, Report};
use bookguard_core::features;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::input::{self, Declaration, Form};
use bookguard_core::ledger::jcs;
use bookguard_core::limits::PACKET_BYTES_AT_ONCE;
use bookguard_core::operation::{self, Action, Body, Operation, Request, Route};
use bookguard_core::session::{Access, Session};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Verifies a given packet, or the packet of one of the caller's bookings.
pub(super) struct VerifyEvidence;

/// The result: the report as `bookguard evidence verify` prints it.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Verification(Value);

/// What to verify.
enum Subject {
    Packet(String),
    Booking(String),
}

impl Operation for VerifyEvidence {
    const ROUTE: Route = Route {
        id: "verifyEvidence",
        path: "/verify-evidence",
        access: Access::AnyKey,
        body: Body::Required(&VERIFICATION),
        refusals: &[404],
        tag: "Evidence",
        summary: "Verify an evidence packet",
        description: "Checks form, signature, proofs and what the entries say.",
        ..Route::POST
    };
    type Output = Verification;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Verification>, Error> {
        let (subject, key) = read(&request.body)?;
        let (packet, is_long): (PacketFn, _) = match subject {
            Subject::Packet(packet) => {
                let is_long = packet.len() > PACKET_BYTES_AT_ONCE;
                (Box::new(move |_| Ok(one_spelling(packet).into())), is_long)
            }
            Subject::Booking(booking_id) => packet_of(session, booking_id)?,
        };
        let verify = move |session: &Session| {
            let packet = packet(session)?;
            let key = match key {
                Some(key) => key,
                None => features::ledger::vkey(&session.service)?,
            };
            Ok(Verification::from(evidence::verify(&packet, key.trim())))
        };
        Ok(operation::read_long::<Self>(is_long, verify))
    }
}

/// Makes the packet that is to be verified.
type PacketFn = Box<dyn FnOnce(&Session) -> Result<Bytes, Error> + Send>;

impl From<Report> for Verification {
    fn from(report: Report) -> Self {
        Self(json!(report))
    }
}

/// The tool's arguments.
const VERIFICATION: Declaration = Declaration {
    name: "NewVerification",
    about: "What to verify.",
    example: r#"{"bookingId": "bkg_01a1ff28460b7c3c8d1f0e6f5a4b3c2d"}"#,
    reader: |v| v.object(subject).map(drop),
};

fn subject(form: &mut Form<'_, '_>) -> Option<(Subject, Option<String>)> {
    let packet = form
        .about("An evidence packet, whole and unchanged, as get_evidence returns it. Exactly one of this and `bookingId`.")
        .optional("packet", |value| {
            value.describe(|draft| draft.set("type", "object"));
            match value.type_name() {
                "an object" => Some(value.json().to_owned()),
                other => value.fault(
                    "wrong_type",
                    format!("is {other}; an object is required"),
                    "Send the whole packet as get_evidence returns it.",
                ),
            }
        });
    let booking_id = form
        .about("A booking of yours, whose packet is made and verified now. Exactly one of this and `packet`.")
        .optional("bookingId", |value| value.string());
    let key = form
        .about(
            "The ledger's verifier key (`name+id+base64`) that you trust, from GET /v1/ledger/key of the service the packet came \
             from; this service's own when not given.",
        )
        .optional("ledgerKey", |value| value.string());
    let subject = match (form.has("packet"), form.has("bookingId")) {
        (true, false) => packet.map(Subject::Packet),
        (false, true) => booking_id.map(Subject::Booking),
        _ => form.fault_here(
            "one_of",
            "must have exactly one of packet and bookingId",
            "Send bookingId to verify a booking of yours, or packet to verify one you were given.",
        ),
    };
    Some((subject?, key))
}

fn read(body: &[u8]) -> Result<(Subject, Option<String>), Error> {
    input::read(body, subject)
}

/// Rewrites a packet in canonical form, as the service writes it: a client may have changed the order of its members. Text that
/// is not unambiguous JSON stays as it is, and does not verify.
fn one_spelling(packet: String) -> Vec<u8> {
    let value = jcs::parse(&packet).ok();
    let canonical = value.and_then(|value| jcs::to_canonical(&value).ok());
    canonical.unwrap_or(packet).into_bytes()
}

/// A booking's packet, and whether it takes long to make or verify.
fn packet_of(session: &Session, booking_id: String) -> Result<(PacketFn, bool), Error> {
    let request = Request {
        path: vec![booking_id],
        ..Request::default()
    };
    match operation::prepare::<GetEvidence>(session, &request)? {
        Action::Read { is_long, read } if is_long => {
            Ok((Box::new(move |session| Ok(read(session)?.body)), true))
        }
        Action::Read { read, .. } => {
            let packet = read(session)?.body;
            let is_long = packet.len() > PACKET_BYTES_AT_ONCE;
            Ok((Box::new(move |_| Ok(packet)), is_long))
        }
        Action::Watch(_) | Action::Write(_) => {
            Err(Error::internal("a packet is read, and nothing else"))
        }
    }
}

/// The tool's arguments, as JSON Schema.
pub(super) fn input_schema() -> Value {
    let schemas = VERIFICATION.schemas();
    schemas
        .into_iter()
        .next()
        .map(|(_, schema)| schema.into())
        .unwrap_or_default()
}

/// The tool's output, as JSON Schema.
pub(super) fn output_schema() -> Value {
    serde_json::from_str(include_str!("verification.json")).expect("a test defines every tool")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_thing_is_verified() {
        for (body, code) in [
            (r#"{}"#, "one_of"),
            (r#"{"packet":{},"bookingId":"b"}"#, "one_of"),
            (r#"{"packet":[]}"#, "wrong_type"),
            (r#"{"packet":null}"#, "null"),
            (r#"{"bookingId":7}"#, "wrong_type"),
            (r#"{"bookingId":"b","key":"k"}"#, "unknown_field"),
        ] {
            let error = read(body.as_bytes()).err().expect(body);
            assert_eq!(error.details[0].code, code, "{body}");
        }
        assert!(read(br#"{"packet":{"a":1},"ledgerKey":"k"}"#).is_ok());
        assert!(read(br#"{"bookingId":"b"}"#).is_ok());
    }

    #[test]
    fn the_order_of_a_packet_s_parts_does_not_matter_and_ambiguity_does() {
        assert_eq!(
            one_spelling(r#"{ "b": 1.0, "a": "\u0041" }"#.to_owned()),
            br#"{"a":"A","b":1}"#
        );
        let twice = r#"{"a":1,"a":2}"#;
        assert_eq!(one_spelling(twice.to_owned()), twice.as_bytes());
    }
}
