//! Creating, listing and revoking operator keys, on the database itself.

pub(crate) mod rule;

use serde::{Deserialize, Serialize};

use crate::engine::command::NewOperatorKey;
use crate::entropy;
use crate::error::Error;
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::id::noun;
use crate::model::{ApiKeySecret, OperatorKey, OperatorKeyId, Page, Timestamp};
use crate::operation::{
    Action, Body, LIMIT, Operation, Request, Route, ids_cursor, paging, path_id, query, read, write,
};
use crate::session::{Access, Session};

/// `bookguard operator-keys create`
#[derive(Debug)]
pub struct CreateOperatorKey {
    pub(crate) key: NewOperatorKey,
    pub(crate) reply: CreatedOperatorKey,
}

/// Body of [`CreateOperatorKey`].
struct OperatorKeyRequest {
    name: String,
}

impl Operation for CreateOperatorKey {
    const ROUTE: Route = Route {
        id: "createOperatorKey",
        path: "/v1/operator-keys",
        access: Access::Database,
        status: 201,
        body: Body::Required(&OPERATOR_KEY_REQUEST),
        tag: "Operator keys",
        summary: "Create an operator key",
        description: "Only on the database itself.",
        ..Route::POST
    };
    type Output = CreatedOperatorKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<CreatedOperatorKey>, Error> {
        let OperatorKeyRequest { name } = input::read(&request.body, OperatorKeyRequest::form)?;
        let at = session.service.clock().now();
        let secret = ApiKeySecret::of_operator(|| entropy::bytes::<1>()[0]);
        let key = OperatorKey {
            operator_key_id: OperatorKeyId::new(at, entropy::bytes()),
            name,
            hint: secret.hint(),
            created_at: at,
            revoked_at: None,
        };
        let reply = CreatedOperatorKey {
            operator_key_id: key.operator_key_id,
            operator_key: secret.reveal().to_owned(),
            name: key.name.clone(),
            created_at: at,
        };
        let key = NewOperatorKey {
            key,
            hash: secret.hash(),
        };
        Ok(write(at, Self { key, reply }))
    }
}

const OPERATOR_KEY_REQUEST: Declaration = Declaration {
    name: "OperatorKeyRequest",
    about: "An operator key to create.",
    example: r#"{"name": "Console of the support team"}"#,
    reader: |v| v.object(OperatorKeyRequest::form).map(drop),
};

impl OperatorKeyRequest {
    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let name = form
            .about("Who or what uses it.")
            .required("name", |v| v.text(limits::NAME_CHARS));
        Some(Self { name: name? })
    }
}

/// `bookguard operator-keys list`
pub struct ListOperatorKeys;

impl Operation for ListOperatorKeys {
    const ROUTE: Route = Route {
        id: "listOperatorKeys",
        path: "/v1/operator-keys",
        access: Access::Database,
        query: &[LIMIT, ids_cursor::<noun::OperatorKey>()],
        tag: "Operator keys",
        summary: "List operator keys",
        description: "Only on the database itself.",
        ..Route::GET
    };
    type Output = Page<OperatorKey>;

    fn prepare(_: &Session, request: &Request) -> Result<Action<Page<OperatorKey>>, Error> {
        let page = paging(request)?;
        Ok(read::<Self>(move |session| {
            let rows = query(session, |reader| {
                reader.operator_keys(page.before, page.limit + 1)
            })?;
            Ok(Page::of(rows, page.limit, |key| key.operator_key_id))
        }))
    }
}

/// `bookguard operator-keys revoke`
#[derive(Debug)]
pub struct RevokeOperatorKey {
    pub(crate) operator_key_id: OperatorKeyId,
}

impl Operation for RevokeOperatorKey {
    const ROUTE: Route = Route {
        id: "revokeOperatorKey",
        path: "/v1/operator-keys/{operatorKeyId}",
        access: Access::Database,
        refusals: &[404],
        tag: "Operator keys",
        summary: "Revoke an operator key",
        description: "Only on the database itself. Takes effect at once on every node. Revoking a revoked key changes nothing.",
        ..Route::DELETE
    };
    type Output = OperatorKey;

    fn prepare(session: &Session, request: &Request) -> Result<Action<OperatorKey>, Error> {
        let operator_key_id = path_id(request, 0)?;
        let at = session.service.clock().now();
        Ok(write(at, Self { operator_key_id }))
    }
}

/// A new operator key, shown once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedOperatorKey {
    /// The key's id.
    pub operator_key_id: OperatorKeyId,
    /// The key itself. Shown once.
    pub operator_key: String,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}
