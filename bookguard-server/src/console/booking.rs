//! A booking: what was recorded about it, what a cancellation would mean, and everything that can be done with it.

pub(super) mod cancel;
pub(super) mod decide;
pub(super) mod erase;
pub(super) mod hold;
pub(super) mod reschedule;
pub(super) mod share;

use std::sync::Arc;

use bookguard_core::error::{Error, Kind};
use bookguard_core::evidence::{Hold, Packet, Share};
use bookguard_core::features::bookings::{GetBooking, ProtectBooking};
use bookguard_core::features::cancellations::GetResolution;
use bookguard_core::features::evaluations::{EvaluatePolicy, PolicyEvaluation};
use bookguard_core::features::events::ListBookingEvents;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::items::files::GetItemFile;
use bookguard_core::features::items::{ItemWithFile, ListEvidenceItems};
use bookguard_core::model::{
    Amount, Booking, BookingId, BookingStatus, Event, Page as Rows, Scope, Timestamp,
};
use bookguard_core::policy::{Actor, Evaluation, EvaluationStatus, Resolution};
use maud::{Markup, html};
use poem::Response;
use poem::http::header::{CACHE_CONTROL, HeaderValue};

use super::parts::{
    Tone, alert, booking_badge, copyable, delivery_badge, event_time, fact, grouped, notice, once,
    price, records, time, with_amounts, words, zone_of,
};
use super::schedule::{OPEN, compensation, on_top, schedule, sum, sum_of};
use super::{Answer, Asked, Field, Page, Part, User};
use crate::api::forms::{Make, PACKET_FORMS, PACKET_WORDS, packet_response};
use crate::readers::ReadClass;

/// The word, beside those of a packet's forms, for the packet and all that belongs to it.
const EVERYTHING: &str = "everything";

/// What is shown of a booking.
struct BookingPage {
    booking: Booking,
    /// If the session may see evidence.
    packet: Option<Packet>,
    evaluation: Option<PolicyEvaluation>,
    resolution: Option<Resolution>,
    events: Vec<Event>,
    items: Vec<ItemWithFile>,
    shares: Option<Rows<Share>>,
    holds: Vec<Hold>,
}

impl BookingPage {
    async fn of(user: &User, asked: &Asked) -> Result<Self, Error> {
        let id = asked.id(0);
        let booking = user.read::<GetBooking>(&[id], &[]).await?;
        let evaluated = user.read::<EvaluatePolicy>(&[id], &[("matrix", "true")]);
        let evaluation = match evaluated.await {
            Ok(evaluation) => Some(evaluation),
            // A matrix has a row for an agreement, which needs no figure; what else cannot be evaluated is not shown.
            Err(error) if matches!(error.kind, Kind::Conflict | Kind::Invalid) => None,
            Err(error) => return Err(error),
        };
        let resolution = match booking.resolution_id {
            Some(id) => Some(user.read::<GetResolution>(&[&id.to_string()], &[]).await?),
            None => None,
        };
        let mut shown = Self {
            booking,
            packet: None,
            evaluation,
            resolution,
            events: Vec::new(),
            items: Vec::new(),
            shares: None,
            holds: Vec::new(),
        };
        if user.may(Scope::WebhooksRead) {
            let events = user.read::<ListBookingEvents>(&[id], &[]).await?;
            shown.events = events.webhook_events;
        }
        if user.may(Scope::EvidenceRead) {
            shown.packet = Some(packet(user, id).await?);
            let items = user.read::<ListEvidenceItems>(&[id], &[]).await?;
            shown.items = items.items;
            shown.shares = Some(share::of(user, asked).await?);
            shown.holds = hold::of(user, id).await?;
        }
        Ok(shown)
    }
}

async fn packet(user: &User, id: &str) -> Result<Packet, Error> {
    let packet = user.read::<GetEvidence>(&[id], &[]).await?;
    let packet = serde_json::from_str(packet.text());
    packet.map_err(|e| Error::internal(format!("our own packet cannot be read: {e}")))
}

/// The page of a booking, with the refusal of what was just tried.
pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let (id, now) = (asked.id(0), asked.now);
    let shown = BookingPage::of(user, asked).await?;
    let booking = &shown.booking;
    let title = title(booking);
    let main = html! {
        p.back { a href=(user.link("/bookings")) { "← All bookings" } }
        div.title { h1 { (title) } (booking_badge(booking.status)) }
        (alert(asked))
        @if let Some(packet) = &shown.packet { p.lead { (packet.summary.headline) } }
        (actions(user, booking, shown.resolution.as_ref()))
        (facts(user, booking))
        @if let Some(resolution) = &shown.resolution { (resolved(resolution)) }
        @if let (None, Some(evaluation)) = (&shown.resolution, &shown.evaluation) { (meaning(booking, evaluation, now)) }
        @if let Some(packet) = &shown.packet { (timeline(packet)) }
        @if !shown.events.is_empty() { (deliveries(user, &shown.events)) }
        @if user.may(Scope::EvidenceRead) {
            (evidence_card(user, asked, &shown))
            (hold::card(user, id, &shown.holds))
        }
    };
    Ok(Page::new(Part::Bookings, title, main).form(asked))
}

/// The head of a page on which something is done with a booking: the way back, and what is done.
fn head(user: &User, booking: &Booking, what: &str) -> Markup {
    html! {
        p.back { a href=(user.link(&format!("/bookings/{}", booking.booking_id))) { "← Back to the booking" } }
        div.title { h1 { (what) (title(booking)) } }
    }
}

/// The answer to somebody who would do what can no longer be done: the booking, which says why. What was typed is not lost: it
/// stands on a page with the refusal.
fn over(asked: &Asked, why: &str, title: &str, head: &Markup, fields: &[Field<'_>]) -> Answer {
    let draft = asked.draft();
    let refused = draft.refused.filter(|refused| refused.details.is_empty());
    if refused.is_none() && !draft.is_filled_in(fields) {
        return Answer::Go(format!("/bookings/{}", asked.id(0)), None);
    }
    let main = html! {
        (head)
        @match (draft.kept_key(), refused) {
            // It may be over because this form was received.
            (Some(_), _) => (notice(Tone::Warn, &format!("{why} The page of the booking shows whether what you typed was recorded."))),
            (None, Some(_)) => (draft.alert(&[])),
            (None, None) => (notice(Tone::Warn, &format!("{why} What you typed was not recorded."))),
        }
        @if draft.is_filled_in(fields) {
            section.card.narrow aria-labelledby="typed" {
                h2 #typed { "What you typed" }
                (draft.facts(fields))
            }
        }
    };
    Page::new(Part::Bookings, title, main).form(asked)
}

/// Why a canceled booking can be neither canceled nor moved.
const CANCELED: &str = "The booking is already canceled.";

/// Back to the booking, with what was done.
fn done(asked: &Asked, told: impl Into<String>) -> Answer {
    Answer::done(format!("/bookings/{}", asked.id(0)), told)
}

pub(super) fn title(booking: &Booking) -> String {
    format!(
        "{}: {} for {}",
        words(&booking.event_type),
        booking.talent.name,
        booking.organizer.name
    )
}

fn actions(user: &User, booking: &Booking, resolution: Option<&Resolution>) -> Markup {
    let link = |rest: &str| user.link(&format!("/bookings/{}{rest}", booking.booking_id));
    let may_write = user.may(Scope::BookingsWrite);
    let is_open = booking.status != BookingStatus::Canceled;
    let to_decide = resolution.is_some_and(waits);
    html! {
        div.actions {
            @if may_write && booking.status == BookingStatus::Created {
                a.button.first href=(link("/protect")) { "Protect" }
            }
            @if may_write && is_open {
                a.button href=(link("/reschedule")) { "Reschedule" }
                a.button.danger href=(link("/cancel")) { "Cancel the booking" }
            }
            @if may_write && to_decide { a.button.first href=(link("/decide")) { "Decide" } }
            // Whoever sees the evidence finds these beside it.
            @if !user.may(Scope::EvidenceRead) {
                @if user.may(Scope::EvidenceShare) { a.button href=(link("/share")) { "Share by a link" } }
                @if user.may(Scope::EvidenceErase) { (hold::buttons(&link)) }
            }
        }
    }
}

/// Whether a person must still decide.
fn waits(resolution: &Resolution) -> bool {
    resolution.superseded_by.is_none() && resolution.evaluation.refund.is_none()
}

fn facts(user: &User, booking: &Booking) -> Markup {
    html! {
        section.card aria-label="The booking" {
            dl {
                (fact("Event", event_time(booking)))
                (fact("Talent", html! { (booking.talent.name) " " small.soft { (booking.talent.id) } }))
                (fact("Organizer", html! { (booking.organizer.name) " " small.soft { (booking.organizer.id) } }))
                (fact("Value", price(&booking.booking_value, booking.currency)))
                @if let Some(paid) = &booking.amount_paid { (fact("Paid", price(paid, booking.currency))) }
                @if let Some(policy) = &booking.policy { (fact("Policy", format!("{} version {}", policy.policy_id, policy.version))) }
                (fact("Recorded", time(booking.created_at)))
                @if let Some(at) = booking.protected_at { (fact("Protected", time(at))) }
                @if let Some(at) = booking.rescheduled_at { (fact("Rescheduled", time(at))) }
                @if let Some(at) = booking.canceled_at { (fact("Canceled", time(at))) }
                (fact("Id", copyable(&booking.booking_id.to_string())))
            }
            @if !booking.metadata.is_empty() {
                h2 { (user.told("Your own references", "The partner's own references")) }
                dl { @for (name, value) in &booking.metadata { (fact(name, value)) } }
            }
        }
    }
}

fn resolved(resolution: &Resolution) -> Markup {
    let evaluation = &resolution.evaluation;
    html! {
        section.card aria-labelledby="resolution" {
            h2 #resolution { "How it was canceled" }
            p { (with_amounts(&evaluation.explanation.text)) }
            dl {
                (fact("Canceled by", words(resolution.canceled_by.word())))
                @if let Some(reason) = resolution.reason { (fact("Why", words(reason.word()))) }
                (fact("Took effect", time(resolution.effective_at.unwrap_or(resolution.canceled_at))))
                (fact("Goes back", sum(evaluation.refund)))
                (fact("Is kept, or owed", sum(evaluation.penalty)))
                @if let Some(sum) = compensation(evaluation.compensation) { (fact("Compensation", sum)) }
                @if let Some(decision) = &resolution.decision {
                    (fact("Decided by", &decision.decided_by))
                    (fact("Reason given", &decision.rationale))
                }
                (fact("Resolution", copyable(&resolution.resolution_id.to_string())))
            }
        }
    }
}

/// The way that is left once the time for claims has passed.
const CLOSED: &str = "Only a cancellation that took effect by then can still be recorded, with the time at which it did.";

/// What a cancellation would mean now and later.
fn meaning(booking: &Booking, evaluation: &PolicyEvaluation, now: Timestamp) -> Markup {
    let Evaluation {
        evaluation_status,
        explanation,
        schedule: segments,
        compensation,
        ..
    } = &evaluation.evaluation;
    let is_closed = *evaluation_status == EvaluationStatus::Closed;
    let value = booking.value().map_or(0, Amount::minor);
    let matrix = evaluation.matrix.as_deref().unwrap_or_default();
    let rows = matrix.iter().map(|row| {
        let open = match row.canceled_by {
            Actor::Mutual => "as agreed",
            _ => OPEN,
        };
        let sum = |amount| sum_of(amount, row.evaluation_status, open);
        html! {
            td { (words(row.canceled_by.word())) }
            td.amount data-head="goes back:" {
                (sum(row.refund))
                (on_top(row.compensation))
            }
            td.amount data-head="is kept, or owed:" { (sum(row.penalty)) }
            td { (words(row.resolution_path.word())) }
        }
    });
    html! {
        section.card aria-labelledby="meaning" {
            h2 #meaning { "What a cancellation would mean" }
            p { (with_amounts(&explanation.text)) @if is_closed { " " (CLOSED) } }
            @if !segments.is_empty() {
                h3 { "If the organizer cancels" }
                (schedule(segments, value, zone_of(booking.time_zone.as_deref()), now, *compensation))
            }
            @if !matrix.is_empty() {
                h3 { "If it were canceled now" }
                (records("What a cancellation would mean now", &["Canceled by", "#Goes back", "#Is kept, or owed", "What happens"], rows))
            }
        }
    }
}

fn timeline(packet: &Packet) -> Markup {
    // The last moment is that at which the packet was made, to be shown here.
    let happened = packet.summary.timeline.split_last();
    let happened = happened.map_or(&[][..], |(_, before)| before);
    html! {
        section.card aria-labelledby="timeline" {
            h2 #timeline { "What happened" }
            ol.timeline {
                @for moment in happened {
                    li.proven[moment.entry.is_some()] {
                        time datetime=(moment.at.to_string()) { (moment.when) }
                        div { (moment.text) }
                        @if let Some(entry) = moment.entry { small { "Entry " (entry) " of the ledger, proven" } }
                    }
                }
            }
        }
    }
}

fn deliveries(user: &User, events: &[Event]) -> Markup {
    let rows = events.iter().rev().map(|event| html! {
        td { a href=(user.link(&format!("/deliveries/{}", event.event_id))) { (event.event_type.word()) } }
        td { (time(event.timestamp)) }
        td { (delivery_badge(event.status)) }
    });
    html! {
        section.card aria-labelledby="events" {
            h2 #events { "Events and their delivery" }
            (records("Events of this booking", &["Event", "Happened", "Delivery"], rows))
        }
    }
}

fn evidence_card(user: &User, asked: &Asked, shown: &BookingPage) -> Markup {
    let id = shown.booking.booking_id;
    let link = |rest: &str| user.link(&format!("/bookings/{id}{rest}"));
    let items = shown.items.iter().map(|item| item_line(item, &link));
    html! {
        section.card aria-labelledby="evidence" {
            h2 #evidence { "Evidence" }
            p { "Everything above, signed, in a form that anybody can check without this service." }
            div.actions {
                a.button href=(link("/evidence/page")) { "Page" }
                a.button href=(link("/evidence/bank")) { "PDF for a bank" }
                a.button href=(link("/evidence/archive")) { "PDF for the archive" }
                a.button href=(link("/evidence/packet")) { "Packet (JSON)" }
                a.button href=(link(&format!("/evidence/{EVERYTHING}"))) { "Everything (.zip)" }
                @if user.may(Scope::EvidenceShare) { a.button.first href=(link("/share")) { "Share by a link" } }
            }
            p.soft {
                "Items, such as a contract or a message, and their files are added with "
                @if let Some(docs) = user.docs() { a href=(docs) { "the interface" } } @else { "the interface" }
                ", or with " code { "bookguard evidence items add" } "."
            }
            @if !shown.items.is_empty() { (records("Items of the evidence", &["Item", "Kind", "Added", "File"], items)) }
            @if let Some(shares) = &shown.shares { (share::list(user, asked, shares)) }
        }
    }
}

/// An item of the evidence, and its file, which is saved and never shown.
fn item_line(item: &ItemWithFile, link: &impl Fn(&str) -> String) -> Markup {
    let ItemWithFile { item, file } = item;
    let address = link(&format!("/evidence/items/{}/file", item.item_id));
    html! {
        td { (item.title) @if let Some(note) = &item.note { small { (note) } } }
        td { (words(item.kind.word())) @if let Some(party) = item.party { small { "from: " (party.word()) } } }
        td { (time(item.added_at)) }
        td {
            @if let Some(file) = file {
                a href=(address) aria-label={ "Download: " (item.title) } { "Download" }
                small { (file.media_type) ", " (grouped(&file.bytes.to_string())) " bytes" }
            } @else if item.sha256.is_some() { span.soft { "not stored here" } }
            @else { span.soft { "none" } }
        }
    }
}

pub(super) async fn confirm(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    if booking.status != BookingStatus::Created {
        return Ok(Answer::Go(format!("/bookings/{id}"), None));
    }
    let main = html! {
        (head(user, &booking, "Protect: "))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/protect"))) {
            p { "This locks the terms into the ledger: who, when, for how much, and what a cancellation costs." }
            p { strong { "This cannot be undone." } " Later changes are recorded beside it." }
            (once())
            button.first { "Protect the booking" }
        }
    };
    Ok(Page::new(Part::Bookings, "Protect a booking", main).ok())
}

pub(super) async fn protect(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let entry = user.send::<ProtectBooking>(asked).await?.receipt.leaf_index;
    let told = format!("The booking is protected: entry {entry} of the ledger.");
    Ok(done(asked, told))
}

/// A form of the booking's packet, as a file.
pub(super) async fn evidence(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let packet = user.read::<GetEvidence>(&[id], &[]).await?;
    let packet = packet.text().as_bytes().to_vec();
    if asked.id(1) == EVERYTHING {
        let booking_id = BookingId::parse(id).ok_or_else(|| Error::not_found("booking"))?;
        let mut response = Response::default();
        let download = user.download();
        download.archive(booking_id, packet, &mut response).await?;
        return Ok(kept_by_nobody(response));
    }
    let place = PACKET_WORDS.iter().find(|(word, _)| *word == asked.id(1));
    let (_, place) = place.ok_or_else(|| Error::not_found("form of the evidence"))?;
    let form = place.map(|place| &PACKET_FORMS[place]);
    let made = match form.map(|form| form.make) {
        Some(Make::Json(make)) => {
            let app = Arc::clone(&user.console.app);
            let make = move || make(&packet, &app.maker);
            let app = &user.console.app;
            app.read(&user.cost, ReadClass::Long, make).await?
        }
        _ => packet,
    };
    Ok(kept_by_nobody(packet_response(form, id, made)))
}

/// The file of an item of the evidence.
pub(super) async fn file(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let file = user
        .file::<GetItemFile>(&[asked.id(0), asked.id(1)])
        .await?;
    let mut response = Response::default();
    user.download().file(file, &mut response);
    Ok(kept_by_nobody(response))
}

/// A response that no cache keeps.
fn kept_by_nobody(mut response: Response) -> Answer {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Answer::Response(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::{Fields, Kind};

    #[test]
    fn of_a_form_that_may_have_been_received_nobody_is_told_that_it_was_not() {
        let fields = [("/note", "Typed"), (Fields::ONCE, "0a1b")];
        let fields = fields.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let note = [Field::new("/note", "Note", Kind::Long)];
        for (refused, expected, other) in [
            (
                Some(Error::unavailable("Nobody knows.")),
                "shows whether what you typed was recorded",
                "Nobody knows.",
            ),
            (None, "What you typed was not recorded", "whether"),
        ] {
            let asked = Asked {
                path: vec!["bkg_1".to_owned()],
                fields: Fields::new(fields.to_vec()),
                now: Timestamp::from_ms(0),
                refused,
            };
            let shown = over(&asked, CANCELED, "Cancel a booking", &html! {}, &note);
            let Answer::Page(_, page) = shown else {
                panic!("there is no page");
            };
            let html = page.main.into_string();
            assert!(html.contains(expected) && !html.contains(other), "{html}");
            assert!(html.contains("<dd>Typed</dd>"), "{html}");
        }
    }
}
