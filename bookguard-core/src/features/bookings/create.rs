//! A booking is recorded: what may be said of it, and all that its batch does not decide.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event_seed;
use crate::engine::command::NewBooking;
use crate::entropy;
use crate::error::{Error, FieldError, Kind};
use crate::evidence::facts::{CreationFact, Fact};
use crate::evidence::frozen;
use crate::input::{self, Declaration, Form, Value};
use crate::limits;
use crate::model::id::{Noun as _, id_pattern, noun};
use crate::model::{
    Amount, AmountError, Booking, BookingId, BookingStatus, Currency, PartnerId, Party, Scope,
    Timestamp,
};
use crate::operation::{Action, Body, Operation, Request, Route, write};
use crate::policy::{
    Booked, EVENT_DATE_PATTERN, EventDate, MissingZone, POLICY_ID_PATTERN, POLICY_SCHEMA, Policy,
    PolicySet, PolicySource, Terms, Zone, read_time_zone,
};
use crate::session::{Access, Authority, Session};
use crate::store::{projection, terms};
use crate::webhook;

/// `POST /v1/bookings`
#[derive(Debug)]
pub struct CreateBooking(pub(crate) Arc<NewBooking>);

/// Body of [`CreateBooking`], read and checked field by field.
#[derive(Debug, Clone)]
pub struct BookingRequest {
    partner_id: Option<String>,
    talent: Party,
    organizer: Party,
    event_type: String,
    event_date: EventDate,
    time_zone: Option<String>,
    value: Amount,
    paid: Option<Amount>,
    policy: Option<(Policy, PolicySource)>,
    metadata: BTreeMap<String, String>,
}

impl Operation for CreateBooking {
    const ROUTE: Route = Route {
        id: "createBooking",
        path: "/v1/bookings",
        access: Access::Scope(Scope::BookingsWrite),
        status: 201,
        body: Body::Required(&BookingRequest::BODY),
        refusals: &[409],
        tag: "Bookings",
        summary: "Record a booking",
        description: "Freezes the cancellation policy, writes `booking.created` to the ledger and sends it to the webhook endpoints, all \
                      in one transaction. Send an Idempotency-Key to repeat safely. A booking beyond the partner's quota is \
                      refused with `quota_exceeded`.",
        ..Route::POST
    };
    type Output = BookingCreated;

    fn prepare(session: &Session, request: &Request) -> Result<Action<BookingCreated>, Error> {
        let policy_set = match named_partner(session, &request.body) {
            Some(partner_id) if request.from_memory => {
                let remembered = session.service.remembered_policy_set(&partner_id);
                Some(remembered.ok_or_else(Error::outdated)?)
            }
            Some(partner_id) => Some(session.service.policy_set(partner_id)?),
            None => None,
        };
        let new = new_booking(
            session,
            &request.body,
            &policy_set.clone().unwrap_or_default(),
        );
        let mut new = match new {
            // The cached policy set may lack a policy written by another node.
            Err(_) if request.from_memory => return Err(Error::outdated()),
            new => new?,
        };
        new.policy_set = policy_set.filter(|_| request.from_memory);
        Ok(write(new.booking.created_at, Self(Arc::new(new))))
    }

    fn location(created: &BookingCreated) -> Option<String> {
        Some(format!("/v1/bookings/{}", created.booking_id))
    }
}

/// The partner whose policies the booking may name: the caller, or the partner in the administrator's body.
fn named_partner(session: &Session, body: &[u8]) -> Option<PartnerId> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        partner_id: PartnerId,
    }
    session.partner_id().ok().or_else(|| {
        // Faults of the body are reported when it is read.
        let named: Named = serde_json::from_slice(body).ok()?;
        Some(named.partner_id)
    })
}

/// The partner a booking is for: the key's. The body may repeat it but not change it.
fn owner(session: &Session, said: Option<&str>) -> Result<PartnerId, Error> {
    let said_id = said
        .map(|text| PartnerId::parse(text).ok_or(()))
        .transpose();
    let acting = match (&session.authority, said_id) {
        (
            Authority::Administrator {
                partner_id: None, ..
            },
            Ok(Some(partner_id)),
        ) => partner_id,
        _ => session.partner_id()?,
    };
    match said_id {
        Ok(None) => Ok(acting),
        Ok(Some(partner_id)) if partner_id == acting => Ok(acting),
        _ => Err(Error {
            details: vec![FieldError::new(
                "/partnerId",
                "partner_mismatch",
                "is not the partner that the request is for",
                format!("Leave it out, or send \"{acting}\"."),
            )],
            ..Error::new(
                Kind::Forbidden,
                "partner_mismatch",
                "partnerId is not the partner that the request is for.",
            )
        }),
    }
}

impl BookingRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "NewBooking",
        about: "A booking to record.",
        example: r#"{
            "talent": {"id": "talent-7", "name": "The Night Owls"},
            "organizer": {"id": "org-19", "name": "Riverside Hall"},
            "eventType": "concert",
            "eventDate": "2027-06-20T19:00:00-04:00",
            "timeZone": "America/New_York",
            "bookingValue": 1200.5,
            "amountPaid": 600,
            "currency": "USD",
            "metadata": {"reference": "SH-2027-0619"}
        }"#,
        reader: |v| {
            v.object(|form| Self::form(form, &PolicySet::default()))
                .map(drop)
        },
    };

    /// Reads the body of a booking's creation, reporting every fault. `policy_set` holds the policies it may name.
    ///
    /// # Errors
    /// Those of [`input`], of [`Currency::parse`] and [`Amount::parse`], and of a policy; `time_zone_unknown`,
    /// `policy_unknown`, `policy_ambiguous`.
    pub fn read(body: &[u8], policy_set: &PolicySet) -> Result<Self, Error> {
        input::read(body, |form| Self::form(form, policy_set))
    }

    fn form(form: &mut Form<'_, '_>, policy_set: &PolicySet) -> Option<Self> {
        let partner_id = form
            .about("Must be the partner the key belongs to; may be left out.")
            .optional("partnerId", partner_id);
        let talent = form
            .about("Who performs, or what is booked.")
            .required_object("talent", party);
        let organizer = form.about("Who books.").required_object("organizer", party);
        let event_type = form
            .about("Free text, such as \"concert\".")
            .required("eventType", |v| v.text(limits::NAME_CHARS));
        let event_date = form
            .about(
                "When the event starts: RFC 3339 with an offset, or a local date-time or date together with `timeZone`. A fraction \
                 of a second is dropped. It may lie in the past; recorded after the policy's `claimWindow`, the booking can be \
                 neither canceled nor moved.",
            )
            .required("eventDate", event_date);
        let currency = form
            .about("ISO 4217 code; USD when not given.")
            .optional("currency", currency);
        let currency = match form.has("currency") {
            true => currency,
            false => Some(Currency::USD),
        };
        let value = form
            .about("Total value: not negative, at most the currency's decimals, at most 15 significant digits.")
            .required("bookingValue", |v| amount(v, currency));
        let paid = form
            .about("What has been paid so far; the whole value when not given.")
            .optional("amountPaid", |v| amount(v, currency));
        let time_zone = form
            .about("The event's IANA time zone, such as \"America/New_York\".")
            .optional("timeZone", read_time_zone);
        let inline = form
            .about("A cancellation policy for this booking; excludes `policyId`.")
            .optional("policy", |v| {
                v.known_as(POLICY_SCHEMA)?.object(Policy::read)
            });
        let named = form
            .about("A policy of your own, in its latest version, or of the library, such as \"moderate\"; excludes `policy`.")
            .optional("policyId", |v| named_policy(v, policy_set));
        let metadata = form
            .about("Your own key-value pairs.")
            .optional("metadata", |v| {
                v.text_map(
                    limits::METADATA_PAIRS,
                    limits::METADATA_KEY_CHARS,
                    limits::METADATA_VALUE_CHARS,
                )
            });
        form.not_both("policy", "policyId", "policy_ambiguous");
        let policy = inline
            .map(|policy| (policy, PolicySource::Booking))
            .or(named.map(|policy| (policy, PolicySource::Named)));
        Some(Self {
            partner_id,
            talent: talent?,
            organizer: organizer?,
            event_type: event_type?,
            event_date: event_date?,
            time_zone: time_zone.map(|zone| zone.to_string()),
            value: value?,
            paid,
            policy,
            metadata: metadata.unwrap_or_default().into_iter().collect(),
        })
    }
}

fn partner_id(v: &mut Value<'_, '_>) -> Option<String> {
    v.describe(|draft| draft.set("pattern", id_pattern(noun::Partner::PREFIX)))
        .text(limits::PARTY_ID_CHARS)
}

fn party(form: &mut Form<'_, '_>) -> Option<Party> {
    form.named("Party");
    let id = form.required("id", |v| v.text(limits::PARTY_ID_CHARS));
    let name = form.required("name", |v| v.text(limits::NAME_CHARS));
    Some(Party {
        id: id?,
        name: name?,
    })
}

pub(crate) fn event_date(v: &mut Value<'_, '_>) -> Option<EventDate> {
    let text = v.pattern(EVENT_DATE_PATTERN).string()?;
    match EventDate::parse(&text) {
        None => v.fault(
            "invalid_date",
            format!("\"{}\" {}", input::shorten(&text), EventDate::fault(&text)),
            "Send RFC 3339 with an offset (2031-06-20T19:00:00-04:00), or a local date-time or date together with \"timeZone\".",
        ),
        Some(date) if !date.is_in_range() => v.fault(
            "invalid_date",
            format!("\"{text}\" may be outside the years 0001 to 9999 in UTC"),
            "Send a date from 0001-01-02 to 9999-12-30, or a date-time with its offset.",
        ),
        date => date,
    }
}

/// Reads the code of a currency.
pub(crate) fn currency(v: &mut Value<'_, '_>) -> Option<Currency> {
    let text = v.known_as("Currency")?.string()?;
    Currency::parse(&text)
        .map_err(|e| {
            let fix = match Currency::parse(&text.to_ascii_uppercase()) {
                Ok(meant) => format!("Did you mean \"{meant}\"?"),
                Err(_) => "Send a code such as \"USD\" or \"EUR\".".to_owned(),
            };
            let rule = e.rule();
            v.fault::<()>(
                e.code(),
                format!("\"{}\" {rule}", input::shorten(&text)),
                fix,
            )
        })
        .ok()
}

/// Reads the digits of an amount of money.
pub(crate) fn decimal<'a>(v: &mut Value<'a, '_>) -> Option<&'a str> {
    v.example(1200.5)
        .describe(|draft| {
            draft.set("minimum", 0);
            draft.set("maximum", limits::AMOUNT_MINOR_UNITS);
        })
        .number()
}

/// Reads an amount. If its currency is not known, the currency's own fault stands for all but the sign.
fn amount(v: &mut Value<'_, '_>, currency: Option<Currency>) -> Option<Amount> {
    let digits = decimal(v)?;
    let why = match Amount::parse(digits, currency.unwrap_or(Currency::USD)) {
        Ok(amount) => return currency.map(|_| amount),
        Err(why) => why,
    };
    let fix = match currency {
        Some(currency) => why.fix(currency),
        None if why == AmountError::Negative => "Send a number from 0.".to_owned(),
        None => return None,
    };
    let message = format!("{} {}", input::shorten(digits), why.rule());
    v.fault(why.code(), message, fix)
}

fn named_policy(v: &mut Value<'_, '_>, policy_set: &PolicySet) -> Option<Policy> {
    let text = v.pattern(POLICY_ID_PATTERN).string()?;
    if let Some(policy) = policy_set.named(&text) {
        return Some(policy.clone());
    }
    v.fault(
        "policy_unknown",
        format!("there is no policy \"{}\"", input::shorten(&text)),
        policy_set.fix_for(&text),
    )
}

/// Prepares everything about a new booking that does not depend on its batch.
fn new_booking(
    session: &Session,
    body: &[u8],
    policy_set: &PolicySet,
) -> Result<NewBooking, Error> {
    let wanted = BookingRequest::read(body, policy_set)?;
    let partner_id = owner(session, wanted.partner_id.as_deref())?;
    let at = session.service.clock().now();
    let config = session.service.config();
    let policy = match wanted.policy {
        Some(chosen) => Some(chosen),
        None => policy_set.default_for(&wanted.event_type, config.library_policies)?,
    };
    let booked = Booked {
        event_date: wanted.event_date,
        time_zone: wanted.time_zone.as_deref(),
        partner_time_zone: policy_set.settings.time_zone.as_deref(),
        value: wanted.value,
        paid: wanted.paid,
        created_at: at,
    };
    let terms = Terms::freeze(policy, &booked, MissingZone::Refuse)
        .map_err(|refusal| field_of(refusal, &booked))?;
    let booking_id = BookingId::new(at, entropy::bytes());
    let booking = Booking {
        booking_id,
        partner_id,
        talent: wanted.talent,
        organizer: wanted.organizer,
        event_type: wanted.event_type,
        event_date: terms.anchor,
        time_zone: wanted.time_zone,
        booking_value: wanted.value.json_number(),
        amount_paid: wanted.paid.map(Amount::json_number),
        currency: wanted.value.currency(),
        status: BookingStatus::Created,
        protected: false,
        protected_at: None,
        rescheduled_at: None,
        canceled_at: None,
        resolution_id: None,
        policy: terms.policy.as_ref().map(frozen::policy_summary),
        metadata: wanted.metadata,
        created_at: at,
    };
    let terms_body = terms::write(&terms);
    let terms_hash = frozen::hash_of(&terms_body, terms.policy_hash());
    let fact = Fact::from(CreationFact::of(&booking, terms_hash)).seal(entropy::bytes())?;
    let event = event_seed(&session.service, at);
    Ok(NewBooking {
        body: projection::snapshot(&booking),
        terms_body,
        stream: entropy::bytes(),
        fact: Arc::new(fact),
        event,
        event_head: webhook::body::created(event.event_id, &booking),
        booking,
        terms,
        policy_set: None,
    })
}

/// Attaches the refusal of terms to the field that caused it.
fn field_of(refusal: Error, booked: &Booked<'_>) -> Error {
    match &*refusal.code {
        "policy_currency_mismatch" => refusal.at_field(
            "/currency",
            "Use a policy in the booking's currency, or one with percentages only.",
        ),
        "currency_mismatch" => refusal.at_field("/amountPaid", "Use one currency for both."),
        _ => about_the_date(refusal, booked.time_zone.or(booked.partner_time_zone)),
    }
}

/// Attaches the refusal of an event's date to the field of its time zone, for which this name was taken.
pub(crate) fn about_the_date(refusal: Error, time_zone: Option<&str>) -> Error {
    let fix = match &*refusal.code {
        "time_zone_unknown" => Zone::fix(time_zone.unwrap_or_default()),
        "time_zone_required" => {
            "Send an IANA name such as \"America/New_York\", or add an offset to \"eventDate\", such as -04:00.".to_owned()
        }
        _ => return refusal,
    };
    refusal.at_field("/timeZone", &fix)
}

/// A booking just recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct BookingCreated {
    /// The booking's id.
    pub booking_id: BookingId,
    /// The partner that owns it.
    pub partner_id: PartnerId,
    /// The booking's status.
    pub status: BookingStatus,
    /// When it was recorded.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_currency_in_small_letters_is_suggested_in_capitals() {
        for (sent, expected) in [
            ("usd", "Did you mean \"USD\"?"),
            ("xx", "Send a code such as \"USD\" or \"EUR\"."),
            ("xau", "Send a code such as \"USD\" or \"EUR\"."),
        ] {
            let body = format!(r#"{{"currency":"{sent}"}}"#);
            let refused = input::read(body.as_bytes(), |form| form.required("currency", currency));
            assert_eq!(refused.unwrap_err().details[0].fix, expected, "{sent}");
        }
    }
}
