//! `bookings cancel`: shows what will happen, asks, and cancels exactly that; and what is done with resolutions.
//!
//! What was shown travels with the request as what is expected, so that nobody agrees to one figure and gets another.

use std::path::Path;

use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{CancelBooking, DecideResolution, GetResolution};
use bookguard_core::features::evaluations::{EvaluatePolicy, PolicyEvaluation};
use bookguard_core::model::BookingStatus;
use bookguard_core::operation::Request;
use bookguard_core::policy::{Evaluation, EvaluationStatus, EvidenceItem};
use serde::Serialize;
use serde_json::value::RawValue;

use super::new_booking::digits;
use super::{add, at, once_only};
use crate::commands::cli::{CancelArgs, EvaluateArgs, ResolutionsCommand};
use crate::consent;
use crate::failure::{ErrorBody, Failure};
use crate::files::{self, DOCUMENT_BYTES};
use crate::output::Answer;
use crate::output::Screen;
use crate::output::cancellation;
use crate::output::table::Style;
use crate::target::Target;

/// The body of `POST /v1/bookings/{bookingId}/cancel`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    canceled_by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agreed_refund: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<EvidenceItem>,
    expected: Expected<'a>,
}

/// What it must come to.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Expected<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_minor_units: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_hash: Option<&'a str>,
}

/// Asks a booking's policy.
///
/// # Errors
/// Those of the call.
pub async fn evaluate(target: &Target, args: EvaluateArgs, screen: &Screen) -> Result<(), Failure> {
    let mut request = at(&args.booking_id);
    add(&mut request, "asOf", args.as_of);
    add(&mut request, "canceledBy", args.canceled_by);
    add(&mut request, "reason", args.reason);
    add(&mut request, "agreedRefund", args.agreed_refund);
    add(&mut request, "evidence", args.evidence);
    let matrix = args.matrix.then(|| "true".to_owned());
    add(&mut request, "matrix", matrix);
    screen.show(
        &target.call::<EvaluatePolicy>(request).await?,
        cancellation::policy_evaluation,
    )
}

/// Cancels a booking, once whoever is at the terminal has seen what that comes to and agreed.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read and where nobody can be asked; those of the call.
pub async fn run(target: &Target, args: &CancelArgs, screen: &Screen) -> Result<(), Failure> {
    if args.dry_run {
        let answer = preview(target, args).await?;
        return screen.show(&answer, cancellation::policy_evaluation);
    }
    let evidence = args
        .evidence
        .iter()
        .map(|text| item(text))
        .collect::<Result<Vec<_>, _>>()?;
    let mut shown: Option<Evaluation> = None;
    // Else there is nothing to agree to: the service will say why.
    if !args.yes && !is_canceled(target, &args.booking_id).await? {
        let answer = preview(target, args).await?;
        let evaluation = answer.output.evaluation;
        if !matches!(
            evaluation.evaluation_status,
            EvaluationStatus::Closed | EvaluationStatus::NotEvaluable
        ) {
            consent(&evaluation, screen.style)?;
            shown = Some(evaluation);
        }
    }
    loop {
        let request = Request {
            body: body(args, &evidence, shown.as_ref())?,
            ..at(&args.booking_id)
        };
        let request = once_only(request, args.once.clone());
        match target.call::<CancelBooking>(request).await {
            Err(Failure::Refused(refusal)) if shown.is_some() => {
                let Some(fresh) = to_agree_to(args, &refusal.body).cloned() else {
                    return Err(Failure::Refused(refusal));
                };
                crate::output::say("The result has changed in the meantime. Nothing was done yet.");
                consent(&fresh, screen.style)?;
                shown = Some(fresh);
            }
            answer => return screen.show(&answer?, cancellation::resolution),
        }
    }
}

/// What to ask about anew after a refusal: nothing where the command line itself says what is expected, which no consent
/// changes, nor where the booking is canceled by now.
fn to_agree_to<'a>(args: &CancelArgs, refused: &'a ErrorBody) -> Option<&'a Evaluation> {
    let said = args.expect_refund.is_some() || args.expect_policy.is_some();
    let changed = refused.code.as_deref() == Some("quote_changed");
    let fresh = refused.evaluation.as_deref();
    fresh.filter(|_| changed && !said && refused.resolution_id.is_none())
}

/// Asked of the booking: what is recorded of one that waits for a decision evaluates as one that could still be canceled.
async fn is_canceled(target: &Target, booking_id: &str) -> Result<bool, Failure> {
    let booking = target.call::<GetBooking>(at(booking_id)).await?.output;
    Ok(booking.status == BookingStatus::Canceled)
}

/// What would happen.
async fn preview(target: &Target, args: &CancelArgs) -> Result<Answer<PolicyEvaluation>, Failure> {
    let mut request = at(&args.booking_id);
    add(&mut request, "canceledBy", Some(args.canceled_by.clone()));
    add(&mut request, "reason", args.reason.clone());
    add(&mut request, "asOf", args.effective_at.clone());
    add(&mut request, "agreedRefund", args.agreed_refund.clone());
    add(
        &mut request,
        "evidence",
        Some(args.evidence.len().to_string()),
    );
    target.call::<EvaluatePolicy>(request).await
}

fn consent(evaluation: &Evaluation, style: Style) -> Result<(), Failure> {
    let question = format!(
        "{}\n\nThis cancels the booking for good and records it in the ledger.",
        cancellation::evaluation(evaluation, style)
    );
    consent::ask(&question, false)
}

fn body(
    args: &CancelArgs,
    evidence: &[EvidenceItem],
    shown: Option<&Evaluation>,
) -> Result<Vec<u8>, Failure> {
    let refund = shown.and_then(|shown| shown.refund);
    let policy = shown.and_then(|shown| shown.policy.as_ref());
    let body = Body {
        canceled_by: &args.canceled_by,
        reason: args.reason.as_deref(),
        note: args.note.as_deref(),
        effective_at: args.effective_at.as_deref(),
        agreed_refund: args
            .agreed_refund
            .as_deref()
            .map(|text| digits("--agreed-refund", text))
            .transpose()?,
        evidence: evidence.to_vec(),
        expected: Expected {
            refund_minor_units: args.expect_refund.or(refund.map(|refund| refund.minor())),
            resolution_path: shown.map(|shown| shown.resolution_path.to_string()),
            policy_hash: (args.expect_policy.as_deref())
                .or(policy.map(|policy| policy.policy_hash.as_str())),
        },
    };
    Ok(serde_json::to_vec(&body).expect("text, numbers and raw JSON always serialize"))
}

/// A piece of evidence from `KIND=FILE`.
fn item(text: &str) -> Result<EvidenceItem, Failure> {
    let Some((kind, file)) = text.split_once('=').filter(|(kind, _)| !kind.is_empty()) else {
        return Err(Failure::Usage(format!(
            "--evidence is \"{text}\"; write it like KIND=FILE, such as notice=mail.eml"
        )));
    };
    let path = Path::new(file);
    let bytes = files::bytes(path, DOCUMENT_BYTES)?;
    let name = path.file_name().map(|name| name.to_string_lossy());
    Ok(EvidenceItem::of(kind, name.as_deref(), &bytes))
}

/// Reads and decides resolutions.
///
/// # Errors
/// [`Failure::Usage`] for a refund that is not a number; those of the call.
pub async fn resolutions(
    target: &Target,
    command: ResolutionsCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Decision<'a> {
        refund: Box<RawValue>,
        decided_by: &'a str,
        rationale: &'a str,
    }
    match command {
        ResolutionsCommand::Get { resolution_id } => screen.show(
            &target.call::<GetResolution>(at(&resolution_id)).await?,
            cancellation::resolution,
        ),
        ResolutionsCommand::Decide {
            resolution_id,
            refund,
            decided_by,
            rationale,
            once,
        } => {
            let decision = Decision {
                refund: digits("--refund", &refund)?,
                decided_by: &decided_by,
                rationale: &rationale,
            };
            let request = Request {
                body: serde_json::to_vec(&decision).expect("text and raw JSON always serialize"),
                ..at(&resolution_id)
            };
            let answer = target
                .call::<DecideResolution>(once_only(request, once))
                .await?;
            screen.show(&answer, cancellation::resolution)
        }
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::model::{Amount, BookingId, Currency, ResolutionId, Timestamp};
    use bookguard_core::policy::{
        self, Actor, Booked, EventDate, MissingZone, Mode, Policy, PolicySource, Question,
        Standing, Subject, Terms,
    };
    use clap::Parser as _;

    use super::*;

    /// What an organizer's cancellation of a booking under the library's `firm` comes to.
    fn evaluation() -> Evaluation {
        let at = |text| Timestamp::parse(text).unwrap();
        let booked = Booked {
            event_date: EventDate::parse("2026-06-20T19:00:00Z").unwrap(),
            time_zone: None,
            partner_time_zone: None,
            value: Amount::parse("1000", Currency::USD).unwrap(),
            paid: None,
            created_at: at("2026-01-10T15:00:00Z"),
        };
        let firm = Policy::template("firm").unwrap().clone();
        let firm = Some((firm, PolicySource::Named));
        let terms = Terms::freeze(firm, &booked, MissingZone::Refuse).unwrap();
        let subject = Subject {
            booking_id: BookingId::from_bytes([7; 16]),
            terms: &terms,
            standing: Standing::Created,
            reschedules: &[],
        };
        let question = Question {
            mode: Mode::Cancel,
            actor: Actor::Organizer,
            reason: None,
            at: None,
            received_at: at("2026-06-01T00:00:00Z"),
            evidence: 0,
            agreed_refund: None,
        };
        policy::evaluate(&subject, &question).unwrap()
    }

    #[test]
    fn only_what_a_consent_can_change_is_asked_about_anew() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: CancelArgs,
        }
        let args = |more: &str| {
            let line = format!("cancel bkg_1 --canceled-by organizer {more}");
            Line::try_parse_from(line.split_whitespace()).unwrap().args
        };
        let changed = ErrorBody {
            error: "Conflict".to_owned(),
            message: "Something else.".to_owned(),
            code: Some("quote_changed".to_owned()),
            details: Vec::new(),
            resolution_id: None,
            disclosure_hash: None,
            evaluation: Some(Box::new(evaluation())),
        };
        assert_eq!(to_agree_to(&args(""), &changed), Some(&evaluation()));
        // Asking again would only end in the same refusal, as often as somebody agrees.
        assert_eq!(to_agree_to(&args("--expect-refund 1"), &changed), None);
        assert_eq!(
            to_agree_to(&args("--expect-policy sha256:0"), &changed),
            None
        );
        let canceled = ErrorBody {
            resolution_id: Some(ResolutionId::from_bytes([7; 16])),
            ..changed.clone()
        };
        let other = ErrorBody {
            code: Some("claim_window_closed".to_owned()),
            ..changed
        };
        for refused in [canceled, other] {
            assert_eq!(to_agree_to(&args(""), &refused), None);
        }
    }

    #[test]
    fn evidence_is_named_by_kind_and_file_and_sent_as_its_digest() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("evidence-{}.eml", std::process::id()));
        std::fs::write(&file, "abc").unwrap();
        let found = item(&format!("notice={}", file.display())).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(found.kind, "notice");
        assert_eq!(
            found.name.as_deref(),
            file.file_name().and_then(|name| name.to_str())
        );
        assert_eq!(
            found.sha256,
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        for text in ["", "mail.eml", "=mail.eml", "notice=/nowhere/at/all"] {
            assert!(matches!(item(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
