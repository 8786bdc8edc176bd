//! Erasures: personal data of a booking is erased from everything that the service stores, and the ledger stays provable.
//!
//! An entry keeps the digest of an erased value and forgets its salt (`ledger/event/opening.rs`); `evidence.erased` says what was erased
//! and why. What else repeats the values goes too: the bodies of the booking's events with every attempt to deliver them, remembered
//! answers, files, notes on shares, the texts of released holds. What is erased is planned from entries that were read before the write turn, and the command is
//! refused if the booking has more entries by then. Invariant: nothing is erased while a legal hold is active.

pub(crate) mod rule;

use std::fmt;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::bookings::owner_of;
use super::cancellations::digest;
use super::ledger::note_loss;
use crate::engine::command::Receipt;
use crate::entropy;
use crate::erasure_list::ListedErasure;
use crate::error::Error;
use crate::evidence::{Erasable, ErasedValues, Erasure, Hold, LegalBasis, StoredEntry};
use crate::input::{self, Declaration, Form, Value};
use crate::ledger::Hash;
use crate::limits;
use crate::model::{
    BookingId, EventId, FileId, HoldId, ItemId, PartnerId, Scope, ShareId, Timestamp, vocabulary,
};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, query, read, write};
use crate::service::Service;
use crate::session::{Access, Session};
use crate::store::StoreError;
use crate::store::read::Reader;
use rule::{HeldElsewhere, Plan};

vocabulary! {
    /// Whose data is erased.
    ErasedParty {
        /// The organizer's: name and id, where acceptances came from, notes on a cancellation by it, and the words and files of the
        /// items that come from it.
        Organizer = "organizer",
        /// The same of the talent.
        Talent = "talent",
        /// All values that can be erased, except for the references of earlier erasures.
        Everybody = "everybody",
    }
}

/// What of a booking is to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erased {
    /// The values with these names, in all its entries.
    Fields(Vec<Erasable>),
    /// What is about one party, or about everybody.
    Of(ErasedParty),
    /// Whatever can be erased.
    Everything,
    /// Exactly these values, and what stood beside them then: an erasure of that time, which the database lost, is done again.
    Again(Vec<(ErasedValues, String)>, Timestamp),
}

/// `POST /v1/bookings/{bookingId}/erasures`
#[derive(Debug)]
pub struct EraseValues {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    /// What is erased, of the entries that were read.
    pub(crate) plan: Plan,
    /// The fact, without its values.
    pub(crate) legal_basis: LegalBasis,
    pub(crate) request_ref: Option<String>,
    /// The `planHash` that the caller was shown.
    pub(crate) expected: Option<String>,
    /// When it was erased first, if this repeats it. Holds do not matter then, and what was made later stays.
    pub(crate) repeats: Option<Timestamp>,
    /// Seed of the fact's salts.
    pub(crate) seed: [u8; 32],
}

/// Body of [`EraseValues`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct ErasureRequest {
    /// What is to be erased.
    pub what: Erased,
    /// Why.
    pub legal_basis: LegalBasis,
    /// What the partner knows the request by.
    pub request_ref: Option<String>,
    /// The `planHash` that the caller was shown.
    pub expected: Option<String>,
    /// Whether to say only what would be erased.
    pub dry_run: bool,
}

/// What was erased, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ErasureReport {
    /// The booking.
    pub booking_id: BookingId,
    /// Whether nothing was erased, because this was only asked.
    pub dry_run: bool,
    /// The values, by entry of the booking's chain; empty if there was nothing left to erase.
    pub values: Vec<ErasedValues>,
    /// The events whose bodies and attempts are erased. Deliveries of them that still waited are dropped.
    pub events: Vec<EventId>,
    /// The items whose files are deleted.
    pub files: Vec<ItemId>,
    /// The shares whose notes are erased.
    pub shares: Vec<ShareId>,
    /// The released holds whose reason or reference is erased.
    pub holds: Vec<HoldId>,
    /// The hash of all this, to be sent as `expected`; absent once it is erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// The place of `evidence.erased` in the ledger; absent if no value of an entry was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

impl ErasureReport {
    /// Whether nothing was left to erase.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.shares.is_empty() && self.holds.is_empty()
    }

    fn hash(&self) -> String {
        let what = (
            &self.values,
            &self.events,
            &self.files,
            &self.shares,
            &self.holds,
        );
        let what = serde_json::to_vec(&what).expect("names and ids always serialize");
        format!("sha256:{}", Hash::of(&what))
    }
}

/// The erasures of a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct BookingErasures {
    /// The booking.
    pub booking_id: BookingId,
    /// Its erasures as the ledger records them, oldest first.
    pub erasures: Vec<Erasure>,
}

impl Operation for EraseValues {
    const ROUTE: Route = Route {
        id: "eraseValues",
        path: "/v1/bookings/{bookingId}/erasures",
        access: Access::Scope(Scope::EvidenceErase),
        audited: true,
        body: Body::Required(&ErasureRequest::BODY),
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Erase personal data of a booking, for good",
        description: "Erases values from everything that the service stores: the booking, its ledger entries and their salts, its events and \
                      every attempt to deliver them, remembered answers, files, notes on shares, texts of released holds. Deliveries that still wait are dropped. The \
                      ledger keeps digests that nobody can open again, and `evidence.erased` says which values were erased and why. \
                      Packets made before the erasure verify, and so do those made after it. With `dryRun`, the answer says what would be erased. Send its `planHash` as `expected`: if \
                      anything else would be erased by then, it is refused with 409 `erasure_changed`. A legal hold refuses it: \
                      409 `legal_hold`. Repeating it changes nothing.",
        ..Route::POST
    };
    type Output = ErasureReport;

    fn prepare(session: &Session, request: &Request) -> Result<Action<ErasureReport>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let asked = input::read(&request.body, ErasureRequest::form)?;
        let partner_id = owner_of(session, &booking_id)?;
        let plan = query(session, |reader| {
            let what = (&asked.what, asked.request_ref.as_deref());
            planned(reader, &partner_id, &booking_id, what)
        })??;
        if asked.dry_run {
            // The writer refuses what is not dry.
            let holds = query(session, |reader| reader.active_holds(&partner_id))?;
            if let Some(hold) = holds.iter().find(|hold| hold.booking_id == booking_id) {
                return Err(rule::held(hold));
            }
            let files: Vec<FileId> = plan.files.iter().map(|(_, file_id)| *file_id).collect();
            let stored = query(session, |reader| reader.files(&files))?;
            let report = plan.report(booking_id, true, |file_id| stored.contains_key(file_id));
            return Ok(read::<Self>(move |_| Ok(report)));
        }
        let erase = Self {
            partner_id,
            booking_id,
            plan,
            legal_basis: asked.legal_basis,
            request_ref: asked.request_ref,
            expected: asked.expected,
            repeats: None,
            seed: entropy::bytes(),
        };
        Ok(write(session.service.clock().now(), erase))
    }
}

/// Plans an erasure of what is stored of a booking now.
fn planned(
    reader: &mut Reader<'_>,
    partner_id: &PartnerId,
    booking_id: &BookingId,
    (what, request_ref): (&Erased, Option<&str>),
) -> Result<Result<Plan, Error>, StoreError> {
    if reader.booking_owner(booking_id)?.as_ref() != Some(partner_id) {
        return Ok(Err(Error::not_found("booking")));
    }
    let entries: Vec<StoredEntry> = reader.entries_of(booking_id)?;
    let events = reader.whole_events_of(booking_id)?;
    let mut plan = match rule::plan(partner_id, &entries, (what, request_ref)) {
        Ok(plan) => plan,
        Err(error) => return Ok(Err(error)),
    };
    if !plan.values.is_empty() {
        plan.events = events;
    }
    let repeats = match what {
        Erased::Again(_, at) => Some(*at),
        _ => None,
    };
    let is_past = |made: Timestamp| repeats.is_none_or(|at| made <= at);
    let shares = reader.shares(booking_id, None, limits::SHARES_KEPT_PER_BOOKING as u32)?;
    let shares = shares.iter().filter(|share| is_past(share.created_at));
    let shares = shares.filter_map(|share| plan.unnoted(share));
    plan.shares = shares.map(|share| share.share_id).collect();
    let holds = reader.holds(booking_id, None, 2 * limits::HOLDS_PER_BOOKING as u32)?;
    let holds = holds.iter().filter(|hold| !hold.is_active());
    let holds = holds.filter(|hold| is_past(hold.placed_at));
    let holds = holds.filter_map(|hold| plan.untold(hold));
    plan.holds = holds.map(|hold| hold.hold_id).collect();
    plan.shares.sort();
    plan.holds.sort();
    let files: Vec<FileId> = plan.files.iter().map(|(_, file_id)| *file_id).collect();
    if repeats.is_some() {
        return Ok(Ok(plan));
    }
    let seen = held_elsewhere(reader, partner_id, booking_id, &files)?;
    Ok(seen.map(|elsewhere| Plan { elsewhere, ..plan }))
}

/// The partner's other bookings under a legal hold, if none of them has an item that names one of the files: a file is stored once for all
/// items of a partner. Otherwise the refusal to delete it.
pub(crate) fn held_elsewhere(
    reader: &mut Reader<'_>,
    partner_id: &PartnerId,
    booking_id: &BookingId,
    files: &[FileId],
) -> Result<Result<HeldElsewhere, Error>, StoreError> {
    let mut elsewhere = HeldElsewhere::default();
    if files.is_empty() {
        return Ok(Ok(elsewhere));
    }
    let mut holds = reader.active_holds(partner_id)?;
    holds.retain(|hold| hold.booking_id != *booking_id);
    for some in holds.chunks(BOOKINGS_AT_ONCE) {
        let bookings: Vec<BookingId> = some.iter().map(|hold| hold.booking_id).collect();
        // Counted before they are read: an item that comes in between makes its booking one that changed.
        elsewhere.0.extend(reader.entry_counts(&bookings)?);
        let items = reader.items_of_all(&bookings)?;
        let keeper = items.iter().find(|item| {
            let sha256 = item.sha256.as_deref();
            let file_id = sha256.and_then(|sha256| FileId::named(partner_id, sha256));
            file_id.is_some_and(|file_id| files.contains(&file_id))
        });
        let is_of = |hold: &&Hold| keeper.is_some_and(|item| item.booking_id == hold.booking_id);
        if let Some(hold) = some.iter().find(is_of) {
            return Ok(Err(rule::held_file(booking_id, hold)));
        }
    }
    Ok(Ok(elsewhere))
}

/// The bookings whose evidence items are read at once.
const BOOKINGS_AT_ONCE: usize = 64;

impl ErasureRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewErasure",
        about: "What to erase of a booking, and why: `fields` or `party`.",
        example: r#"{
            "party": "organizer",
            "legalBasis": "consent_withdrawn",
            "requestRef": "DSR-2026-0117",
            "dryRun": true
        }"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of an erasure, reporting every fault.
    /// Its faults are those of [`input`], and `fields_or_party`.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let fields = form
            .about("The names of the values, in all entries of the booking.")
            .optional("fields", fields);
        let party = form
            .about("Whose data to erase, instead of `fields`.")
            .optional("party", |v| {
                v.named("ErasedParty").choice(ErasedParty::WORDS)
            });
        let legal_basis = form
            .about("Why they are erased.")
            .required("legalBasis", |v| {
                v.named("LegalBasis").choice(LegalBasis::WORDS)
            });
        let request_ref = form
            .about("Your reference for the request. A later erasure can erase it.")
            .optional("requestRef", |v| v.text(limits::REFERENCE_CHARS));
        let expected = form
            .about(
                "The `planHash` of the dry run that the user was shown; if anything else would be erased, nothing is, and the answer is \
                 409 `erasure_changed`.",
            )
            .optional("expected", digest);
        let dry_run = form
            .about("true: answer with what would be erased, and erase nothing.")
            .optional("dryRun", |v| v.boolean());
        let wrong = match (fields.is_some(), party.is_some()) {
            (true, true) => Some("stands beside \"party\""),
            _ if !form.has("fields") && !form.has("party") => {
                Some("is missing, and so is \"party\"")
            }
            _ => None,
        };
        if let Some(message) = wrong {
            let fix = "Name the values, or a party.";
            form.fault_at("fields", "fields_or_party", message, fix);
        }
        form.describe(|draft| {
            let either = ["fields", "party"].map(|name| json!({"required": [name]}));
            draft.set("oneOf", json!(either));
        });
        let what = match (fields, party) {
            (Some(fields), None) => Erased::Fields(fields),
            (None, Some(party)) => Erased::Of(party),
            _ => return None,
        };
        Some(Self {
            what,
            legal_basis: legal_basis?,
            request_ref,
            expected,
            dry_run: dry_run.unwrap_or(false),
        })
    }
}

fn fields(v: &mut Value<'_, '_>) -> Option<Vec<Erasable>> {
    let names = v.at_least(1).array(Erasable::WORDS.len(), |item| {
        item.named("Erasable").choice(Erasable::WORDS)
    })?;
    if names.is_empty() {
        return v.fault(
            "empty",
            "is empty; nothing would be erased",
            "Name a value, or send \"party\" instead of \"fields\".",
        );
    }
    Some(names)
}

/// `GET /v1/bookings/{bookingId}/erasures`
pub struct ListErasures;

impl Operation for ListErasures {
    const ROUTE: Route = Route {
        id: "listErasures",
        path: "/v1/bookings/{bookingId}/erasures",
        access: Access::Scope(Scope::EvidenceRead),
        refusals: &[404],
        tag: "Evidence",
        summary: "What was erased of a booking, and why",
        description: "Oldest first, as the ledger records it: names of values, never values.",
        ..Route::GET
    };
    type Output = BookingErasures;

    fn prepare(session: &Session, request: &Request) -> Result<Action<BookingErasures>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let owner = owner_of(session, &booking_id)?;
        Ok(read::<Self>(move |session| {
            let (stored, erasures) = query(session, |reader| {
                Ok((
                    reader.booking_owner(&booking_id)?,
                    reader.erasures_of(&booking_id)?,
                ))
            })?;
            if stored != Some(owner) {
                return Err(Error::not_found("booking"));
            }
            Ok(BookingErasures {
                booking_id,
                erasures,
            })
        }))
    }
}

/// Erases again what the list says was erased and the database still holds, because it was put back from a backup; then adds to the list
/// what the ledger records and it lacks. Until this is done, the service serves nothing. Returns how many erasures were repeated. Call
/// this after opening the service, after a loss was accepted, and now and then. Blocks.
///
/// # Errors
/// `erasures_pending` while the ledger is rolled back, `unavailable`.
pub fn settle(service: &Service) -> Result<u64, Error> {
    let mut repeated = 0;
    if service.owes_erasures() {
        // Perhaps nobody knew yet whether they are owed. The list may be long.
        let looked = service.look_at_erasures();
        looked.map_err(|why| SettleError::from(why).0)?;
    }
    if service.owes_erasures() {
        // A repeated erasure is recorded under a number that another entry may have had.
        if service.rollback()?.is_some() {
            return Err(Error::erasures_pending());
        }
        let listed = service.erasures().each::<SettleError>(|listed| {
            repeated += u64::from(repeat(service, listed)?);
            Ok(())
        });
        listed.map_err(|error| error.0)?;
        // Until all of them are repeated, none is listed: a process that is killed in between starts again.
        list_missing(service, &mut service.reader_anyway()?)?;
        service.erasures_settled();
    }
    list_missing(service, &mut service.reader()?)?;
    Ok(repeated)
}

/// Takes up what other processes did to the log since this was last called: notes the head that they published, lists what they
/// erased, and drops from memory the packets and the deliveries, not begun, that show it. Without this, a node that nobody asks
/// would take writes on a database that lost what only the others had shown. Notes in the database what it lost. Call this about every
/// second. Blocks.
///
/// # Errors
/// `unavailable` if the store does not answer or the list cannot be written; the next call, or the next [`settle`], makes up for it.
pub fn follow(service: &Service) -> Result<(), Error> {
    let mut reader = service.reader_anyway()?;
    let head = reader.head().map_err(|e| service.fault(&e))?;
    service.storage().head_read(head.moved_to.as_deref());
    let rollback = service.publish(&mut reader, &head);
    if let Ok(Some(lost)) = &rollback {
        note_loss(service, &head, lost);
    }
    let size = head.head.size;
    // The log may have become shorter, if a loss was accepted.
    let before = service.followed().load(Ordering::Relaxed).min(size);
    let mut from = before;
    loop {
        let page = reader.erased_since(from).map_err(|e| service.fault(&e))?;
        let Some((last, _)) = page.last() else {
            break;
        };
        from = last + 1;
        for (_, booking_id) in &page {
            service.packets().forget(booking_id);
            if let Some(outbox) = service.outbox() {
                let gone = reader.pruned_events_of(booking_id);
                let gone = gone.map_err(|e| service.fault(&e))?;
                outbox.recall(gone, service.clock().now());
            }
        }
    }
    service.followed().store(from.max(size), Ordering::Relaxed);
    // A list that goes on after what a database lost would no longer show that it is owed.
    if rollback?.is_none() && from > before && !service.owes_erasures() {
        list_missing(service, &mut reader)?;
    }
    Ok(())
}

/// Why erasures are not settled.
struct SettleError(Error);

impl From<String> for SettleError {
    fn from(why: String) -> Self {
        tracing::error!("{why}");
        Self(Error::erasures_pending())
    }
}

impl From<Error> for SettleError {
    fn from(error: Error) -> Self {
        match &*error.code {
            "ledger_rolled_back" => Self(Error::erasures_pending()),
            _ => Self(error),
        }
    }
}

/// Does one erasure again, if the database lost it and holds what it erased. Returns whether it did.
fn repeat(service: &Service, listed: ListedErasure) -> Result<bool, SettleError> {
    let mut reader = service.reader_anyway()?;
    // Whatever stands beside its values now came after it.
    let is_recorded = reader.records(&listed);
    if is_recorded.map_err(|e| service.fault(&e))? {
        return Ok(false);
    }
    let Erasure {
        booking_id,
        erased_at,
        legal_basis,
        request_ref,
        values,
    } = listed.erasure;
    let values = values.into_iter().zip(listed.leaves).collect();
    let owner = reader.booking_owner(&booking_id);
    if owner.map_err(|e| service.fault(&e))? != Some(listed.partner_id) {
        return Ok(false);
    }
    let plan = planned(
        &mut reader,
        &listed.partner_id,
        &booking_id,
        (&Erased::Again(values, erased_at), None),
    );
    let plan = plan.map_err(|e| service.fault(&e))??;
    drop(reader);
    // Its values may all be of entries that are lost, and a note on a share not.
    if plan.is_empty() {
        return Ok(false);
    }
    let erase = EraseValues {
        partner_id: listed.partner_id,
        booking_id,
        plan,
        legal_basis,
        request_ref,
        expected: None,
        repeats: Some(erased_at),
        seed: entropy::bytes(),
    };
    service.submit_and_wait(service.envelope(erase))?;
    Ok(true)
}

/// Adds to the list the erasures that the ledger records and it lacks: those of other nodes, those that were repeated, and those that
/// could not be added at once.
fn list_missing(service: &Service, reader: &mut Reader<'_>) -> Result<(), Error> {
    let unlisted = |why: String| {
        tracing::error!("{why}");
        Error::unavailable("The list of erasures cannot be read or written at present.")
    };
    while reader.list_erasures(service.erasures()).map_err(unlisted)? {}
    Ok(())
}

/// The command that erases everything that can be erased of a booking; `None` if nothing is left. Blocks.
///
/// # Errors
/// `not_found`, `legal_hold` for a file that another booking needs, `unavailable`.
pub(crate) fn erase_all(
    service: &Service,
    partner_id: PartnerId,
    booking_id: BookingId,
    request_ref: Option<String>,
) -> Result<Option<EraseValues>, Error> {
    let everything = (&Erased::Everything, request_ref.as_deref());
    let plan = service.ask(|reader| planned(reader, &partner_id, &booking_id, everything))??;
    let erase = EraseValues {
        partner_id,
        booking_id,
        plan,
        legal_basis: LegalBasis::ContractEnded,
        request_ref,
        expected: None,
        repeats: None,
        seed: entropy::bytes(),
    };
    Ok((!erase.plan.is_empty()).then_some(erase))
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;
