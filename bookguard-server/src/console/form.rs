//! Forms: what was typed as an operation's body, and an operation's faults beside what was typed.
//!
//! A field is named by the JSON pointer of its member in the body, such as `/talent/name`, so the pointers of a refusal name
//! fields.

mod draft;
mod field;
mod fields;

use bookguard_core::error::{self, Error};
use poem::http::StatusCode;

use super::Asked;
use crate::refusal::status_of;
pub(super) use draft::Draft;
pub(super) use field::{Field, Kind, choices, id_of, labelled};
pub(super) use fields::Fields;

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

/// The status of a page with a form that was refused.
pub(super) fn status(refused: Option<&Error>) -> StatusCode {
    refused.map_or(StatusCode::OK, |error| status_of(error.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

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
