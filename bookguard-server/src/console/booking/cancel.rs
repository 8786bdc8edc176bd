//! Canceling a booking: what it would come to first, then the cancellation with exactly that result.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{CancelBooking, CancelRequest};
use bookguard_core::features::evaluations::EvaluatePolicy;
use bookguard_core::operation::Operation as _;
use bookguard_core::policy::{Actor, Evaluation, EvaluationStatus, Reason};
use maud::{Markup, html};

use super::{compensation, done, head, sum};
use crate::console::form::{choices, in_fields, is_correctable};
use crate::console::parts::{fact, hidden, words};
use crate::console::{Answer, Asked, Draft, Field, Kind, Page, Part, User};

/// The fields of the form.
const NAMES: [&str; 5] = [
    "/canceledBy",
    "/reason",
    "/effectiveAt",
    "/note",
    "/agreedRefund",
];
/// The fields that the result depends on, as parameters of the operation that evaluates it.
const ASKED: [&str; 4] = ["canceledBy", "reason", "effectiveAt", "agreedRefund"];

/// The field of a form that shows a result: without it, only the result is asked for.
const SHOWN: &str = "/expected/resolutionPath";

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

/// Shows the result when asked for that, and cancels when asked to cancel.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let asked = &asked.with(asked.fields.in_utc(&["/effectiveAt"]));
    if !asked.fields.has(SHOWN) {
        return preview(user, asked).await;
    }
    let refused = match user.submit::<CancelBooking>(asked).await {
        Ok(()) => {
            let told = "The booking is canceled. What it came to stands below.";
            return Ok(done(asked, told));
        }
        Err(error) if is_correctable(&error) => error,
        Err(error) => return Err(error),
    };
    let (result, is_marked) = (result_now(&refused), !refused.details.is_empty());
    let asked = &asked.with_refusal(refused);
    match result {
        None if !is_marked => preview(user, asked).await,
        result => page(user, asked, result.as_ref()).await,
    }
}

/// What the cancellation comes to, if it was refused because that is not what the form said.
fn result_now(refused: &Error) -> Option<Evaluation> {
    let obstacle = refused.obstacle.as_ref()?;
    let result = obstacle.evaluation.as_deref()?;
    let is_open = obstacle.resolution_id.is_none();
    serde_json::from_str(result).ok().filter(|_| is_open)
}

/// The form, and below it the result of what was typed.
async fn preview(user: &User, asked: &Asked) -> Result<Answer, Error> {
    // The result needs less, but only those who may cancel ask for it here.
    user.session.require(CancelBooking::ROUTE.access)?;
    match evaluated(user, asked).await {
        Ok(result) => page(user, asked, Some(&result)).await,
        Err(error) if is_correctable(&error) => page(user, &asked.with_refusal(error), None).await,
        Err(error) => Err(error),
    }
}

/// The result that the cancellation would have.
async fn evaluated(user: &User, asked: &Asked) -> Result<Evaluation, Error> {
    let fields = &asked.fields;
    // The note has no part in the result, so the evaluation would not refuse it.
    CancelRequest::read(&fields.body(CancelBooking::ROUTE.body))?;
    let query = ASKED.map(|name| {
        let value = fields.get(&format!("/{name}"));
        (name, value.unwrap_or_default())
    });
    let found = user.read::<EvaluatePolicy>(&[asked.id(0)], &query).await;
    Ok(found.map_err(|error| in_fields(error, "/"))?.evaluation)
}

async fn page(user: &User, asked: &Asked, result: Option<&Evaluation>) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft();
    let effective = user.told(
        "Now if left empty. An earlier time is recorded as your statement, beside the time of receipt.",
        "Now if left empty. An earlier time is recorded as the partner's statement, beside the time of receipt.",
    );
    let address = user.link(&format!("/bookings/{id}/cancel"));
    let main = html! {
        (head(user, &booking, "Cancel: "))
        (draft.alert(&NAMES))
        div.narrow {
            // A note is personal, and may be longer than an address, so it is sent as a body.
            form.card method="post" action=(address) {
                h2 { "1. Who cancels, and why" }
                (draft.field(&Field::new("/canceledBy", "Who cancels?", Kind::Choice(choices(Actor::WORDS))).unanswered()))
                (draft.field(&Field::new("/reason", "Why?", Kind::Choice(choices(Reason::WORDS)))))
                (draft.field(&Field::new("/effectiveAt", "When was it canceled? (UTC)", Kind::Utc).about(effective)))
                (draft.field(&Field::new("/agreedRefund", "Agreed refund", Kind::Number).about("Only if both sides agreed on a figure (mutual).")))
                (draft.field(&Field::new("/note", "Note", Kind::Long).about("For the record; it is part of the evidence.")))
                button { "Show what it comes to" }
            }
            @if let Some(result) = result { (confirm(&address, &draft, result)) }
        }
    };
    Ok(Page::new(Part::Bookings, "Cancel a booking", main).form(asked))
}

/// The cancellation that would be recorded, and the button that records it. The form holds the result as it is shown, so with any
/// other result nothing happens.
fn confirm(address: &str, draft: &Draft<'_>, result: &Evaluation) -> Markup {
    if result.evaluation_status == EvaluationStatus::Closed {
        // The service would refuse it.
        return html! {
            div.card tabindex="-1" autofocus {
                h2 { "2. What it comes to" }
                p { (result.explanation.text) " " (super::CLOSED) }
            }
        };
    }
    let amounts = [
        ("/expected/refundMinorUnits", result.refund),
        ("/expected/penaltyMinorUnits", result.penalty),
        ("/expected/compensationMinorUnits", result.compensation),
    ];
    html! {
        // It stands below the first form, so the browser is led to it.
        form.card tabindex="-1" autofocus method="post" action=(address) {
            h2 { "2. What it comes to" }
            p { (result.explanation.text) }
            dl {
                (fact("Goes back", sum(result.refund)))
                (fact("Is kept, or owed", sum(result.penalty)))
                @if let Some(sum) = compensation(result.compensation) { (fact("Compensation", sum)) }
                (fact("What happens", words(result.resolution_path.word())))
            }
            p { strong { "This cannot be undone." } " The cancellation and its result are written to the ledger. No money is moved." }
            (draft.hidden(&NAMES))
            @for (name, amount) in amounts { @if let Some(amount) = amount { (hidden(name, amount.minor())) } }
            (hidden(SHOWN, result.resolution_path.word()))
            @if let Some(policy) = &result.policy { (hidden("/expected/policyHash", &policy.policy_hash)) }
            (draft.once())
            button.danger { "Cancel the booking" }
        }
    }
}
