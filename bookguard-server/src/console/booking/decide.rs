//! Deciding a cancellation that was left to a person, with the evidence beside it.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{DecideResolution, GetResolution};
use bookguard_core::model::Scope;
use bookguard_core::policy::{Alternative, Evaluation};
use maud::{Markup, html};

use super::{OPEN, done, head, over, packet, resolved, sum, timeline, title, waits};
use crate::console::parts::{money, price};
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

const TITLE: &str = "Decide a cancellation";
const NAMES: [&str; 3] = ["/refund", "/decidedBy", "/rationale"];
/// The field that says which resolution the form is about.
const DECIDED: &str = "resolution";

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let booking = user.read::<GetBooking>(&[asked.id(0)], &[]).await?;
    let newest = booking.resolution_id.map(|id| id.to_string());
    // The decision makes another one the newest, but a form that is sent twice is about the same one.
    let pending = asked.fields.get(DECIDED).map(str::to_owned).or(newest);
    let pending = pending.ok_or_else(|| Error::not_found("resolution"))?;
    let decided = user.send_to::<DecideResolution>(pending, asked).await?;
    let (refund, penalty) = (decided.evaluation.refund, decided.evaluation.penalty);
    let told = format!(
        "Decided: {} goes back, {} is kept.",
        sum(refund),
        sum(penalty)
    );
    Ok(done(asked, told))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let resolution = booking.resolution_id.map(|id| id.to_string());
    let resolution = resolution.ok_or_else(|| Error::not_found("resolution"))?;
    let resolution = user.read::<GetResolution>(&[&resolution], &[]).await?;
    let draft = asked.draft();
    let paid = booking.amount_paid.as_ref();
    let paid = price(paid.unwrap_or(&booking.booking_value), booking.currency);
    let about = format!("{paid} was paid. The rest is kept.");
    let person = user.person().unwrap_or_default();
    let fields = [
        Field::new("/refund", "What goes back", Kind::Number)
            .about(&about)
            .required(),
        Field::new("/decidedBy", "Who decides", Kind::Text)
            .value(person)
            .required(),
        Field::new("/rationale", "Why", Kind::Long)
            .about("It is written to the ledger, and is in every evidence packet.")
            .required(),
    ];
    if !waits(&resolution) {
        let head = head(user, &booking, "Decide: ");
        let why = "The cancellation is settled: nothing is left to decide.";
        return Ok(over(asked, why, TITLE, &head, &fields));
    }
    let packet = match user.may(Scope::EvidenceRead) {
        true => Some(packet(user, id).await?),
        false => None,
    };
    let main = html! {
        p.back { a href=(user.link("/reviews")) { "← All reviews" } }
        div.title { h1 { "Decide: " (title(&booking)) } }
        (draft.alert(&NAMES))
        div.grid.top {
            form.card method="post" action=(user.link(&format!("/bookings/{id}/decide"))) {
                @for field in &fields { (draft.field(field)) }
                p { strong { "A cancellation is decided once." } " The decision cannot be changed." }
                input type="hidden" name=(DECIDED) value=(resolution.resolution_id);
                (draft.once())
                button.first { "Decide" }
            }
            div {
                (resolved(&resolution))
                (depends(&resolution.evaluation))
                @if let Some(packet) = &packet {
                    (timeline(packet))
                    p { a.button href=(user.link(&format!("/bookings/{id}/evidence/page"))) target="_blank" rel="noopener" { "Open the evidence" } }
                }
                p { a href=(user.link(&format!("/bookings/{id}"))) { "The whole booking" } }
            }
        }
    };
    Ok(Page::new(Part::Reviews, TITLE, main).form(asked))
}

/// What the decision depends on.
fn depends(evaluation: &Evaluation) -> Markup {
    let alternatives = &evaluation.alternatives;
    let Some(first) = alternatives.first() else {
        return html! {};
    };
    let back = |alternative: &Alternative| match alternative.refund {
        Some(refund) => format!("{} back", money(refund)),
        None => OPEN.to_owned(),
    };
    let is_one = alternatives
        .iter()
        .all(|other| other.refund == first.refund);
    html! {
        section.card aria-labelledby="alternatives" {
            h2 #alternatives { "What it depends on" }
            @if is_one && alternatives.len() > 1 { p { "Either way: " (back(first)) } }
            @else { ul { @for alternative in alternatives { li { (alternative.condition) ": " (back(alternative)) } } } }
        }
    }
}
