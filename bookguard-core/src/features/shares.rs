//! Shares: links with which people without an account see a booking's evidence.
//!
//! The partner makes and revokes them; [`find`], [`packet`] and [`view`] are for the server, which answers whoever follows a
//! link. A link holds a token of 256 random bits. Only its SHA-256 is stored, so the token is shown once, and neither the
//! database nor a backup opens anything. Shares are the partner's access control, not evidence: they are in no ledger entry.
//!
//! Invariant: an unknown token, an expired share and a revoked one are one case. The store is asked once, by the token's
//! hash, and returns nothing for all three, so they cannot be told apart by the answer or by the work it takes. A share of a partner whose
//! contract has ended answers as they do.

pub(crate) mod rule;

use serde::{Deserialize, Serialize};

use super::console::{hash_of, new_token};
use super::evidence;
use crate::engine::command::Envelope;
use crate::entropy;
use crate::error::{Error, Kind};
use crate::evidence::{SealedPacket, Share, StoredShare, ViewForm, Withheld};
use crate::input::{self, Declaration, Form, Value};
use crate::limits;
use crate::model::id::noun;
use crate::model::{BookingId, Page, PartnerId, Scope, ShareId, Timestamp};
use crate::operation::{
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, query_own,
    read, write,
};
use crate::policy;
use crate::service::Service;
use crate::session::{Access, Session};

const MINUTE_MS: i64 = 60 * 1000;
/// Durations that a share may last, as a pattern (ECMA 262). Weeks, days or hours that are too many by themselves do not match;
/// no pattern can add them up.
const LASTS_PATTERN: &str = concat!(
    "^P(0?[0-5]?[0-9]W(0?[0-3]?[0-9]{1,2}D)?(T(0?[0-8]?[0-9]{1,3}H([0-9]{1,4}M)?|[0-9]{1,4}M))?",
    "|0?[0-3]?[0-9]{1,2}D(T(0?[0-8]?[0-9]{1,3}H([0-9]{1,4}M)?|[0-9]{1,4}M))?",
    "|T(0?[0-8]?[0-9]{1,3}H([0-9]{1,4}M)?|[0-9]{1,4}M))$"
);

/// `POST /v1/bookings/{bookingId}/shares`
#[derive(Debug)]
pub struct CreateShare {
    pub(crate) partner_id: PartnerId,
    pub(crate) stored: StoredShare,
    pub(crate) reply: NewShare,
}

/// Body of [`CreateShare`], read and checked field by field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRequest {
    lasts_ms: i64,
    withhold: Vec<Withheld>,
    note: Option<String>,
}

impl Operation for CreateShare {
    const ROUTE: Route = Route {
        id: "createShare",
        path: "/v1/bookings/{bookingId}/shares",
        access: Access::Scope(Scope::EvidenceShare),
        audited: true,
        status: 201,
        body: Body::Optional(&ShareRequest::BODY),
        refusals: &[404, 409],
        tag: "Evidence",
        summary: "Share a booking's evidence by a link",
        description: "The `url` opens the evidence for anybody who has it, without an account, until it expires or is revoked; it is \
                      shown only in this answer. `withhold` names values that this link does not show. Every view is recorded: \
                      when and in which form, but not by whom. The ledger does not record shares.",
        ..Route::POST
    };
    type Output = NewShare;

    fn prepare(session: &Session, request: &Request) -> Result<Action<NewShare>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let ShareRequest {
            lasts_ms,
            withhold,
            note,
        } = ShareRequest::read(&request.body)?;
        let partner_id = query_own(session, &booking_id, |reader, id| reader.booking_owner(id))?;
        let at = session.service.clock().now();
        let (token, hash) = new_token();
        let share = Share {
            share_id: ShareId::new(at, entropy::bytes()),
            booking_id,
            created_at: at,
            expires_at: at.plus_ms(lasts_ms),
            revoked_at: None,
            withhold: withhold.clone(),
            note: note.clone(),
            views: 0,
            last_viewed_at: None,
            recent_views: Vec::new(),
        };
        let reply = NewShare {
            share_id: share.share_id,
            booking_id,
            url: format!("{}/s/{token}", session.service.public_url()),
            created_at: at,
            expires_at: share.expires_at,
            withhold,
            note,
        };
        let create = Self {
            partner_id,
            stored: StoredShare { share, hash },
            reply,
        };
        Ok(write(at, create))
    }
}

impl ShareRequest {
    /// The body's declaration.
    pub const BODY: Declaration = Declaration {
        name: "ShareRequest",
        about: "A link to a booking's evidence.",
        example: r#"{"expiresIn": "P14D", "withhold": ["ip", "userAgent"], "note": "Claims desk of the bank"}"#,
        reader: |v| v.object(Self::form).map(drop),
    };

    /// Reads the body of a share's creation; an empty body selects the defaults.
    ///
    /// # Errors
    /// Those of [`input`], and `bad_duration`.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        input::read(input::or_empty(body), Self::form)
    }

    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let lasts_ms = form
            .about("How long the link works: an ISO 8601 duration in weeks, days, hours and minutes, from PT1M to P366D.")
            .optional("expiresIn", |v| {
                v.describe(|draft| {
                    draft.set("pattern", LASTS_PATTERN);
                    draft.set("default", format!("P{}D", limits::SHARE_DAYS_DEFAULT));
                });
                lasts_ms(v)
            });
        let withhold = form
            .about("Values that the link does not show; none when not given.")
            .optional("withhold", |v| {
                v.array(Withheld::WORDS.len(), |item| item.choice(Withheld::WORDS))
            });
        let note = form
            .about("For your own list of shares; visitors do not see it.")
            .optional("note", |v| v.text(limits::NAME_CHARS));
        let mut withhold = withhold.unwrap_or_default();
        withhold.sort_unstable_by_key(|value| value.word());
        withhold.dedup();
        Some(Self {
            lasts_ms: lasts_ms.unwrap_or(limits::SHARE_DAYS_DEFAULT * limits::DAY_MS),
            withhold,
            note,
        })
    }
}

/// Reads how long a share lasts. A day has 24 hours here, because a link has no place on a calendar.
fn lasts_ms(v: &mut Value<'_, '_>) -> Option<i64> {
    let duration = policy::read_duration(v)?;
    let lasts = i64::from(duration.nominal_minutes()) * MINUTE_MS;
    if (MINUTE_MS..=limits::SHARE_DAYS * limits::DAY_MS).contains(&lasts) {
        return Some(lasts);
    }
    v.fault(
        "out_of_range",
        format!(
            "{duration} is not between a minute and {} days",
            limits::SHARE_DAYS
        ),
        format!("Send \"PT1M\" to \"P{}D\".", limits::SHARE_DAYS),
    )
}

/// `GET /v1/bookings/{bookingId}/shares`
pub struct ListShares;

impl Operation for ListShares {
    const ROUTE: Route = Route {
        id: "listShares",
        path: "/v1/bookings/{bookingId}/shares",
        access: Access::Scope(Scope::EvidenceRead),
        query: &[LIMIT, ids_cursor::<noun::Share>()],
        refusals: &[404],
        tag: "Evidence",
        summary: "List a booking's shares",
        description: "Newest first, with their recorded views; revoked and expired ones too, until a year after they expired. \
                      Never shows a link's address.",
        ..Route::GET
    };
    type Output = Page<Share>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Share>>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let page = paging::<noun::Share>(request)?;
        query_own(session, &booking_id, |reader, id| reader.booking_owner(id))?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.shares(&booking_id, page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |share| share.share_id))
        }))
    }
}

/// `DELETE /v1/bookings/{bookingId}/shares/{shareId}`
#[derive(Debug)]
pub struct RevokeShare {
    pub(crate) booking_id: BookingId,
    pub(crate) share_id: ShareId,
}

impl Operation for RevokeShare {
    const ROUTE: Route = Route {
        id: "revokeShare",
        path: "/v1/bookings/{bookingId}/shares/{shareId}",
        access: Access::Scope(Scope::EvidenceShare),
        audited: true,
        refusals: &[404],
        tag: "Evidence",
        summary: "Revoke a share",
        description: "The link shows nothing from then on, on every node. What was downloaded before cannot be taken back. Revoking a \
                      revoked share changes nothing and answers the same.",
        ..Route::DELETE
    };
    type Output = Share;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Share>, Error> {
        let booking_id: BookingId = path_id(request, 0)?;
        let share_id: ShareId = path_id(request, 1)?;
        query_own(session, &booking_id, |reader, id| reader.booking_owner(id))?;
        let revoke = Self {
            booking_id,
            share_id,
        };
        Ok(write(session.service.clock().now(), revoke))
    }
}

/// A new share, with the address that opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct NewShare {
    /// The share's id.
    pub share_id: ShareId,
    /// The booking whose evidence it shows.
    pub booking_id: BookingId,
    /// The address that opens the evidence. Shown once.
    pub url: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it shows nothing.
    pub expires_at: Timestamp,
    /// The values that it does not show, sorted by name.
    pub withhold: Vec<Withheld>,
    /// The partner's own note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Records that somebody looked. The reply is whether the share still showed anything.
#[derive(Debug)]
pub(crate) struct RecordView {
    pub(crate) share_id: ShareId,
    pub(crate) form: ViewForm,
}

/// Deletes shares that expired long ago, and their views with them.
#[derive(Debug)]
pub(crate) struct ForgetShares;

/// The share that this token opens now. Any text is looked up, whatever its form. Blocks.
///
/// # Errors
/// `not_found`, the same for a token that is unknown, expired or revoked, or of an ended contract; `unavailable` when the store does not answer.
pub fn find(service: &Service, token: &str) -> Result<Share, Error> {
    let (hash, now) = (hash_of(token), service.clock().now());
    let found = service.ask(|reader| reader.live_share(&hash, now))?;
    found.ok_or_else(no_such_link)
}

/// The error for a link that shows nothing, for whatever reason.
pub(crate) fn no_such_link() -> Error {
    Error::new(
        Kind::NotFound,
        "not_found",
        "This link shows nothing: it is incomplete, has expired, or was revoked. Ask whoever gave it to you for a new one.",
    )
}

/// The packet that a share shows. Blocks, and may take long.
///
/// # Errors
/// As for the booking's own packet.
pub fn packet(service: &Service, share: &Share) -> Result<SealedPacket, Error> {
    let key = (share.booking_id, share.withhold.clone());
    // The share itself is the permission.
    evidence::made(service, &key, |_| true)
}

/// The command that records a view of a share; `None` if it repeats one that is recorded already.
#[must_use]
pub fn view(service: &Service, share: &Share, form: ViewForm) -> Option<Envelope<()>> {
    let at = service.clock().now();
    let record = RecordView {
        share_id: share.share_id,
        form,
    };
    (share.is_new_view(form, at)).then(|| Envelope::new(at, record))
}

/// The instant before which a share must have expired to be deleted at `now`.
fn old_before(now: Timestamp) -> Timestamp {
    now.plus_ms(-limits::SHARE_KEPT_DAYS * limits::DAY_MS)
}

/// Deletes shares that expired long ago until none is left. Call this now and then. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer, and the writer's.
pub fn forget_old(service: &Service) -> Result<(), Error> {
    loop {
        let at = service.clock().now();
        if !service.ask(|reader| reader.has_old_shares(old_before(at)))? {
            return Ok(());
        }
        service.submit_and_wait(Envelope::new(at, ForgetShares))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_lasts_a_month_unless_said_otherwise_and_a_year_at_most() {
        let days = |n: i64| Ok(n * limits::DAY_MS);
        for (body, expected) in [
            ("", days(30)),
            ("{}", days(30)),
            (r#"{"expiresIn":"P1D"}"#, days(1)),
            (r#"{"expiresIn":"P366D"}"#, days(366)),
            (r#"{"expiresIn":"PT24H"}"#, days(1)),
            (r#"{"expiresIn":"PT1M"}"#, Ok(MINUTE_MS)),
            (r#"{"expiresIn":"PT0M"}"#, Err("out_of_range")),
            (r#"{"expiresIn":"P0D"}"#, Err("out_of_range")),
            (r#"{"expiresIn":"P366DT1M"}"#, Err("out_of_range")),
            (
                r#"{"expiresIn":"P999W9999DT99999H9999M"}"#,
                Err("out_of_range"),
            ),
            (r#"{"expiresIn":"P1Y"}"#, Err("bad_duration")),
            (r#"{"expiresIn":"-P1D"}"#, Err("bad_duration")),
            (r#"{"expiresIn":3600}"#, Err("wrong_type")),
            (r#"{"expiresIn":null}"#, Err("null")),
        ] {
            let read = ShareRequest::read(body.as_bytes());
            let lasts = read.map(|request| request.lasts_ms);
            let lasts = lasts.map_err(|e| e.details[0].code.to_string());
            assert_eq!(lasts, expected.map_err(str::to_owned), "{body}");
        }
    }

    #[test]
    fn withheld_values_are_sorted_and_named_once() {
        let read =
            |words: &str| ShareRequest::read(format!(r#"{{"withhold":{words}}}"#).as_bytes());
        let found = read(r#"["userAgent","ip","ip"]"#).unwrap().withhold;
        assert_eq!(found, [Withheld::Ip, Withheld::UserAgent]);
        assert!(read("[]").unwrap().withhold.is_empty());
        for words in [r#"["name"]"#, r#"["IP"]"#, r#""ip""#, "[1]"] {
            assert!(read(words).is_err(), "{words}");
        }
    }
}
