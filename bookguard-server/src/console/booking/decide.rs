//! Deciding a cancellation that was left to a person, with the evidence beside it.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{DecideResolution, GetResolution};
use bookguard_core::model::Scope;
use maud::html;

use super::{done, packet, resolved, timeline, title};
use crate::console::parts::price;
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

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
    Ok(done(asked, format!("Decided. {}", decided.summary)))
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
                (draft.field(&Field::new("/refund", "What goes back", Kind::Number).about(&about).required()))
                (draft.field(&Field::new("/decidedBy", "Who decides", Kind::Text).value(person).required()))
                (draft.field(&Field::new("/rationale", "Why", Kind::Long).about("It is written to the ledger, and is in every evidence packet.").required()))
                p { strong { "A cancellation is decided once." } " The decision cannot be changed." }
                input type="hidden" name=(DECIDED) value=(resolution.resolution_id);
                (draft.once())
                button.first { "Decide" }
            }
            div {
                (resolved(&resolution))
                @if !resolution.evaluation.alternatives.is_empty() {
                    section.card aria-labelledby="alternatives" {
                        h2 #alternatives { "What it depends on" }
                        ul { @for alternative in &resolution.evaluation.alternatives { li { (alternative.condition) ": " (super::sum(alternative.refund)) " back" } } }
                    }
                }
                @if let Some(packet) = &packet {
                    (timeline(packet))
                    p { a.button href=(user.link(&format!("/bookings/{id}/evidence/page"))) target="_blank" rel="noopener" { "Open the evidence" } }
                }
                p { a href=(user.link(&format!("/bookings/{id}"))) { "The whole booking" } }
            }
        }
    };
    Ok(Page::new(Part::Reviews, "Decide a cancellation", main).form(asked))
}
