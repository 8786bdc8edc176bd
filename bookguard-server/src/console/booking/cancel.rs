//! Canceling a booking: what it would come to first, then the cancellation with exactly that result.

use bookguard_core::error::{Error, Kind as ErrorKind};
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::CancelBooking;
use bookguard_core::features::evaluations::EvaluatePolicy;
use bookguard_core::model::Amount;
use bookguard_core::policy::{Actor, Evaluation, Reason};
use maud::{Markup, html};

use super::{sum, title};
use crate::console::form::{self, Draft, Field, Fields, Kind};
use crate::console::parts::{fact, once, words};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

/// The fields of the form.
const NAMES: [&str; 4] = ["/canceledBy", "/reason", "/note", "/agreedRefund"];
/// The fields that the result depends on, with the parameters of the operation that evaluates it.
const ASKED: [(&str, &str); 3] = [
    ("/canceledBy", "canceledBy"),
    ("/reason", "reason"),
    ("/agreedRefund", "agreedRefund"),
];

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    match user.send::<CancelBooking>(asked).await {
        Ok(resolution) => {
            let told = format!("The booking is canceled. {}", resolution.summary);
            Ok(Answer::Go(format!("/bookings/{}", asked.id(0)), Some(told)))
        }
        Err(error) if form::is_correctable(&error) => page(user, asked, Some(&error)).await,
        Err(error) => Err(error),
    }
}

/// The form, and below it the result of what was typed.
async fn page(user: &User, asked: &Asked, refused: Option<&Error>) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let fields = &asked.fields;
    let query = ASKED.map(|(field, name)| (name, fields.get(field).unwrap_or_default()));
    let is_asked = fields.get("/canceledBy").is_some();
    let (result, faults) = match is_asked {
        false => (None, None),
        true => match user.read::<EvaluatePolicy>(&[id], &query).await {
            Ok(found) => (Some(found.evaluation), None),
            Err(error) if error.kind == ErrorKind::Invalid => (None, Some(in_fields(error))),
            Err(error) if error.kind == ErrorKind::Conflict => (None, Some(error)),
            Err(error) => return Err(error),
        },
    };
    let shown = refused.or(faults.as_ref());
    let draft = Draft {
        fields,
        refused: shown,
    };
    let actors: Vec<_> = Actor::WORDS
        .iter()
        .map(|(word, _)| (*word, words(word)))
        .collect();
    let reasons: Vec<_> = Reason::WORDS
        .iter()
        .map(|(word, _)| (*word, words(word)))
        .collect();
    let by =
        draft.field(&Field::new("/canceledBy", "Who cancels?", Kind::Choice(&actors)).required());
    let reason = draft.field(&Field::new("/reason", "Why?", Kind::Choice(&reasons)));
    let agreed = draft.field(
        &Field::new("/agreedRefund", "Agreed refund", Kind::Number)
            .about("Only if both sides agreed on a figure (mutual)."),
    );
    let note = draft.field(
        &Field::new("/note", "Note", Kind::Long)
            .about("For the record; it is part of the evidence."),
    );
    let back = user.link(&format!("/bookings/{id}"));
    let main = html! {
        p.back { a href=(back) { "← Back to the booking" } }
        div.title { h1 { "Cancel: " (title(&booking)) } }
        (draft.alert(&NAMES))
        div.narrow {
            // The result stands below the form, so the browser is led to it.
            form.card action={ (user.link(&format!("/bookings/{id}/cancel"))) "#result" } {
                h2 { "1. Who cancels, and why" }
                (by) (reason) (agreed) (note)
                button { "Show what it comes to" }
            }
            @if let Some(result) = &result { (confirm(user, id, fields, result)) }
        }
    };
    let status = form::status(shown);
    Ok(Answer::Page(
        status,
        Page::new(Part::Bookings, "Cancel a booking", main),
    ))
}

/// What would be recorded, and the button that records it. The form holds the result as it is shown, so with any other result
/// nothing happens.
fn confirm(user: &User, id: &str, fields: &Fields, result: &Evaluation) -> Markup {
    let mut hidden: Vec<(&str, String)> = NAMES
        .iter()
        .map(|name| (*name, fields.get(name).unwrap_or_default().to_owned()))
        .collect();
    if let Some(refund) = result.refund.map(Amount::minor) {
        hidden.push(("/expected/refundMinorUnits", refund.to_string()));
    }
    hidden.push((
        "/expected/resolutionPath",
        result.resolution_path.word().to_owned(),
    ));
    if let Some(policy) = &result.policy {
        hidden.push(("/expected/policyHash", policy.policy_hash.clone()));
    }
    html! {
        form.card #result tabindex="-1" method="post" action=(user.link(&format!("/bookings/{id}/cancel"))) {
            h2 { "2. What it comes to" }
            p { (result.explanation.text) }
            dl {
                (fact("Goes back", sum(result.refund)))
                (fact("Is kept, or owed", sum(result.penalty)))
                (fact("What happens", words(result.resolution_path.word())))
            }
            p { strong { "This cannot be undone." } " The cancellation and its result are written to the ledger. No money is moved." }
            @for (name, value) in &hidden { @if !value.is_empty() { input type="hidden" name=(name) value=(value); } }
            (once())
            button.danger { "Cancel the booking" }
        }
    }
}

/// The refusal of a query, with its parameters named as the fields are.
fn in_fields(mut error: Error) -> Error {
    for detail in &mut error.details {
        let field = ASKED
            .iter()
            .find(|(_, name)| detail.pointer.strip_prefix('?') == Some(name));
        if let Some((field, _)) = field {
            detail.pointer = (*field).to_owned();
        }
    }
    error
}
