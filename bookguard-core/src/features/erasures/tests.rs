//! What a node keeps of a booking whose values are erased, in memory and in its list.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::features::bookings::CreateBooking;
use crate::features::evidence::GetEvidence;
use crate::features::items::AddEvidenceItem;
use crate::features::ledger::accept_rollback;
use crate::features::partners::{RegisterPartner, Registration};
use crate::features::shares::CreateShare;
use crate::guard::Guard;
use crate::ledger::rollback::{PublishedHead, Rollback, RollbackCause};
use crate::model::Scopes;
use crate::operation;
use crate::service::{Closing, ServiceConfig};
use crate::session::Authority;
use crate::store::backup::backup;

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

fn open(db: &Path) -> (Arc<Service>, Closing) {
    Service::open(ServiceConfig::of(db.into())).unwrap()
}

/// Another node on the database, with a guard of its own.
fn beside(db: &Path) -> Arc<Service> {
    let config = ServiceConfig {
        guard_file: Some(db.with_file_name("other.seen")),
        ..ServiceConfig::of(db.into())
    };
    Service::open(config).unwrap().0
}

fn session(service: &Arc<Service>, authority: Authority) -> Session {
    Session {
        service: Arc::clone(service),
        authority,
        address: None,
    }
}

fn partner(service: &Arc<Service>) -> Session {
    let address = "127.0.0.1".to_owned();
    let anonymous = session(service, Authority::Anonymous { address });
    let body = r#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
    let registered: Registration = written::<RegisterPartner>(&anonymous, &request(&[], body));
    let authority = Authority::Partner {
        partner_id: registered.partner_id,
        api_key_id: registered.api_key_id.unwrap(),
        scopes: Scopes::all(),
        suspended: false,
        signed_in: None,
    };
    session(service, authority)
}

fn book(partner: &Session) -> BookingId {
    let body = r#"{"talent":{"id":"t1","name":"The Night Owls"},"organizer":{"id":"o1","name":"Jane"},
                   "eventType":"concert","eventDate":"2037-06-20T19:00:00-04:00","bookingValue":1200.50}"#;
    written::<CreateBooking>(partner, &request(&[], body)).booking_id
}

fn erase(partner: &Session, booking_id: BookingId) {
    let asked = r#"{"party":"everybody","legalBasis":"objection"}"#;
    let report = written::<EraseValues>(partner, &request(&[&booking_id.to_string()], asked));
    assert!(report.receipt.is_some());
}

/// The erasures that a node's list names.
fn listed(service: &Service) -> Vec<ListedErasure> {
    let mut all = Vec::new();
    let take = |one: ListedErasure| {
        all.push(one);
        Ok(())
    };
    service.erasures().each::<String>(take).unwrap();
    all
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

/// Puts a backup in the place of a database that nobody has open.
fn put_back(before: &Path, db: &Path) {
    std::fs::copy(before, db).unwrap();
    for beside in ["db-wal", "db-shm"] {
        let _ = std::fs::remove_file(db.with_extension(beside));
    }
}

/// Accepts the loss that the service has found. Returns it.
fn accept(service: &Service) -> Rollback {
    let rollback = service.rollback().unwrap().unwrap();
    let accept = accept_rollback(service, rollback.clone()).unwrap();
    service.submit_and_wait(accept).unwrap();
    rollback
}

#[test]
fn a_packet_that_is_made_while_an_erasure_waits_for_its_commit_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = open(&folder.path().join("b.db"));
    let session = partner(&service);
    let booking_id = book(&session);
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

#[test]
fn every_node_lists_every_erasure_in_their_order_whoever_made_it_and_whatever_its_disk_did() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let (service, _) = open(&db);
    let one = partner(&service);
    let [first, second, third, fourth] = [(); 4].map(|()| book(&one));
    let other = beside(&db);
    let two = session(&other, one.authority.clone());
    erase(&one, first);
    erase(&two, second);
    let of = |service: &Service| -> Vec<BookingId> {
        let listed = listed(service).into_iter();
        listed.map(|one| one.erasure.booking_id).collect()
    };
    assert_eq!(of(&other), [first, second]);
    assert_eq!(of(&service), [first]);
    // Its list can be neither read nor written for a while.
    let (list, aside) = (service.erasures().path(), folder.path().join("aside"));
    std::fs::rename(list, &aside).unwrap();
    std::fs::create_dir(list).unwrap();
    erase(&one, third);
    std::fs::remove_dir(list).unwrap();
    std::fs::rename(&aside, list).unwrap();
    erase(&one, fourth);
    assert_eq!(of(&service), [first, second, third, fourth]);
    settle(&other).unwrap();
    assert_eq!(listed(&other), listed(&service));
}

#[test]
fn a_node_that_nobody_asks_follows_what_the_others_published_and_erased() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("b.db");
    let (service, _) = open(&db);
    let one = partner(&service);
    let bookings = [(); 2].map(|()| book(&one));
    let other = beside(&db);
    let known = || {
        let guard = Guard::open(other.guard_file().to_owned()).unwrap();
        guard.seen().unwrap().size
    };
    let size = || service.head().unwrap().head.size;
    for booking_id in bookings {
        erase(&one, booking_id);
        assert!(known() < size());
        follow(&other).unwrap();
        assert_eq!(known(), size());
        assert_eq!(listed(&other), listed(&service));
    }
    book(&one);
    follow(&other).unwrap();
    assert_eq!((known(), listed(&other).len()), (size(), 2));
}

#[test]
fn whoever_is_killed_while_erasures_are_repeated_repeats_the_rest_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (db, before) = (folder.path().join("b.db"), folder.path().join("before.db"));
    let (service, closing) = open(&db);
    let acme = partner(&service);
    let bookings = [(); 2].map(|()| book(&acme));
    backup(&db.as_path().into(), &before, 0, &mut |_, _| ()).unwrap();
    for booking_id in bookings {
        erase(&acme, booking_id);
    }
    let guard = service.guard_file().to_owned();
    drop((acme, service));
    closing.wait();
    let lose = || {
        std::fs::remove_file(&guard).unwrap();
        put_back(&before, &db);
    };
    lose();
    let (service, closing) = open(&db);
    assert!(service.owes_erasures());
    let lost = listed(&service);
    // A node with neither guard nor list learns of it from the database.
    follow(&service).unwrap();
    let last = lost.last().unwrap();
    let noted = PublishedHead::at_least(&last.log, last.index + 1);
    assert_eq!(service.head().unwrap().lacking, [noted]);
    let config = ServiceConfig {
        guard_file: Some(folder.path().join("other.seen")),
        ..ServiceConfig::of(db.as_path().into())
    };
    let (other, ended) = Service::open(config).unwrap();
    let known = other.rollback().unwrap().unwrap();
    assert!(
        known.is_noted && known.cause == RollbackCause::Behind,
        "{known:?}"
    );
    drop(other);
    ended.wait();
    // The list alone shows the loss: nothing is written under the numbers that its entries had.
    let refused = settle(&service).map_err(|error| error.code);
    assert_eq!(refused.unwrap_err(), "erasures_pending");
    assert_eq!(accept(&service).cause, RollbackCause::GuardLost);
    assert!(service.rollback().unwrap().is_none() && service.owes_erasures());
    assert_eq!(service.head().unwrap().lacking, []);
    let begun = repeat(&service, lost[0].clone());
    assert!(matches!(begun, Ok(true)));
    drop(service);
    closing.wait();
    let (service, closing) = open(&db);
    assert!(service.owes_erasures(), "one is left");
    assert_eq!(settle(&service).unwrap(), 1);
    let all = listed(&service);
    assert_eq!((all.len(), &all[..2]), (4, &lost[..]));
    drop(service);
    closing.wait();
    let (service, closing) = open(&db);
    assert!(!service.owes_erasures());
    assert_eq!(listed(&service), all);
    // The same backup once more: it knows nothing of the name that the last line has since.
    drop(service);
    closing.wait();
    lose();
    let (service, _) = open(&db);
    let rollback = accept(&service);
    assert_eq!(rollback.cause, RollbackCause::GuardLost);
    assert_eq!(rollback.seen.origin, all[3].log);
    assert_ne!(rollback.found.origin, all[3].log);
    assert!(rollback.doubt().is_some());
    assert_eq!(service.rollback().unwrap(), None);
    assert_eq!(settle(&service).unwrap(), 2);
}

#[test]
fn a_note_on_a_share_goes_again_even_if_every_entry_of_its_erasure_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (db, before) = (folder.path().join("b.db"), folder.path().join("before.db"));
    let (service, closing) = open(&db);
    let acme = partner(&service);
    let booking_id = book(&acme);
    let id = booking_id.to_string();
    let notes = |session: &Session| {
        let mut reader = session.service.reader_anyway().unwrap();
        let shares = reader.shares(&booking_id, None, 10).unwrap();
        shares
            .into_iter()
            .map(|share| share.note)
            .collect::<Vec<_>>()
    };
    written::<CreateShare>(&acme, &request(&[&id], r#"{"note":"for Jane"}"#));
    backup(&db.as_path().into(), &before, 0, &mut |_, _| ()).unwrap();
    let item = r#"{"kind":"message","title":"y","note":"call Jane"}"#;
    written::<AddEvidenceItem>(&acme, &request(&[&id], item));
    let asked = r#"{"fields":["note"],"legalBasis":"objection"}"#;
    written::<EraseValues>(&acme, &request(&[&id], asked));
    assert_eq!(notes(&acme), [None]);
    let authority = acme.authority.clone();
    drop((acme, service));
    closing.wait();
    put_back(&before, &db);
    let (service, _) = open(&db);
    let acme = session(&service, authority);
    assert_eq!(notes(&acme), [Some("for Jane".to_owned())]);
    accept(&service);
    assert_eq!(settle(&service).unwrap(), 1);
    assert_eq!(notes(&acme), [None]);
}

#[test]
fn an_erasure_that_the_database_still_records_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (db, before) = (folder.path().join("b.db"), folder.path().join("before.db"));
    let (service, closing) = open(&db);
    let acme = partner(&service);
    let [kept, lost] = [(); 2].map(|()| book(&acme));
    erase(&acme, kept);
    let note = r#"{"note":"for the bank"}"#;
    written::<CreateShare>(&acme, &request(&[&kept.to_string()], note));
    backup(&db.as_path().into(), &before, 0, &mut |_, _| ()).unwrap();
    erase(&acme, lost);
    drop((acme, service));
    closing.wait();
    put_back(&before, &db);
    let (service, _) = open(&db);
    accept(&service);
    assert_eq!(settle(&service).unwrap(), 1);
    let mut reader = service.reader().unwrap();
    let shares = reader.shares(&kept, None, 10).unwrap();
    assert_eq!(shares[0].note.as_deref(), Some("for the bank"));
    assert_eq!(reader.erasures_of(&kept).unwrap().len(), 1);
    assert_eq!(reader.erasures_of(&lost).unwrap().len(), 1);
}
