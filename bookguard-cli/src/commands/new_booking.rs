//! A new booking's JSON, from the flags of `bookings create`.
//!
//! Invariant: amounts and policies go out exactly as they were typed; no number passes through a float here.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::commands::cli::NewBookingArgs;
use crate::failure::Failure;
use crate::files::{self, REQUEST_BYTES};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewBooking<'a> {
    talent: Party<'a>,
    organizer: Party<'a>,
    event_type: &'a str,
    event_date: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<&'a str>,
    booking_value: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount_paid: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct Party<'a> {
    id: &'a str,
    name: &'a str,
}

/// The body of `POST /v1/bookings`.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read, an amount that is not a number, a pair that is none.
pub fn body(args: &NewBookingArgs) -> Result<Vec<u8>, Failure> {
    if let Some(file) = &args.json {
        return files::bytes(file, REQUEST_BYTES);
    }
    let booking = NewBooking {
        talent: Party {
            id: given(&args.talent_id),
            name: given(&args.talent_name),
        },
        organizer: Party {
            id: given(&args.organizer_id),
            name: given(&args.organizer_name),
        },
        event_type: given(&args.event_type),
        event_date: given(&args.event_date),
        time_zone: args.time_zone.as_deref(),
        booking_value: digits("--value", given(&args.value))?,
        amount_paid: args
            .amount_paid
            .as_deref()
            .map(|text| digits("--amount-paid", text))
            .transpose()?,
        currency: args.currency.as_deref(),
        policy_id: args.policy_id.as_deref(),
        policy: args.policy.as_deref().map(policy).transpose()?,
        metadata: pairs(&args.metadata)?,
    };
    Ok(serde_json::to_vec(&booking)
        .expect("text, raw JSON and a map with text keys always serialize"))
}

/// A flag the parser requires whenever `--json` is not there.
fn given(flag: &Option<String>) -> &str {
    flag.as_deref().unwrap_or_default()
}

/// An amount exactly as it was typed.
///
/// # Errors
/// [`Failure::Usage`] for what is not a number.
pub(super) fn digits(flag: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    number
        .then(|| RawValue::from_string(text.to_owned()).ok())
        .flatten()
        .ok_or_else(|| {
            Failure::Usage(format!(
                "{flag} is \"{text}\", which is not a number; write it like 1200 or 1200.50"
            ))
        })
}

fn policy(file: &Path) -> Result<Box<RawValue>, Failure> {
    let text = files::text(file, REQUEST_BYTES)?;
    RawValue::from_string(text)
        .map_err(|e| Failure::Usage(format!("{} is not JSON: {e}", file.display())))
}

fn pairs(texts: &[String]) -> Result<BTreeMap<&str, &str>, Failure> {
    let mut pairs = BTreeMap::new();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else {
            return Err(Failure::Usage(format!(
                "--metadata is \"{text}\"; write it like KEY=VALUE"
            )));
        };
        if pairs.insert(key, value).is_some() {
            return Err(Failure::Usage(format!(
                "--metadata names \"{key}\" twice; give every key once"
            )));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(value: &str) -> NewBookingArgs {
        let text = |text: &str| Some(text.to_owned());
        NewBookingArgs {
            json: None,
            talent_id: text("t"),
            talent_name: text("T \"quoted\""),
            organizer_id: text("o"),
            organizer_name: text("O"),
            event_type: text("concert"),
            event_date: text("2027-06-01T20:00:00Z"),
            value: text(value),
            currency: None,
            amount_paid: None,
            time_zone: None,
            policy_id: None,
            policy: None,
            metadata: Vec::new(),
            once: crate::args::OnceArgs::default(),
        }
    }

    #[test]
    fn amounts_go_out_as_they_were_typed() {
        for value in [
            "1200",
            "12.50",
            "1e2",
            "9999999999999.99",
            "-1",
            "0.10",
            "1e400",
        ] {
            let body = String::from_utf8(body(&args(value)).unwrap()).unwrap();
            assert!(
                body.contains(&format!("\"bookingValue\":{value}")),
                "{body}"
            );
            assert!(body.contains(r#""name":"T \"quoted\"""#), "{body}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused_before_it_is_sent() {
        for value in [
            "",
            "12,50",
            ".5",
            "5.",
            "$5",
            "\"5\"",
            "{}",
            "1 2",
            "1,\"x\":2",
            "NaN",
            "+5",
            "05",
        ] {
            let failure = body(&args(value)).unwrap_err();
            assert!(
                matches!(&failure, Failure::Usage(why) if why.contains("--value")),
                "{value}: {failure:?}"
            );
        }
    }

    #[test]
    fn pairs_are_split_at_the_first_equals_sign_and_named_once() {
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let good = texts(&["a=b=c", "d="]);
        assert_eq!(
            pairs(&good).unwrap(),
            BTreeMap::from([("a", "b=c"), ("d", "")])
        );
        for bad in [texts(&["a"]), texts(&["a=1", "a=2"])] {
            assert!(
                matches!(pairs(&bad), Err(Failure::Usage(why)) if why.contains("--metadata")),
                "{bad:?}"
            );
        }
    }
}
