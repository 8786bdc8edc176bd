//! Deciding a cancellation that was left to a person, with the evidence beside it.

use bookguard_core::error::Error;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{DecideResolution, GetResolution};
use bookguard_core::model::Scope;
use bookguard_core::policy::{Alternative, Evaluation, EvaluationStatus, ResolutionPath};
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
    let about = format!(
        "{paid} was paid. The rest is kept. What is owed beyond that, and compensation, cannot be decided here: settle them outside."
    );
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
    if alternatives.is_empty() {
        return html! {};
    }
    let texts: Vec<String> = alternatives.iter().map(comes_to).collect();
    let is_one = texts.iter().all(|text| *text == texts[0]);
    html! {
        section.card aria-labelledby="alternatives" {
            h2 #alternatives { "What it depends on" }
            @if is_one && texts.len() > 1 { p { "Either way: " (texts[0]) } }
            @else {
                ul {
                    @for (alternative, text) in alternatives.iter().zip(&texts) {
                        li { (condition(alternative)) ": " (text) }
                    }
                }
            }
        }
    }
}

/// What an alternative comes to.
fn comes_to(alternative: &Alternative) -> String {
    let (Some(refund), Some(penalty)) = (alternative.refund, alternative.penalty) else {
        // Without a rule there is nothing to decide, either: the time for claims had passed.
        return match alternative.resolution_path {
            ResolutionPath::None => EvaluationStatus::Closed.instead_of_amount(OPEN),
            _ => OPEN,
        }
        .to_owned();
    };
    let (refund, penalty) = (money(refund), money(penalty));
    // An alternative names no other sums.
    let beside = match alternative.resolution_path {
        ResolutionPath::RefundWithCompensation => ", and a compensation on top",
        ResolutionPath::BalanceDue => ", more than was paid",
        _ => "",
    };
    format!("{refund} back, {penalty} kept or owed{beside}")
}

/// When an alternative applies, with its instants to the second. The ledger has the text as it was recorded.
fn condition(alternative: &Alternative) -> String {
    alternative.condition.replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_alternative_says_what_it_comes_to() {
        let usd = |text: &str| {
            let minor = text.parse::<i64>().unwrap() * 100;
            json!({"amount": format!("{text}.00"), "minorUnits": minor, "currency": "USD"})
        };
        for (path, sums, expected) in [
            ("none", None, "can no longer be claimed"),
            ("manual_review", None, "a person decides"),
            (
                "partial_refund",
                Some(("10", "1000")),
                "USD 10.00 back, USD 1,000.00 kept or owed",
            ),
            (
                "balance_due",
                Some(("0", "50")),
                "USD 0.00 back, USD 50.00 kept or owed, more than was paid",
            ),
            (
                "refund_with_compensation",
                Some(("10", "0")),
                "USD 10.00 back, USD 0.00 kept or owed, and a compensation on top",
            ),
        ] {
            let (refund, penalty) = sums.unzip();
            let alternative: Alternative = serde_json::from_value(json!({
                "condition": "If notice was given at 2026-10-05T14:13:20.000Z", "resolutionPath": path,
                "refund": refund.map(usd), "penalty": penalty.map(usd),
            }))
            .unwrap();
            assert_eq!(comes_to(&alternative), expected);
            let told = "If notice was given at 2026-10-05T14:13:20Z";
            assert_eq!(condition(&alternative), told);
        }
    }
}
