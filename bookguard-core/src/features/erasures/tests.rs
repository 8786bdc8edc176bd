//! What a node keeps in memory of a booking of which values are erased.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::features::bookings::CreateBooking;
use crate::features::evidence::GetEvidence;
use crate::features::partners::{RegisterPartner, Registration};
use crate::model::Scopes;
use crate::operation;
use crate::service::ServiceConfig;
use crate::session::Authority;

fn request(path: &[&str], body: &str) -> Request {
    Request {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    }
}

fn finish<T: Send + 'static>(session: &Session, action: Action<T>) {
    match action {
        Action::Read { read, .. } => drop(read(session).unwrap()),
        Action::Write(writing) => drop(session.service.submit_and_wait(writing.command).unwrap()),
        Action::Watch(_) => panic!("nothing is watched"),
    }
}

fn book(db: &Path) -> (Session, BookingId) {
    let (service, _) = Service::open(ServiceConfig::of(db.into())).unwrap();
    let session = |authority| Session {
        service: Arc::clone(&service),
        authority,
        address: None,
    };
    let address = "127.0.0.1".to_owned();
    let anonymous = session(Authority::Anonymous { address });
    let body = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
    let registered: Registration = written::<RegisterPartner>(&anonymous, &request(&[], body));
    let partner = session(Authority::Partner {
        partner_id: registered.partner_id,
        api_key_id: registered.api_key_id.unwrap(),
        scopes: Scopes::all(),
        suspended: false,
        signed_in: None,
    });
    let body = r#"{"talent":{"id":"t1","name":"The Night Owls"},"organizer":{"id":"o1","name":"Jane"},
                   "eventType":"concert","eventDate":"2037-06-20T19:00:00-04:00","bookingValue":1200.50}"#;
    let booked = written::<CreateBooking>(&partner, &request(&[], body));
    (partner, booked.booking_id)
}

fn written<O: Operation>(session: &Session, request: &Request) -> O::Output {
    let Action::Write(writing) = operation::prepare::<O>(session, request).unwrap() else {
        panic!("it writes")
    };
    match session.service.submit_and_wait(writing.command).unwrap() {
        crate::engine::command::Written::Fresh(reply) => reply,
        crate::engine::command::Written::Replayed(_) => panic!("it was answered before"),
    }
}

#[test]
fn a_packet_that_is_made_while_an_erasure_waits_for_its_commit_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (session, booking_id) = book(&folder.path().join("b.db"));
    let id = booking_id.to_string();
    let asked = request(&[&id], r#"{"party":"everybody","legalBasis":"objection"}"#);
    let erase = operation::prepare::<EraseValues>(&session, &asked).unwrap();
    let evidence = || operation::prepare::<GetEvidence>(&session, &request(&[&id], "")).unwrap();
    finish(&session, evidence());
    let packets = session.service.packets();
    assert_eq!(packets.count(&booking_id), 1, "nothing is erased yet");
    finish(&session, erase);
    assert_eq!(packets.count(&booking_id), 0);
    finish(&session, evidence());
    assert_eq!(packets.count(&booking_id), 1);
}
