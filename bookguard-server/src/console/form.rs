//! Forms: what was typed as an operation's body, and an operation's faults beside what was typed.
//!
//! A field is named by the JSON pointer of its member in the body, such as `/talent/name`, so the pointers of a refusal name
//! fields.

mod draft;
mod field;
mod fields;
mod preview;

use bookguard_core::error::{self, Error};
use poem::http::StatusCode;

use super::Asked;
use crate::refusal::status_of;
pub(super) use draft::Draft;
pub(super) use field::{Field, Kind, choices, id_of, labelled};
pub(super) use fields::Fields;
pub(super) use preview::{Act, Outcome, Preview};

/// Whether whoever sent a form can do something about its refusal on the same page: correct it, or send it again later. What was
/// typed stays there. If the page reads anything and is refused that too, such as for want of a scope, only the refusal is shown.
pub(super) fn is_correctable(error: &Error) -> bool {
    matches!(
        error.kind,
        error::Kind::Invalid
            | error::Kind::Conflict
            | error::Kind::KeyReused
            | error::Kind::Forbidden
            | error::Kind::RateLimited
            | error::Kind::Unavailable
    )
}

/// What a list found, and the request with why its filter was refused.
///
/// # Errors
/// All other refusals.
pub(super) fn filtered<T>(
    asked: &Asked,
    found: Result<T, Error>,
) -> Result<(Option<T>, Asked), Error> {
    match found {
        Ok(found) => Ok((Some(found), asked.clone())),
        Err(error) if error.kind == error::Kind::Invalid => {
            Ok((None, asked.with_refusal(in_fields(error, ""))))
        }
        Err(error) => Err(error),
    }
}

/// The refusal of a query, with its parameters named as the fields are: by their names after these characters.
pub(super) fn in_fields(mut error: Error, before: &str) -> Error {
    for detail in &mut error.details {
        if let Some(name) = detail.pointer.strip_prefix('?') {
            detail.pointer = format!("{before}{name}");
        }
    }
    error
}

/// Puts a refusal into words for somebody who sees a form, and not the request that is made of it. Empty words stay as they are.
pub(super) fn as_typed(error: &mut Error) {
    let obstacle = error.obstacle.as_ref();
    let is_canceled = obstacle.is_some_and(|obstacle| obstacle.resolution_id.is_some());
    let whole = match &*error.code {
        "api_key_ended" => "The key has ended. Create another one.",
        "booking_already_canceled" => {
            "The booking is already canceled, and nothing was recorded now. Its page shows how it was canceled."
        }
        "event_date_unchanged" => "The event has this date and time zone already. Choose another.",
        "partner_not_pending" => "The partner is approved already. Nothing was made now.",
        "quote_changed" if is_canceled => {
            "The booking is already canceled, and not with the result that was shown. Nothing was recorded now."
        }
        "quote_changed" => {
            "The cancellation comes to something else by now, so nothing was recorded. Look at the new result."
        }
        "resolution_already_decided" => {
            "The cancellation was decided already, and nothing was recorded now. The page of the booking shows the decision."
        }
        "resolution_final" => {
            "The policy settled this cancellation, so there is nothing to decide."
        }
        "too_many_keys" => {
            "There are as many working keys as a partner may have. Revoke one first. If you replace one, let the old one end now."
        }
        _ => "",
    };
    if !whole.is_empty() {
        whole.clone_into(&mut error.message);
    }
    for fault in &mut error.details {
        let (message, fix) = match (&*fault.code, &*fault.fix) {
            ("agreement_missing", _) => (
                "",
                "Tick the organizer and the talent once both agreed; else cancel the booking.",
            ),
            ("agreed_refund_not_mutual", _) => {
                ("", "Leave it empty, or choose “Mutual” as who cancels.")
            }
            ("agreed_refund_required", _) => (
                "is missing, and a mutual cancellation needs it",
                "Enter what both sides agreed on.",
            ),
            ("no_show_before_event", _) => (
                "does not fit: nobody can have missed an event that had not begun",
                "Choose another reason, or a time from the start of the event on.",
            ),
            // The field for the date takes no offset.
            ("time_zone_required", _) => (
                "is missing, and the date is a local time",
                "Name the one that it is meant in, such as Europe/Berlin.",
            ),
            ("empty", fix) if fix.starts_with("Name a status") => ("", "Tick at least one."),
            ("event_date_passed", _) => ("has passed", "Choose a later date."),
            ("effective_at_in_future" | "effective_at_before_booking", _) => (
                "is not between the booking's creation and now",
                "Choose a time between them, or leave it empty.",
            ),
            ("effective_at_before_reschedule", _) => (
                "is before the event was last moved",
                "Choose a later time, or leave it empty. If both sides agreed on another result, choose “Mutual” as who cancels.",
            ),
            ("invalid_date", _) => match &*fault.pointer {
                "eventFrom" | "eventTo" => ("", "Write a day such as 2027-06-20."),
                // That of the example of a policy, before and after it is named as its field is.
                "eventDate" | "?eventDate" => (
                    "",
                    "Write a date such as 2027-06-20, or with a time: 2027-06-20T19:00.",
                ),
                _ => ("", "Write a date and a time such as 2027-06-20T19:00."),
            },
            ("invalid_range", _) => match &*fault.pointer {
                "eventFrom" => (
                    "is not before the day under “Event before”",
                    "Choose an earlier one, or empty one of the two.",
                ),
                "since" => (
                    "is not before the time under “Before (UTC)”",
                    "Choose an earlier one, or empty one of the two.",
                ),
                _ => (
                    "is not before the end of the time",
                    "Choose a time before it and before now.",
                ),
            },
            ("wrong_type", "Send a number.") => (
                "",
                "Write digits, and a point before decimals, such as 1167.00.",
            ),
            _ => ("", ""),
        };
        if !message.is_empty() {
            message.clone_into(&mut fault.message);
        }
        if !fix.is_empty() {
            fix.clone_into(&mut fault.fix);
        } else if let Some(what) = fault.fix.strip_prefix("Send ") {
            fault.fix = format!("Enter {what}");
        }
    }
}

/// The status of a page with a form that was refused.
pub(super) fn status(refused: Option<&Error>) -> StatusCode {
    refused.map_or(StatusCode::OK, |error| status_of(error.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookguard_core::error::FieldError;

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_form() {
        let fault = |code, fix| FieldError::new("/x", code, "is wrong", fix);
        let mut refused = Error::faults(vec![
            fault("wrong_type", "Send a number."),
            fault("too_long", "Send at most 2."),
            fault("event_date_passed", "Send a date after the agreement."),
            fault("other", "Add its code."),
        ]);
        // A refusal that is told twice is told alike.
        for _ in 0..2 {
            as_typed(&mut refused);
            let told = refused.details.iter();
            let told: Vec<_> = told.map(|fault| (&*fault.message, &*fault.fix)).collect();
            let expected = [
                (
                    "is wrong",
                    "Write digits, and a point before decimals, such as 1167.00.",
                ),
                ("is wrong", "Enter at most 2."),
                ("has passed", "Choose a later date."),
                ("is wrong", "Add its code."),
            ];
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn what_can_be_corrected_or_sent_later_is_refused_on_the_form() {
        #[rustfmt::skip]
        let cases = [
            (error::Kind::Invalid, Some(StatusCode::BAD_REQUEST)),
            (error::Kind::Conflict, Some(StatusCode::CONFLICT)),
            (error::Kind::Forbidden, Some(StatusCode::FORBIDDEN)),
            (error::Kind::RateLimited, Some(StatusCode::TOO_MANY_REQUESTS)),
            (error::Kind::Unavailable, Some(StatusCode::SERVICE_UNAVAILABLE)),
            (error::Kind::NotFound, None),
            (error::Kind::Unauthorized, None),
            (error::Kind::Internal, None),
        ];
        for (kind, shown) in cases {
            let refused = Error::new(kind, "code", "No.");
            let told = is_correctable(&refused).then(|| status(Some(&refused)));
            assert_eq!(told, shown, "{kind:?}");
        }
    }
}
