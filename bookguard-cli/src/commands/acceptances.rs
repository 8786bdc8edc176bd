//! `bookings disclosure` and `bookings accept`: what a booking's terms say, and who accepted them.

use bookguard_core::evidence::Acceptance;
use bookguard_core::features::acceptances::{
    AcceptTerms, Accepted, BookingDisclosure, DisclosedTerms, GetDisclosure,
};
use bookguard_core::operation::Request;
use clap::Args;
use serde_json::json;

use super::{at, once_only, with};
use crate::args::OnceArgs;
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::table::{Style, leaf, list, record, time};
use crate::target::Target;
use crate::text::plain;

/// What is said of an acceptance.
#[derive(Debug, Args)]
pub struct AcceptArgs {
    /// The booking's id
    pub booking_id: String,
    /// Who accepted: organizer, talent or partner
    #[arg(long, value_name = "WHO")]
    pub party: String,
    /// How, in your own words: checkbox, e-signature, email …
    #[arg(long, value_name = "HOW")]
    pub method: String,
    /// When the party accepted (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub at: String,
    /// The hash of the text that was shown, as `bookings disclosure` gives it
    #[arg(long, value_name = "HASH")]
    pub disclosure_hash: String,
    /// The network address it came from
    #[arg(long, value_name = "ADDRESS")]
    pub ip: Option<String>,
    /// The program it was made with
    #[arg(long, value_name = "NAME")]
    pub user_agent: Option<String>,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// Records an acceptance.
///
/// # Errors
/// Those of the call.
pub(super) async fn accept(
    target: &Target,
    args: AcceptArgs,
    screen: &Screen,
) -> Result<(), Failure> {
    let mut body = json!({
        "party": args.party, "method": args.method, "at": args.at, "disclosureHash": args.disclosure_hash,
    });
    body = with(body, "ip", args.ip);
    body = with(body, "userAgent", args.user_agent);
    let request = Request {
        body: body.to_string().into_bytes(),
        ..at(&args.booking_id)
    };
    let answer = target
        .call::<AcceptTerms>(once_only(request, args.once))
        .await?;
    screen.show(&answer, accepted)
}

/// Shows the terms in words, and who accepted them.
///
/// # Errors
/// Those of the call.
pub(super) async fn disclosure(
    target: &Target,
    booking_id: &str,
    screen: &Screen,
) -> Result<(), Failure> {
    screen.show(
        &target.call::<GetDisclosure>(at(booking_id)).await?,
        disclosure_shown,
    )
}

/// An acceptance just recorded.
fn accepted(accepted: &Accepted, style: Style) -> String {
    let Accepted {
        acceptance,
        receipt,
    } = accepted;
    let fields = [
        ("booking", Some(acceptance.booking_id.to_string())),
        ("party", Some(acceptance.party.to_string())),
        ("method", Some(acceptance.method.clone())),
        ("at", Some(time(acceptance.at))),
        ("ip", acceptance.ip.clone()),
        ("user agent", acceptance.user_agent.clone()),
        ("text", Some(acceptance.disclosure_hash.clone())),
        ("wording", Some(acceptance.disclosure_version.clone())),
        ("recorded", Some(time(acceptance.accepted_at))),
        ("log", Some(receipt.log_origin.clone())),
        ("leaf", Some(leaf(receipt))),
        ("leaf hash", Some(receipt.leaf_hash.clone())),
    ];
    record(style, &fields)
}

/// The terms in words, who accepted them, and the terms before.
fn disclosure_shown(disclosure: &BookingDisclosure, style: Style) -> String {
    let current = &disclosure.current;
    // Sentences of any length: a table would only be in their way.
    let text: Vec<_> = current.text.lines().map(plain).collect();
    let fields = [
        ("booking", Some(disclosure.booking_id.to_string())),
        ("text", Some(current.disclosure_hash.clone())),
        ("wording", Some(current.version.clone())),
        ("since", Some(time(current.since))),
        ("accepted by", Some(parties(&current.acceptances))),
    ];
    let mut shown = format!("{}\n\n{}", text.join("\n"), record(style, &fields));
    if !disclosure.former.is_empty() {
        shown.push_str("\n\nBefore the event was moved:\n");
        shown.push_str(&former(&disclosure.former, style));
    }
    shown
}

fn former(terms: &[DisclosedTerms], style: Style) -> String {
    let rows = terms.iter().map(|terms| {
        [
            terms.disclosure_hash.clone(),
            time(terms.since),
            terms.until.map_or_else(String::new, time),
            time(terms.event_date),
            parties(&terms.acceptances),
        ]
    });
    let header = ["TEXT", "SINCE", "UNTIL", "EVENT DATE", "ACCEPTED BY"];
    list(style, "texts", header, rows.collect())
}

fn parties(acceptances: &[Acceptance]) -> String {
    let each = acceptances.iter().map(|acceptance| {
        let (party, method) = (acceptance.party, &acceptance.method);
        format!("{party} ({method}, {})", time(acceptance.at))
    });
    match each.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "nobody".to_owned(),
        some => some,
    }
}
