//! Legal holds: while a booking has one, nothing of it is erased.

use bookguard_core::error::Error;
use bookguard_core::evidence::{HeldBy, Hold};
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::holds::{ListHolds, PlaceHold, ReleaseHold};
use bookguard_core::model::Scope;
use maud::{Markup, html};

use super::{done, head};
use crate::console::parts::{Tone, badge, records, time};
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

const NAMES: [&str; 2] = ["/reason", "/reference"];

/// The holds of a booking, newest first.
pub(super) async fn of(user: &User, id: &str) -> Result<Vec<Hold>, Error> {
    let holds = user.read::<ListHolds>(&[id], &[("limit", "100")]).await?;
    Ok(holds.data)
}

/// The holds on a booking, and the ways to place one and to erase personal data.
pub(super) fn card(user: &User, id: &str, holds: &[Hold]) -> Markup {
    let link = |rest: &str| user.link(&format!("/bookings/{id}{rest}"));
    let may = user.may(Scope::EvidenceErase);
    let rows = holds.iter().map(|hold| html! {
        td { (hold.reason) @if let Some(reference) = &hold.reference { small { (reference) } } }
        td { (time(hold.placed_at)) small { "by the " (hold.placed_by.word()) } }
        td { @match hold.released_at { Some(at) => { "released " (time(at)) }, None => (badge(Tone::Warn, "Active")) } }
        td { @if hold.is_active() && may { a href=(link(&format!("/holds/{}/release", hold.hold_id))) aria-label={ "Release: " (hold.reason) } { "Release" } } }
    });
    html! {
        section.card aria-labelledby="holds" {
            h2 #holds { "Holds and erasure" }
            @match holds.iter().any(Hold::is_active) {
                true => p { "The booking is under a legal hold: nothing of it can be erased." },
                false => p { "Personal data can be erased for good. Everything else stays proven. A legal hold prevents it, for a dispute or a court." },
            }
            @if may {
                div.actions { (buttons(&link)) }
            }
            @if !holds.is_empty() { (records("Legal holds of this booking", &["Hold", "Placed", "State", "Actions"], rows)) }
        }
    }
}

/// The ways to place a hold and to erase personal data, for whoever may.
pub(super) fn buttons(link: &impl Fn(&str) -> String) -> Markup {
    html! {
        a.button href=(link("/hold")) { "Place a hold" }
        a.button.danger href=(link("/erase")) { "Erase personal data" }
    }
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<PlaceHold>(asked).await?;
    Ok(done(asked, "The booking is under a legal hold."))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft();
    let main = html! {
        (head(user, &booking, "Place a hold: "))
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/hold"))) {
            p { "Until it is released, nothing of the booking is erased, and nothing pruned because it is old." }
            (draft.field(&Field::new("/reason", "Why?", Kind::Text).required()
                .about("It is in no packet and no share: whoever is given evidence need not know of it.")))
            (draft.field(&Field::new("/reference", "Reference", Kind::Text)
                .about("What others know the matter by, such as the number of a case.")))
            (draft.once())
            button.first { "Place the hold" }
        }
    };
    Ok(Page::new(Part::Bookings, "Place a hold", main).form(asked))
}

pub(in crate::console) async fn release(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<ReleaseHold>(asked).await?;
    Ok(done(asked, "The hold is released."))
}

pub(in crate::console) async fn confirm(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let (id, hold_id) = (asked.id(0), asked.id(1));
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let hold = user
        .row::<ListHolds, _, _>(&[id], hold_id, |hold| hold.hold_id)
        .await?;
    let is_operators = hold
        .as_ref()
        .is_some_and(|hold| hold.placed_by == HeldBy::Operator);
    let draft = asked.draft();
    let main = html! {
        (head(user, &booking, "Release the hold on "))
        (draft.alert(&[]))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/holds/{hold_id}/release"))) {
            @match &hold {
                Some(hold) => p { (hold.reason) @if let Some(reference) = &hold.reference { " " small { (reference) } } },
                None => p { (hold_id) },
            }
            p { "Once no other hold is active, the booking can be erased again." }
            @if is_operators { p { "The service's operator placed it, and only the operator can release it." } }
            button.danger { "Release the hold" }
        }
    };
    Ok(Page::new(Part::Bookings, "Release a hold", main).form(asked))
}
