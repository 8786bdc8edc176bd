//! `bookings cancel`: shows what will happen, asks, and cancels exactly that; and `resolutions`.
//!
//! The result that was shown is sent as `expected`, so that nobody agrees to one figure and gets another. A server that is too old for
//! a part of it is held to the rest, if the user agrees to that too.

use std::path::Path;

use bookguard_core::FieldError;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::cancellations::{
    CancelBooking, CancelRequest, DecideResolution, GetResolution, ListResolutions,
};
use bookguard_core::features::evaluations::{EvaluatePolicy, PolicyEvaluation};
use bookguard_core::model::BookingStatus;
use bookguard_core::operation::Request;
use bookguard_core::policy::{Evaluation, EvaluationStatus, NamedDocument, Resolution};
use clap::Args;
use serde::Serialize;

use super::declare::{Call, CliCommand, add, carried, group, listing, operation};
use super::evaluations::{alternatives, decided, evaluation, policy_evaluation, sums};
use crate::consent;
use crate::failure::{ErrorBody, Failure};
use crate::files::{self, DOCUMENT_BYTES};
use crate::output::Answer;
use crate::output::table::{Style, fields, pages, record};
use bookguard_core::input::{JsonObject, quoted};

/// The members of the expected result that can be typed, their flags, and what those say.
const EXPECTED: [(&str, &str, &str); 4] = [
    (
        "expected.refundMinorUnits",
        "expect-refund",
        "Cancel only if the refund is exactly this, in minor units (50000 for USD 500.00)",
    ),
    (
        "expected.penaltyMinorUnits",
        "expect-penalty",
        "Cancel only if exactly this is kept, or owed, in minor units",
    ),
    (
        "expected.compensationMinorUnits",
        "expect-compensation",
        "Cancel only if exactly this is owed to the organizer on top of the refund, in minor units",
    ),
    (
        "expected.policyHash",
        "expect-policy",
        "Cancel only under the policy with this hash",
    ),
];

/// The members of `expected` that servers of 0.1.0 do not know, and the flags that name them.
const LATER: [(&str, &str); 2] = [
    ("/expected/penaltyMinorUnits", "expect-penalty"),
    ("/expected/compensationMinorUnits", "expect-compensation"),
];

/// What is said of a cancellation beside what the operation takes.
#[derive(Debug, Args)]
struct CancelArgs {
    /// A file that proves it, such as notice=mail.eml: its digest is sent, never the file; may be given several times
    #[arg(long, value_name = "KIND=FILE")]
    evidence: Vec<String>,
    /// Show what would happen, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn command() -> CliCommand {
    let about = "Cancel a booking: shows the result first, and asks";
    let command = carried::<CancelBooking>("cancel", about, cancel);
    command.with::<CancelArgs>().flags(|flags| {
        flags.without("evidence").without("expected.resolutionPath");
        for (name, flag, about) in EXPECTED {
            flags.says(name, about).name(name, flag);
        }
    })
}

pub(super) fn resolutions() -> CliCommand {
    let about = "List the results of cancellations, the newest booking's first";
    let list = listing::<ListResolutions>("list", about, listed, of_all);
    let get = operation::<GetResolution>("get", "Show the result of a cancellation", resolution);
    let decide =
        operation::<DecideResolution>("decide", "Decide what was left to a person", resolution);
    let about = "The results of cancellations, and decisions left to a person";
    group("resolutions", about, [list, get, decide])
}

/// Cancels a booking, after the user has seen the result and agreed.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read and if nobody can be asked; otherwise, those of the call.
async fn cancel(call: Call<'_>) -> Result<(), Failure> {
    let (args, screen) = (call.args::<CancelArgs>()?, call.screen);
    let evidence = args.evidence.iter().map(|text| item(text));
    let evidence = evidence.collect::<Result<Vec<_>, _>>()?;
    if args.dry_run {
        return dry_run(call, &args, &evidence).await;
    }
    let mut shown: Option<Evaluation> = None;
    // A canceled booking leaves nothing to agree to: the service will say why.
    if !args.yes && !is_canceled(call).await? {
        let evaluation = preview(call, &args).await?.output.evaluation;
        if is_possible(&evaluation) {
            consent(&evaluation, screen.style)?;
            shown = Some(evaluation);
        }
    }
    let said = EXPECTED
        .iter()
        .any(|(_, flag, _)| call.typed(flag).is_some());
    let insists = LATER.iter().any(|(_, flag)| call.typed(flag).is_some());
    let mut is_older = false;
    loop {
        let shown_now = shown.as_ref().map(|shown| (shown, is_older));
        let request = request(call, &evidence, shown_now)?;
        match call.target().call::<CancelBooking>(request).await {
            Err(Failure::Refused(refusal)) if shown.is_some() => {
                if !is_older && !insists && is_too_old(&refusal.body) {
                    consent::ask(TOO_OLD, false)?;
                    is_older = true;
                    continue;
                }
                let Some(fresh) = to_agree_to(said, &refusal.body).cloned() else {
                    return Err(Failure::Refused(refusal));
                };
                crate::output::say(
                    "The result has changed since it was shown. Nothing has been recorded.",
                );
                consent(&fresh, screen.style)?;
                shown = Some(fresh);
            }
            answer => return screen.show(&answer?, resolution),
        }
    }
}

/// What a dry run answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DryRun<'a> {
    #[serde(flatten)]
    answer: &'a PolicyEvaluation,
    dry_run: bool,
}

/// Shows what the cancellation would come to.
///
/// # Errors
/// Those of a cancellation whose request is wrong, or that would not have the expected result.
async fn dry_run(
    call: Call<'_>,
    args: &CancelArgs,
    evidence: &[NamedDocument],
) -> Result<(), Failure> {
    let asked = CancelRequest::read(&request(call, evidence, None)?.body)?;
    let answer = preview(call, args).await?.output;
    let recorded = if is_canceled(call).await? {
        "before: the booking is already canceled"
    } else {
        asked.expected.require(&answer.evaluation)?;
        match is_possible(&answer.evaluation) {
            true => "no, this is what would happen",
            false => "no, and it would be refused",
        }
    };
    let said = DryRun {
        answer: &answer,
        dry_run: true,
    };
    call.screen.said(&said, |style| {
        let recorded = record(style, &[("recorded", Some(recorded.to_owned()))]);
        format!("{}\n\n{recorded}", policy_evaluation(&answer, style))
    })
}

/// Whether a cancellation that comes to this is not refused for it.
fn is_possible(evaluation: &Evaluation) -> bool {
    !matches!(
        evaluation.evaluation_status,
        EvaluationStatus::Closed | EvaluationStatus::NotEvaluable
    )
}

/// The evaluation to ask about again after a refusal. `None` if the command line itself names the expected result, which no
/// consent changes, or if the booking has been canceled in the meantime.
fn to_agree_to(said: bool, refused: &ErrorBody) -> Option<&Evaluation> {
    let changed = refused.code == "quote_changed";
    let fresh = refused.evaluation.as_ref();
    fresh.filter(|_| changed && !said && refused.obstacle.resolution_id.is_none())
}

/// What is asked before an older server is held to less than was shown.
const TOO_OLD: &str = "This server is older than this program. It cancels only with the refund, the path and the policy that were shown, but \
                       cannot be held to what is kept or owed, which may be more if a deadline passes meanwhile. Nothing has been recorded.";

/// Whether nothing is wrong with a cancellation but what an older server does not know of `expected`.
fn is_too_old(refused: &ErrorBody) -> bool {
    let is_later = |fault: &FieldError| {
        fault.code == "unknown_field" && LATER.iter().any(|(at, _)| *at == fault.pointer)
    };
    !refused.details.is_empty() && refused.details.iter().all(is_later)
}

/// Reads the booking's status. The evaluation does not tell: while a resolution waits for a decision, it evaluates like a
/// booking that can still be canceled.
async fn is_canceled(call: Call<'_>) -> Result<bool, Failure> {
    let booking = call.target().call::<GetBooking>(call.path()?).await?;
    Ok(booking.output.status == BookingStatus::Canceled)
}

/// Evaluates the cancellation without recording it.
async fn preview(call: Call<'_>, args: &CancelArgs) -> Result<Answer<PolicyEvaluation>, Failure> {
    let mut request = call.path()?;
    for (name, flag) in [
        ("canceledBy", "canceled-by"),
        ("reason", "reason"),
        ("effectiveAt", "effective-at"),
        ("agreedRefund", "agreed-refund"),
    ] {
        add(&mut request, name, call.typed(flag));
    }
    add(
        &mut request,
        "evidence",
        Some(args.evidence.len().to_string()),
    );
    call.target().call::<EvaluatePolicy>(request).await
}

fn consent(shown: &Evaluation, style: Style) -> Result<(), Failure> {
    let question = format!(
        "{}\n\nThis cancels the booking for good and records it in the ledger.",
        evaluation(shown, style)
    );
    consent::ask(&question, false)
}

/// The cancellation as it was typed, with the result that was shown as `expected`; the flag beside it says whether the server is too old
/// for all of it.
fn request(
    call: Call<'_>,
    evidence: &[NamedDocument],
    shown: Option<(&Evaluation, bool)>,
) -> Result<Request, Failure> {
    let mut body = call.members()?;
    let items = || serde_json::to_string(evidence).expect("text always serializes");
    body.put("evidence", (!evidence.is_empty()).then(items));
    if let Some((shown, is_older)) = shown {
        expect(&mut body, shown, is_older);
    }
    Ok(Request {
        body: body.to_string().into_bytes(),
        ..call.request()?
    })
}

/// Adds the result that was shown as `expected`.
fn expect(body: &mut JsonObject, shown: &Evaluation, is_older: bool) {
    let policy = shown.policy.as_ref();
    for (member, amount) in [
        ("expected.refundMinorUnits", shown.refund),
        (
            "expected.penaltyMinorUnits",
            shown.penalty.filter(|_| !is_older),
        ),
        (
            "expected.compensationMinorUnits",
            shown.compensation.filter(|_| !is_older),
        ),
    ] {
        body.put(member, amount.map(|amount| amount.minor().to_string()));
    }
    body.put(
        "expected.resolutionPath",
        Some(quoted(shown.resolution_path.word())),
    );
    body.put(
        "expected.policyHash",
        policy.map(|policy| quoted(&policy.policy_hash)),
    );
}

/// Reads a piece of evidence from `KIND=FILE`.
fn item(text: &str) -> Result<NamedDocument, Failure> {
    let Some((kind, file)) = text.split_once('=').filter(|(kind, _)| !kind.is_empty()) else {
        return Err(Failure::Usage(format!(
            "--evidence is \"{text}\"; write it like KIND=FILE, such as notice=mail.eml"
        )));
    };
    let path = Path::new(file);
    let bytes = files::bytes(path, DOCUMENT_BYTES)?;
    let name = path.file_name().map(|name| name.to_string_lossy());
    Ok(NamedDocument::of(kind, name.as_deref(), &bytes))
}

pages! { listed, of_all, "resolutions", resolution: Resolution =>
    "RESOLUTION" => resolution.resolution_id,
    "BOOKING" => resolution.booking_id,
    "STATUS" => resolution.status,
    "CANCELED" => resolution.canceled_at,
    "BY" => resolution.canceled_by,
    "PATH" => resolution.evaluation.resolution_path,
    "REFUND" => decided(resolution.evaluation.refund),
}

/// The result of a cancellation.
fn resolution(resolution: &Resolution, style: Style) -> String {
    let Resolution {
        evaluation,
        decision,
        ..
    } = resolution;
    let decision = decision.as_ref();
    let mut fields = fields! {
        "resolution" => resolution.resolution_id,
        "booking" => resolution.booking_id,
        "status" => resolution.status,
        "canceled by" => resolution.canceled_by,
        "reason" => resolution.reason,
        "canceled at" => resolution.canceled_at,
        "effective at" => resolution.effective_at,
        "path" => evaluation.resolution_path,
    };
    fields.extend(sums(evaluation));
    fields.extend(fields! {
        "why" => evaluation.explanation.text,
        "summary" => resolution.summary,
        "evidence" => resolution.evidence_grade,
        "decided by" => decision.map(|decision| &decision.decided_by),
        "decided at" => decision.map(|decision| decision.decided_at),
        "rationale" => decision.map(|decision| &decision.rationale),
        "supersedes" => resolution.supersedes,
        "superseded by" => resolution.superseded_by,
    });
    record(style, &fields) + &alternatives(evaluation, style)
}

#[cfg(test)]
mod tests {
    use bookguard_core::error::Obstacle;
    use bookguard_core::model::{Amount, BookingId, Currency, ResolutionId, Timestamp};
    use bookguard_core::policy::{
        self, Actor, Booked, EventDate, MissingZone, Mode, Policy, PolicySource, Question,
        Standing, Subject, Terms,
    };

    use super::*;

    /// The evaluation of an organizer's cancellation of a booking under the library's `firm`.
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
        let changed = ErrorBody {
            error: "Conflict".to_owned(),
            message: "Something else.".to_owned(),
            code: "quote_changed".to_owned(),
            details: Vec::new(),
            obstacle: Obstacle::default(),
            evaluation: Some(evaluation()),
        };
        assert_eq!(to_agree_to(false, &changed), Some(&evaluation()));
        // Asking again would only end in the same refusal, however often the user agrees.
        assert_eq!(to_agree_to(true, &changed), None);
        let canceled = ErrorBody {
            obstacle: Obstacle {
                resolution_id: Some(ResolutionId::from_bytes([7; 16])),
                ..Obstacle::default()
            },
            ..changed.clone()
        };
        let other = ErrorBody {
            code: "claim_window_closed".to_owned(),
            ..changed
        };
        for refused in [canceled, other] {
            assert_eq!(to_agree_to(false, &refused), None);
        }
    }

    #[test]
    fn an_older_server_is_held_to_what_it_knows() {
        let fault = |pointer, code| FieldError::new(pointer, code, "is wrong", "Mend it.");
        let [penalty, compensation] = LATER.map(|(pointer, _)| fault(pointer, "unknown_field"));
        let refused = |details: &[FieldError]| ErrorBody {
            error: "Bad Request".to_owned(),
            message: "Something else.".to_owned(),
            code: "invalid_request".to_owned(),
            details: details.to_vec(),
            obstacle: Obstacle::default(),
            evaluation: None,
        };
        assert!(is_too_old(&refused(std::slice::from_ref(&penalty))));
        assert!(is_too_old(&refused(&[penalty.clone(), compensation])));
        for other in [
            fault("/expected/penaltyMinorUnits", "wrong_type"),
            fault("/expected/refundMinorUnits", "unknown_field"),
        ] {
            assert!(!is_too_old(&refused(&[penalty.clone(), other])));
        }
        assert!(!is_too_old(&refused(&[])));

        let mut shown = evaluation();
        assert!(shown.refund.is_some());
        (shown.penalty, shown.compensation) = (shown.refund, shown.refund);
        let body = |is_older| {
            let mut body = JsonObject::default();
            expect(&mut body, &shown, is_older);
            let body: serde_json::Value = serde_json::from_str(&body.to_string()).unwrap();
            body["expected"].as_object().unwrap().clone()
        };
        let mut all = body(false);
        for (pointer, _) in LATER {
            let name = pointer.trim_start_matches("/expected/");
            assert!(all.remove(name).is_some(), "{name}");
        }
        assert_eq!(body(true), all);
        assert!(all.contains_key("refundMinorUnits") && all.contains_key("policyHash"));
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
