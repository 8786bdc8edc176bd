//! Reading the audit. Its records are made where commands are prepared, for all operations alike ([`crate::operation`]).

use crate::error::{Error, FieldError};
use crate::model::id::noun;
use crate::model::{AuditRecord, Page, Scope};
use crate::operation::{
    Action, LIMIT, Operation, QueryForm, QueryParam, Request, Route, ids_cursor, paging, query,
    query_fault, query_instant, query_value, read,
};
use crate::session::{Access, Authority, Session};
use crate::store::audit::AuditFilter;

/// The longest name of an action.
const ACTION_CHARS: usize = 64;

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
                description: "Only records of this operation, by its `operationId`.",
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
        description: "Newest first: every change of your keys, secrets, endpoints and policies, and what the service's operator did \
                      for you or to your account. A request that was refused, or changed nothing, has no record.",
        ..Route::GET
    };
    type Output = Page<AuditRecord>;

    fn prepare(session: &Session, request: &Request) -> Result<Action<Page<AuditRecord>>, Error> {
        let (partner_id, is_partner) = match &session.authority {
            Authority::Administrator { partner_id, .. } => (*partner_id, false),
            _ => (Some(session.partner_id()?), true),
        };
        let page = paging(request)?;
        let mut faults = Vec::new();
        let filter = AuditFilter {
            partner_id,
            action: action(request, &mut faults),
            since: query_instant(request, "since", &mut faults),
            until: query_instant(request, "until", &mut faults),
        };
        if !faults.is_empty() {
            return Err(Error::faults(faults));
        }
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.audit(&filter, page.before, page.limit + 1)
            })?;
            let mut page = Page::of(rows, page.limit, |record| record.audit_id.to_string());
            if is_partner {
                let shown = page.data.into_iter().map(AuditRecord::for_partner);
                page.data = shown.collect();
            }
            Ok(page)
        }))
    }
}

fn action(request: &Request, faults: &mut Vec<FieldError>) -> Option<String> {
    let text = query_value(request, "action")?;
    let named =
        (1..=ACTION_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic());
    if !named {
        faults.push(query_fault(
            "action",
            "not_allowed",
            "is not the name of an operation",
            "Send an operationId of the interface document, such as createApiKey.",
        ));
    }
    named.then(|| text.to_owned())
}
