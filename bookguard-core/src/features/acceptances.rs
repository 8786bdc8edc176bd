//! A booking's terms in words, and their acceptances.

pub(crate) mod rule;

use crate::engine::command::{EventSeed, Receipt};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::bookings::{event_seed, owner_of, packet_url};
use super::cancellations::digest;
use super::reschedules::sides;
use crate::engine::batch::LoadedBooking;
use crate::entropy;
use crate::error::Error;
use crate::evidence::facts::{Fact, Logged};
use crate::evidence::{Acceptance, BookingState, FrozenTerms, StoredEntry, TermsVersion};
use crate::input::{self, Declaration, Draft, Form, Json, Value};
use crate::limits;
use crate::model::{BookingId, PartnerId, Scope, Timestamp};
use crate::operation::{
    Action, Body, Operation, Request, Route, path_id, query, query_one, read_long, write,
};
use crate::policy::{
    Actor, DisclosureWording, Segment, Terms, TermsDisclosure, disclose_in, effective_schedule,
};
use crate::session::{Access, Session};

/// `GET /v1/bookings/{bookingId}/disclosure`
pub struct GetDisclosure;

/// The terms of a booking in words, and its former terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct BookingDisclosure {
    /// The booking.
    pub booking_id: BookingId,
    /// The terms now in force.
    #[serde(flatten)]
    pub current: DisclosedTerms,
    /// The terms before each change of date, oldest first. An acceptance stays with the text that was accepted.
    pub former: Vec<DisclosedTerms>,
}

/// Terms in words and figures, and their acceptances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct DisclosedTerms {
    /// `sha256:` and the hex digest of the text's UTF-8 bytes.
    pub disclosure_hash: String,
    /// The version of the wording. Within one version, the same terms always give the same text. Terms stay in the version in which they
    /// were first accepted; others are shown in the latest.
    pub version: String,
    /// The text to show, its lines separated by line feeds.
    pub text: String,
    /// When these terms came into force.
    pub since: Timestamp,
    /// When they ended; absent for the terms in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When the event starts, or would have started.
    pub event_date: Timestamp,
    /// The event's date in the form in which it was given: with an offset, as a local time on the clocks of `timeZone`, or as a date alone,
    /// of an event whose time of day is not known. Absent only in answers of versions before this member existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_event_date: Option<String>,
    /// The zone whose clocks these terms go by: an IANA time zone, of the booking, its policy or the partner, or an offset from UTC. Absent
    /// only in answers of versions before this member existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The organizer's schedule, including the step reached before a change of date.
    pub schedule: Vec<Segment>,
    /// The acceptances of these terms, oldest first. Each names the text that was accepted, which is another one only if it was shown in
    /// another version.
    pub acceptances: Vec<Acceptance>,
}

impl Operation for GetDisclosure {
    const ROUTE: Route = Route {
        id: "getDisclosure",
        path: "/v1/bookings/{bookingId}/disclosure",
        access: Access::Scope(Scope::BookingsRead),
        refusals: &[404],
        tag: "Bookings",
        summary: "The terms of a booking in words",
        description: "Plain English with the booking's own deadlines, local and UTC, and its own amounts: show it where the terms are \
                      accepted, and record that with its `disclosureHash`. The same frozen terms always give the same text and \
                      hash in one `version`, so anybody can recreate them from the evidence packet. A newer version of the service \
                      may word terms that nobody has accepted yet in another `version`. When the event is moved, the text changes; \
                      earlier texts stay in `former`, with their acceptances.",
        ..Route::GET
    };
    type Output = BookingDisclosure;

    fn prepare(session: &Session, request: &Request) -> Result<Action<BookingDisclosure>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let chain = query_one(session, |reader| reader.booking_chain(&booking_id))?
            .filter(|chain| session.may_see(&chain.owner))
            .ok_or_else(|| Error::not_found("booking"))?;
        let tell = move |session: &Session| {
            let (state, entries) = query(session, |reader| {
                reader.snapshot();
                let state = reader.booking(&booking_id)?;
                Ok((state, reader.entries_of(&booking_id)?))
            })?;
            let state = state.filter(|state| session.may_see(&state.booking.partner_id));
            let state = state.ok_or_else(|| Error::not_found("booking"))?;
            let told = TermsHistory::of(&state, facts(&entries.iter().collect::<Vec<_>>())?)?;
            let mut terms_versions = told.disclosed()?;
            let current = terms_versions
                .pop()
                .ok_or_else(|| Error::internal("a booking is under no terms"))?;
            Ok(BookingDisclosure {
                booking_id,
                current,
                former: terms_versions,
            })
        };
        // This reads every entry.
        let is_long = chain.entries > limits::ENTRIES_AT_ONCE;
        Ok(read_long::<Self>(is_long, tell))
    }
}

/// `POST /v1/bookings/{bookingId}/acceptances`
#[derive(Debug)]
pub struct AcceptTerms {
    pub(crate) partner_id: PartnerId,
    pub(crate) booking_id: BookingId,
    pub(crate) asked: AcceptanceRequest,
    /// Seed of the fact's salts.
    pub(crate) seed: [u8; 32],
    /// For its event, if an endpoint lists that type.
    pub(crate) event: EventSeed,
    /// The evidence address for the event's payload.
    pub(crate) evidence_url: String,
}

/// Body of [`AcceptTerms`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct AcceptanceRequest {
    /// Who accepts.
    pub party: Actor,
    /// How, in the partner's own words.
    pub method: String,
    /// When.
    pub at: Timestamp,
    /// The network address it was accepted from.
    pub ip: Option<String>,
    /// The program it was accepted with.
    pub user_agent: Option<String>,
    /// The hash of the text that was shown.
    pub disclosure_hash: String,
}

impl Operation for AcceptTerms {
    const ROUTE: Route = Route {
        id: "acceptTerms",
        path: "/v1/bookings/{bookingId}/acceptances",
        access: Access::Scope(Scope::BookingsWrite),
        status: 201,
        body: Body::Required(&AcceptanceRequest::BODY),
        refusals: &[404, 409],
        tag: "Bookings",
        summary: "Record that a party accepted a booking's terms",
        description: "Writes `terms.accepted` to the ledger: the party accepted exactly the text with this `disclosureHash`, \
                      which is part of every evidence packet from then on. It may be in an earlier `version` that was shown \
                      before an upgrade of the service. A text of other terms than those in force is 409 \
                      `disclosure_changed`, with the `disclosureHash` of the text to show. Sending the same again returns what is \
                      recorded, also without its `ip` or `userAgent`; any other value makes another acceptance. The event \
                      `terms.accepted` goes to the endpoints that list it.",
        ..Route::POST
    };
    type Output = Accepted;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Accepted>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let asked = input::read(&request.body, AcceptanceRequest::form)?;
        let at = session.service.clock().now();
        let accept = Self {
            partner_id: owner_of(session, &booking_id)?,
            booking_id,
            asked,
            seed: entropy::bytes(),
            event: event_seed(&session.service, at),
            evidence_url: packet_url(session, &booking_id),
        };
        Ok(write(at, accept))
    }
}

impl AcceptanceRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewAcceptance",
        about: "An acceptance of a booking's terms.",
        example: r#"{
            "party": "organizer",
            "method": "checkbox",
            "at": "2026-11-21T17:29:52Z",
            "ip": "203.0.113.7",
            "userAgent": "Mozilla/5.0",
            "disclosureHash": "sha256:cd2245de3114b201f7a6755b176abfb175a9a51f4b6fe8e0e2e4890965869ad1"
        }"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of an acceptance, reporting every fault.
    /// Its faults are those of [`input`], `invalid_address` and `bad_digest`.
    pub fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let party = form
            .about("Who accepts.")
            .required("party", |v| v.choice(sides()));
        let method = form
            .about("How, in your own words, such as \"checkbox\" or \"e-signature\".")
            .required("method", |v| v.text(limits::METHOD_CHARS));
        let at = form
            .about("When the party accepted: at most 5 minutes ahead, and not before the text existed.")
            .required("at", input::instant);
        let ip = form
            .about("The network address it came from (IPv4 or IPv6).")
            .optional("ip", address);
        let user_agent = form
            .about("The program used.")
            .optional("userAgent", |v| v.text(limits::USER_AGENT_CHARS));
        let disclosure_hash = form
            .about("The `disclosureHash` of the text that was shown.")
            .required("disclosureHash", digest);
        Some(Self {
            party: party?,
            method: method?,
            at: at?,
            ip,
            user_agent,
            disclosure_hash: disclosure_hash?,
        })
    }
}

/// Reads an IPv4 or IPv6 address, in its canonical spelling.
fn address(v: &mut Value<'_, '_>) -> Option<String> {
    let formats = |draft: &mut Draft| {
        let formats = ["ipv4", "ipv6"].map(|format| json!({"format": format}));
        draft.set("anyOf", Json::array(formats));
    };
    let text = v.describe(formats).string()?;
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_string()),
        Err(_) => v.fault(
            "invalid_address",
            format!(
                "\"{}\" is not a valid network address",
                input::shorten(&text)
            ),
            "Send IPv4 or IPv6 without port or brackets, such as 203.0.113.7 or 2001:db8::7.",
        ),
    }
}

/// A booking's state and all the terms it has had.
pub(super) struct TermsHistory {
    pub state: BookingState,
    /// The frozen terms before each change of date, then the ones in force.
    pub versions: Vec<TermsVersion>,
    /// The same terms in full.
    terms: Vec<Terms>,
}

impl TermsHistory {
    /// Reads the history from a booking and its facts, oldest first.
    ///
    /// # Errors
    /// `internal` for facts that do not form a booking, or terms that cannot be read.
    pub fn of(
        booking: &LoadedBooking,
        facts: impl IntoIterator<Item = Logged<Fact>>,
    ) -> Result<Self, Error> {
        let state = BookingState::fold(facts, booking.booking.policy.clone());
        let state = state.map_err(Error::internal)?;
        let current = || FrozenTerms::of(&booking.terms);
        let versions = state.terms_versions(booking.first_terms.clone().unwrap_or_else(current));
        let policy = booking.terms.policy.as_ref().map(|policy| &policy.document);
        let terms = versions
            .iter()
            .map(|version| version.thaw(&booking.booking, policy.cloned()))
            .collect::<Result<_, _>>();
        Ok(Self {
            state,
            versions,
            terms: terms.map_err(Error::internal)?,
        })
    }

    /// The texts of the terms, in the same order: those that were accepted, and the latest wording of terms that nobody accepted.
    ///
    /// # Errors
    /// `internal` for terms that cannot be worded, or were accepted in a wording that this program does not know.
    pub fn in_words(&self) -> Result<Vec<TermsDisclosure>, Error> {
        let texts = self.state.texts().into_iter();
        let told = texts.map(|(moves, version)| {
            let wording = match version {
                None => DisclosureWording::LATEST,
                Some(version) => DisclosureWording::of(version).ok_or_else(|| {
                    Error::internal(format!("no wording of terms is called {version}"))
                })?,
            };
            disclose_in(wording, &self.terms[moves], &self.state.moves[..moves])
        });
        told.collect()
    }

    /// The terms in words and figures, with their acceptances.
    fn disclosed(&self) -> Result<Vec<DisclosedTerms>, Error> {
        let mut disclosed = Vec::with_capacity(self.terms.len());
        for (moves, terms) in self.terms.iter().enumerate() {
            let accepted: Vec<&Acceptance> = accepted_after(&self.state, moves).collect();
            let former = &self.state.moves[..moves];
            let words = disclose_in(wording(accepted.first().copied()), terms, former)?;
            disclosed.push(DisclosedTerms {
                disclosure_hash: words.disclosure_hash,
                version: words.version,
                text: words.text,
                since: self.versions[moves].since,
                until: self.versions.get(moves + 1).map(|next| next.since),
                event_date: terms.anchor,
                given_event_date: Some(terms.event_date.to_string()),
                time_zone: Some(terms.time_zone.to_string()),
                schedule: effective_schedule(terms, former)?,
                acceptances: accepted.into_iter().cloned().collect(),
            });
        }
        Ok(disclosed)
    }
}

/// The acceptances of the terms that were in force after this many of the moves that the state knows.
fn accepted_after(state: &BookingState, moves: usize) -> impl Iterator<Item = &Acceptance> {
    let accepted = state.acceptances.iter();
    let accepted = accepted.filter(move |logged| state.moves_before(&logged.place) == moves);
    accepted.map(|logged| &logged.fact)
}

/// The wording in which terms are shown: the one in which they were accepted first, so that all sides accept the same text; the latest
/// if nobody has accepted them.
fn wording(first: Option<&Acceptance>) -> DisclosureWording {
    let accepted = first.and_then(|first| DisclosureWording::of(&first.disclosure_version));
    accepted.unwrap_or(DisclosureWording::LATEST)
}

/// Reads the facts of stored entries.
///
/// # Errors
/// `internal` for a fact that cannot be read.
pub(super) fn facts(entries: &[&StoredEntry]) -> Result<Vec<Logged<Fact>>, Error> {
    let read = |entry: &&StoredEntry| {
        entry
            .fact()
            .map_err(|why| Error::internal(format!("entry {} cannot be read: {why}", entry.index)))
    };
    entries.iter().map(read).collect()
}

/// Answer to an acceptance of a booking's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
pub struct Accepted {
    /// The acceptance as the ledger records it.
    #[serde(flatten)]
    pub acceptance: Acceptance,
    /// Where the record is in the ledger.
    pub receipt: Receipt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_address_is_kept_in_its_one_spelling() {
        let body = AcceptanceRequest::BODY
            .example
            .replace("203.0.113.7", "2001:DB8:0::7");
        let read = input::read(body.as_bytes(), AcceptanceRequest::form).unwrap();
        assert_eq!(read.ip.as_deref(), Some("2001:db8::7"));
    }
}
