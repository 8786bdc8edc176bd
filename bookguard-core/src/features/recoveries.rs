//! Recoveries: deliver what a receiver missed again, without a request for each event.

pub(crate) mod rule;

use crate::engine::command::Envelope;
use crate::entropy;
use crate::error::Error;
use crate::features::recoveries::rule::endpoint_unknown;
use crate::input::{self, Declaration, Form, Value};
use crate::limits::RECOVERIES_AT_ONCE;
use crate::model::id::{Noun as _, id_pattern, noun};
use crate::model::{
    EndpointId, Page, PartnerId, Recovery, RecoveryId, RecoveryStatus, Scope, Timestamp, Unreceived,
};
use crate::operation::{
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, query_one,
    query_own, read, write,
};
use crate::service::Service;
use crate::session::{Access, Session};
use crate::store::StoreError;
use crate::store::read::Reader;
use crate::store::recoveries::Underway;

/// `POST /v1/webhook-events/recover`
#[derive(Debug)]
pub struct RecoverEvents {
    pub(crate) partner_id: PartnerId,
    /// The recovery asked for. The writer sets its last event.
    pub(crate) recovery: Recovery,
}

/// Body of [`RecoverEvents`].
const NEW_RECOVERY: Declaration = Declaration {
    name: "NewRecovery",
    about: "Which events to deliver again.",
    example: r#"{"since": "2026-11-20T00:00:00Z", "statuses": ["failed", "no_endpoints"], "dryRun": true}"#,
    reader: |v| {
        v.object(|form| RecoveryQuery::form(form, Timestamp::from_ms(i64::MAX)))
            .map(drop)
    },
};

impl Operation for RecoverEvents {
    const ROUTE: Route = Route {
        id: "recoverWebhookEvents",
        path: "/v1/webhook-events/recover",
        access: Access::Scope(Scope::WebhooksWrite),
        status: 202,
        body: Body::Required(&NEW_RECOVERY),
        refusals: &[409],
        tag: "Webhooks",
        summary: "Deliver again the events of a period that were not received",
        description: "Goes through the events of that period in order. An event that `failed` is attempted again at the \
                      endpoints where it failed, at once and with a new schedule of attempts, however old it is. If none of \
                      those endpoints is left, or the event had `no_endpoints`, it goes to the endpoints that take it now and \
                      have not received it. With `endpointId` only deliveries to that endpoint count, so an event it never \
                      received counts as `no_endpoints`: what happened before the endpoint was made, or while it was disabled, \
                      is sent to it after all.\n\n\
                      The answer says how far the recovery has got: `finished` at once when there is little to examine; a \
                      longer one continues by itself, also after a restart, and `GET /v1/webhook-recoveries/{recoveryId}` \
                      shows its progress. Its deliveries are begun oldest first, several at once, as the endpoints take them. It does not count \
                      as a manual retry. A delivery that was attempted 500 times is not begun once more. With `\"dryRun\": true` nothing is delivered, and the numbers say what would be. Each \
                      partner can run one recovery at a time, and begin 100 in 24 hours and as many dry runs.",
        ..Route::POST
    };
    type Output = Recovery;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Recovery>, Error> {
        let partner_id = session.partner_id()?;
        let at = session.service.clock().now();
        let asked = RecoveryQuery::read(&request.body, at)?;
        let after_seq = query_one(session, |reader| {
            reader.last_event_before(&partner_id, asked.since)
        })?;
        let recovery = Recovery {
            recovery_id: RecoveryId::new(at, entropy::bytes()),
            status: RecoveryStatus::Running,
            dry_run: asked.dry_run,
            since: asked.since,
            until: asked.until,
            statuses: asked.statuses,
            endpoint_id: asked.endpoint_id,
            after_seq,
            through_seq: after_seq,
            reached_seq: after_seq,
            examined: 0,
            recovered: 0,
            deliveries: 0,
            no_endpoints: 0,
            expired: 0,
            created_at: at,
            finished_at: None,
        };
        Ok(write(
            at,
            Self {
                partner_id,
                recovery,
            },
        ))
    }

    fn location(recovery: &Recovery) -> Option<String> {
        Some(format!("/v1/webhook-recoveries/{}", recovery.recovery_id))
    }
}

/// The contents of a recovery's request, read and completed.
#[derive(Debug, PartialEq, Eq)]
struct RecoveryQuery {
    since: Timestamp,
    until: Timestamp,
    statuses: Vec<Unreceived>,
    endpoint_id: Option<EndpointId>,
    dry_run: bool,
}

impl RecoveryQuery {
    /// # Errors
    /// Those of [`input`], `invalid_range` and `endpoint_unknown`.
    fn read(body: &[u8], now: Timestamp) -> Result<Self, Error> {
        let (asked, endpoint_id) = input::read(body, |form| Self::form(form, now))?;
        let endpoint_id =
            endpoint_id.map(|text| EndpointId::parse(&text).ok_or_else(endpoint_unknown));
        Ok(Self {
            endpoint_id: endpoint_id.transpose()?,
            ..asked
        })
    }

    /// Reads everything; the endpoint's id is returned as text, not yet parsed.
    fn form(form: &mut Form<'_, '_>, now: Timestamp) -> Option<(Self, Option<String>)> {
        let since = form
            .about("Only events that happened at this time or later.")
            .required("since", input::instant);
        let until = form
            .about("Only events that happened at this time or earlier. The default is now; a later time counts as now.")
            .optional("until", input::instant);
        let statuses = form
            .about("The status an event must have; either of the two when not given.")
            .optional("statuses", statuses);
        let endpoint_id = form
            .about("Only deliveries to this endpoint, which must not be disabled.")
            .optional("endpointId", |v| {
                v.describe(|draft| draft.set("pattern", id_pattern(noun::Endpoint::PREFIX)))
                    .string()
            });
        let dry_run = form
            .about("Whether to count only, and deliver nothing.")
            .optional("dryRun", |v| v.boolean());
        let until = until.map_or(now, |until| until.min(now));
        if let Some(since) = since
            && since >= until
        {
            form.fault_at(
                "since",
                "invalid_range",
                format!("is not before {until}, the end of the time to recover"),
                "Send a \"since\" that is before \"until\" and before now.",
            );
        }
        let asked = Self {
            since: since?,
            until,
            statuses: statuses.unwrap_or_else(|| Unreceived::WORDS.map(|(_, s)| s).into()),
            endpoint_id: None,
            dry_run: dry_run.unwrap_or(false),
        };
        Some((asked, endpoint_id))
    }
}

fn statuses(v: &mut Value<'_, '_>) -> Option<Vec<Unreceived>> {
    let most = Unreceived::WORDS.len();
    let mut statuses = v.at_least(1).array(most, |item| {
        item.named("Unreceived").choice(&Unreceived::WORDS)
    })?;
    statuses.sort_unstable();
    statuses.dedup();
    if statuses.is_empty() {
        return v.fault(
            "empty",
            "is empty; nothing would ever be recovered",
            "Name a status, or leave \"statuses\" out for both.",
        );
    }
    Some(statuses)
}

/// `GET /v1/webhook-recoveries/{recoveryId}`
pub struct GetRecovery;

impl Operation for GetRecovery {
    const ROUTE: Route = Route {
        id: "getWebhookRecovery",
        path: "/v1/webhook-recoveries/{recoveryId}",
        access: Access::Scope(Scope::WebhooksRead),
        refusals: &[404],
        tag: "Webhooks",
        summary: "How far a recovery has got",
        description: "Poll it until `status` is `finished`. Its deliveries may still be under way then: see the events.",
        ..Route::GET
    };
    type Output = Recovery;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Recovery>, Error> {
        let recovery_id: RecoveryId = path_id(request, 0)?;
        Ok(read::<Self>(move |session| {
            let found = query_own(session, &recovery_id, |reader, id| reader.recovery(id))?;
            Ok(found.1)
        }))
    }
}

/// `GET /v1/webhook-recoveries`
pub struct ListRecoveries;

impl Operation for ListRecoveries {
    const ROUTE: Route = Route {
        id: "listWebhookRecoveries",
        path: "/v1/webhook-recoveries",
        access: Access::Scope(Scope::WebhooksRead),
        query: &[LIMIT, ids_cursor::<noun::Recovery>()],
        tag: "Webhooks",
        summary: "List recoveries",
        description: "Newest first, dry runs included.",
        ..Route::GET
    };
    type Output = Page<Recovery>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<Recovery>>, Error> {
        let partner_id = session.partner_id()?;
        let page = paging(request)?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.recoveries(&partner_id, page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |recovery| recovery.recovery_id))
        }))
    }
}

/// Takes a recovery one step further. Does nothing if the recovery has already advanced.
#[derive(Debug)]
pub(crate) struct ContinueRecovery {
    pub(crate) partner_id: PartnerId,
    pub(crate) recovery_id: RecoveryId,
    /// The number of the last event examined.
    pub(crate) after: u64,
}

/// Commands that take running recoveries one step further, those of the partners after `after` first; only some of them when
/// there are many. Also returns the last of their partners, from which the next steps go on. Any process may run them at any
/// time.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn next_steps(
    service: &Service,
    reader: &mut Reader<'_>,
    after: PartnerId,
) -> Result<(Vec<Envelope<()>>, PartnerId), StoreError> {
    let at = service.clock().now();
    let step = |underway: &Underway| {
        let step = ContinueRecovery {
            partner_id: underway.partner_id,
            recovery_id: underway.recovery_id,
            after: underway.reached,
        };
        Envelope::new(at, step)
    };
    let underway = reader.recoveries_under_way(&after, RECOVERIES_AT_ONCE)?;
    let last = underway.last().map_or(after, |last| last.partner_id);
    Ok((underway.iter().map(step).collect(), last))
}

/// Does the same as [`next_steps`] from the first partner on, with a reader of its own. Blocks.
///
/// # Errors
/// `unavailable`.
pub fn due_steps(service: &Service) -> Result<Vec<Envelope<()>>, Error> {
    let first = PartnerId::from_bytes([0; 16]);
    let steps = service.ask(|reader| next_steps(service, reader, first))?;
    Ok(steps.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2027-01-02T00:00:00Z";

    fn read(body: &str) -> Result<RecoveryQuery, Vec<(String, String)>> {
        let now = Timestamp::parse(NOW).unwrap();
        RecoveryQuery::read(body.as_bytes(), now).map_err(|error| {
            let details = error.details.into_iter();
            details.map(|d| (d.pointer, d.code)).collect()
        })
    }

    #[test]
    fn omitted_members_of_a_recovery_have_their_defaults() {
        let since = Timestamp::parse("2027-01-01T00:00:00Z").unwrap();
        let now = Timestamp::parse(NOW).unwrap();
        let least = RecoveryQuery {
            since,
            until: now,
            statuses: vec![Unreceived::Failed, Unreceived::NoEndpoints],
            endpoint_id: None,
            dry_run: false,
        };
        assert_eq!(read(r#"{"since":"2027-01-01T00:00:00Z"}"#), Ok(least));
        let endpoint_id = EndpointId::new(since, [7; 10]);
        let body = format!(
            r#"{{"since":"2027-01-01T00:00:00Z","until":"2027-01-01T01:00:00+01:00","statuses":["no_endpoints","no_endpoints"],
                "endpointId":"{endpoint_id}","dryRun":true}}"#
        );
        assert_eq!(
            read(&body),
            Err(vec![("/since".to_owned(), "invalid_range".to_owned())]),
            "an offset counts"
        );
        let all = RecoveryQuery {
            since,
            until: since.plus_ms(3_600_000),
            statuses: vec![Unreceived::NoEndpoints],
            endpoint_id: Some(endpoint_id),
            dry_run: true,
        };
        assert_eq!(read(&body.replace("+01:00", "Z")), Ok(all));
        let at_now = format!(r#"{{"since":"{NOW}"}}"#);
        assert_eq!(
            read(&at_now),
            Err(vec![("/since".to_owned(), "invalid_range".to_owned())])
        );
        let unknown = r#"{"since":"2027-01-01T00:00:00Z","endpointId":"x"}"#;
        assert_eq!(
            read(unknown),
            Err(vec![(
                "/endpointId".to_owned(),
                "endpoint_unknown".to_owned()
            )])
        );
        // A period cannot reach into the future.
        let later = r#"{"since":"2027-01-01T00:00:00Z","until":"2028-01-01T00:00:00Z"}"#;
        assert_eq!(read(later).unwrap().until, now);
    }
}
