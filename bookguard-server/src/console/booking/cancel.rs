//! Canceling a booking: what it would come to first, then the cancellation with exactly that result.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{CancelBooking, CancelRequest};
use bookguard_core::features::evaluations::EvaluatePolicy;
use bookguard_core::model::BookingStatus;
use bookguard_core::operation::Operation as _;
use bookguard_core::policy::{Actor, Evaluation, EvaluationStatus, Reason};
use maud::html;

use super::{CANCELED, compensation, done, head, over, sum};
use crate::console::form::{Act, Outcome, Preview, choices, in_fields, is_correctable};
use crate::console::parts::{Tone, fact, hidden, with_amounts, words};
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

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
    if Preview::is_to_change(asked) {
        return page(user, asked, None).await;
    }
    if !asked.fields.has(SHOWN) {
        return preview(user, asked).await;
    }
    let refused = match user.send::<CancelBooking>(asked).await {
        Ok(canceled) if canceled.evaluation.replayed => return Ok(repeated(asked)),
        Ok(_) => {
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

/// Back to the booking, which somebody else canceled in the same way. The service records no second note.
fn repeated(asked: &Asked) -> Answer {
    let told = match asked.fields.get("/note") {
        Some(_) => "It was already canceled with this result. Your note was not recorded.",
        None => "It was already canceled with this result. Nothing was recorded anew.",
    };
    Answer::told(format!("/bookings/{}", asked.id(0)), Tone::Warn, told)
}

/// What the cancellation comes to, if it was refused because that is not what the form said.
fn result_now(refused: &Error) -> Option<Evaluation> {
    let obstacle = refused.obstacle.as_ref()?;
    let result = obstacle.evaluation.as_deref()?;
    let is_open = obstacle.resolution_id.is_none();
    serde_json::from_str(result).ok().filter(|_| is_open)
}

/// What was typed, and below it what that comes to.
async fn preview(user: &User, asked: &Asked) -> Result<Answer, Error> {
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
    let fields = [
        Field::new(
            "/canceledBy",
            "Who cancels?",
            Kind::Choice(choices(Actor::WORDS)),
        )
        .unanswered(),
        Field::new("/reason", "Why?", Kind::Choice(choices(Reason::WORDS))),
        Field::new("/effectiveAt", "When was it canceled? (UTC)", Kind::Utc).about(effective),
        Field::new("/agreedRefund", "Agreed refund", Kind::Number)
            .about("Only if both sides agreed on a figure (mutual)."),
        Field::new("/note", "Note", Kind::Long)
            .about("For the record; it is part of the evidence."),
    ];
    let (title, head) = ("Cancel a booking", head(user, &booking, "Cancel: "));
    if booking.status == BookingStatus::Canceled {
        return Ok(over(asked, CANCELED, title, &head, &fields));
    }
    let form = Preview {
        address: &user.link(&format!("/bookings/{id}/cancel")),
        heading: "1. Who cancels, and why",
        fields: &fields,
        names: &NAMES,
    };
    let main = html! {
        (head)
        (draft.alert(&NAMES))
        div.narrow {
            @match result {
                Some(result) => (form.show(&draft, &outcome(result))),
                None => (form.ask(&draft, &html! {}, "Show what it comes to")),
            }
        }
    };
    Ok(Page::new(Part::Bookings, title, main).form(asked))
}

/// The cancellation that would be recorded, and the button that records it. It sends the result as it is shown, so with any other
/// result nothing happens.
fn outcome(result: &Evaluation) -> Outcome<'static> {
    let heading = "2. What it comes to";
    if result.evaluation_status == EvaluationStatus::Closed {
        // The service would refuse it.
        let shown = html! { p { (with_amounts(&result.explanation.text)) " " (super::CLOSED) } };
        return Outcome {
            heading,
            shown,
            act: None,
        };
    }
    let amounts = [
        ("/expected/refundMinorUnits", result.refund),
        ("/expected/penaltyMinorUnits", result.penalty),
        ("/expected/compensationMinorUnits", result.compensation),
    ];
    let shown = html! {
        p { (with_amounts(&result.explanation.text)) }
        dl {
            (fact("Goes back", sum(result.refund)))
            (fact("Is kept, or owed", sum(result.penalty)))
            @if let Some(sum) = compensation(result.compensation) { (fact("Compensation", sum)) }
            (fact("What happens", words(result.resolution_path.word())))
        }
        p { strong { "This cannot be undone." } " The cancellation and its result are written to the ledger. No money is moved." }
    };
    let beside = html! {
        @for (name, amount) in amounts { @if let Some(amount) = amount { (hidden(name, amount.minor())) } }
        (hidden(SHOWN, result.resolution_path.word()))
        @if let Some(policy) = &result.policy { (hidden("/expected/policyHash", &policy.policy_hash)) }
    };
    Outcome {
        heading,
        shown,
        act: Some(Act {
            names: &NAMES,
            beside,
            class: "danger",
            label: "Cancel the booking",
        }),
    }
}
