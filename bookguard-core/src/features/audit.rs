//! Reading the audit, and deleting what is too old. Records are made where commands are prepared, for all operations alike
//! ([`crate::operation`]).

pub(crate) mod rule;

use crate::engine::command::Envelope;
use crate::error::Error;
use crate::limits;
use crate::model::id::noun;
use crate::model::{AuditId, AuditRecord, Page, Scope, Timestamp};
use crate::operation::{
    Action, LIMIT, Operation, QueryForm, QueryParam, QueryReader, Request, Route, ids_cursor,
    query, read,
};
use crate::service::Service;
use crate::session::{Access, Authority, Session};
use crate::store::audit::AuditFilter;

/// The actions that can concern a partner: the ids of operations, and what people do in its console. Records keep a name for as long
/// as they are kept, so none goes from here that was ever recorded.
pub const ACTIONS: &[&str] = &[
    "acceptTerms",
    "addEvidenceItem",
    "approvePartner",
    "cancelBooking",
    "createApiKey",
    "createBooking",
    "createConsoleLink",
    "createShare",
    "createWebhookEndpoint",
    "decideResolution",
    "deleteEvidenceItemFile",
    "deleteWebhookEndpoint",
    "editPartner",
    "endConsoleSession",
    "endContract",
    "eraseValues",
    "openConsoleLink",
    "placeHold",
    "protectBooking",
    "putEvidenceItemFile",
    "putPolicy",
    "recoverWebhookEvents",
    "registerPartner",
    "reinstatePartner",
    "releaseHold",
    "rescheduleBooking",
    "retryWebhookEvent",
    "revokeApiKey",
    "revokeShare",
    "rotateApiKey",
    "rotatePartnerSecret",
    "rotateWebhookEndpointSecret",
    "setQuota",
    "signOut",
    "startConsoleSession",
    "suspendPartner",
    "testWebhookEndpoint",
    "updatePartner",
    "updateWebhookEndpoint",
];

/// The actions that concern only the operator's own keys and people, or the whole database.
pub const SERVICE_ACTIONS: &[&str] = &[
    "acceptRollback",
    "createOperatorKey",
    "createOperatorLink",
    "endOperatorSession",
    "openOperatorLink",
    "pruneAudit",
    "pruneWebhookEvents",
    "revokeOperatorKey",
    "signOutOperator",
    "startOperatorSession",
];

/// `GET /v1/audit`
pub struct ListAudit;

impl Operation for ListAudit {
    const ROUTE: Route = Route {
        id: "listAudit",
        path: "/v1/audit",
        access: Access::Scope(Scope::AuditRead),
        query: &[
            QueryParam {
                name: "action",
                description: "Only records with this `action`.",
                form: QueryForm::Action,
            },
            QueryParam {
                name: "since",
                description: "Only records made at this RFC 3339 instant or later.",
                form: QueryForm::Instant,
            },
            QueryParam {
                name: "until",
                description: "Only records made before this RFC 3339 instant.",
                form: QueryForm::Instant,
            },
            LIMIT,
            ids_cursor::<noun::Audit>(),
        ],
        tag: "Audit",
        summary: "Who changed what",
        description: "Newest first: every change of your keys, secrets, endpoints and policies, every legal hold, erasure and link to \
                      evidence, and what the service's operator did for you or to your account. A request that was refused, or changed nothing, has no record.",
        ..Route::GET
    };
    type Output = Page<AuditRecord>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<AuditRecord>>, Error> {
        let (partner_id, is_partner) = match &session.authority {
            Authority::Administrator { partner_id, .. } => (*partner_id, false),
            _ => (Some(session.partner_id()?), true),
        };
        let mut params = QueryReader::of(request);
        let page = params.paging();
        let action = action(&mut params);
        let (since, until) = params.range("since", "until");
        let filter = AuditFilter {
            partner_id,
            action,
            since,
            until,
        };
        params.end()?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.audit(&filter, page.before, page.limit + 1)
            })?;
            let mut page = Page::of(rows, page.limit, |record| record.audit_id);
            if is_partner {
                let shown = page.data.into_iter().map(AuditRecord::for_partner);
                page.data = shown.collect();
            }
            Ok(page)
        }))
    }
}

fn action(params: &mut QueryReader<'_>) -> Option<String> {
    let all = [ACTIONS, SERVICE_ACTIONS].concat();
    let words: Vec<_> = all.into_iter().map(|name| (name, name)).collect();
    params.choice("action", &words).map(str::to_owned)
}

/// A page of old records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldRecords {
    /// How many there are.
    pub records: u64,
    /// The newest of them; `None` if there are none.
    pub newest: Option<AuditId>,
    /// Whether there may be more.
    pub more: bool,
}

impl OldRecords {
    /// The command that deletes them and all older ones; `None` if there are none.
    #[must_use]
    pub fn command(&self, at: Timestamp) -> Option<Envelope<u64>> {
        let prune = PruneAudit {
            records: self.records,
            newest: self.newest?,
        };
        Some(Envelope::new(at, prune))
    }
}

/// Deletes old records. The reply is their number, or 0 if they are too young to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PruneAudit {
    /// How many a look found.
    pub(crate) records: u64,
    /// The newest of them.
    pub(crate) newest: AuditId,
}

/// Looks at a page of the records made before `before`, oldest first, from the beginning or after a record. Blocks.
///
/// # Errors
/// `unavailable` when the store does not answer.
pub fn look(
    service: &Service,
    before: Timestamp,
    after: Option<AuditId>,
) -> Result<OldRecords, Error> {
    let after = after.unwrap_or(AuditId::from_bytes([0; 16]));
    let found = service.ask(|reader| {
        reader.old_records(&after, &AuditId::earliest(before), limits::AUDIT_PRUNED)
    })?;
    Ok(OldRecords {
        records: found.len() as u64,
        newest: found.last().copied(),
        more: found.len() == limits::AUDIT_PRUNED as usize,
    })
}
