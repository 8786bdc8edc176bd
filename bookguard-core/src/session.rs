//! Sessions: who is calling, and what they may do.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::entropy;
use crate::error::{Error, Kind};
use crate::model::{
    ApiKeyId, AuditActor, AuditActorKind, AuditId, AuditRecord, ConsoleSessionId, OperatorKeyId,
    PartnerId, Scope, Scopes, Timestamp,
};
use crate::service::Service;

/// A caller's authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// A caller without a key.
    Anonymous {
        /// The address of its network, which keeps the idempotency keys of such callers apart. One subscriber changes addresses
        /// within it.
        address: String,
    },
    /// A partner's key.
    Partner {
        /// The partner.
        partner_id: PartnerId,
        /// The key.
        api_key_id: ApiKeyId,
        /// What the caller may do: the scopes of the key, or fewer in a console session.
        scopes: Scopes,
        /// Whether the partner is suspended, so that its keys only read.
        suspended: bool,
        /// The console session through which the key is used, if it is.
        signed_in: Option<SignedIn>,
    },
    /// The administrator, possibly acting for a partner.
    Administrator {
        /// Who that is.
        by: Operator,
        /// The partner to act for, if any.
        partner_id: Option<PartnerId>,
    },
}

/// A session of the console as its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// The session.
    pub console_session_id: ConsoleSessionId,
    /// Whom its link was made for, if it began with one.
    pub person: Option<String>,
}

/// Who acts as the administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    /// Somebody who holds the database itself.
    Here {
        /// The user of the operating system, if known.
        user: Option<String>,
    },
    /// Whoever uses this operator key.
    Key {
        /// The key.
        operator_key_id: OperatorKeyId,
        /// The name it was given.
        name: String,
        /// The console session through which the key is used, if it is.
        signed_in: Option<SignedIn>,
    },
}

/// What a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: anybody may call it.
    Open,
    /// Any valid key.
    AnyKey,
    /// A key with this scope.
    Scope(Scope),
    /// The administrator. Not offered to partners.
    Administrator,
    /// The administrator, on the database itself. Not offered over HTTP.
    Database,
}

/// A caller and the service it calls.
#[derive(Clone)]
pub struct Session {
    /// The service.
    pub service: Arc<Service>,
    /// The caller.
    pub authority: Authority,
    /// The caller's network address, if it called over a network.
    pub address: Option<IpAddr>,
}

impl Session {
    /// Fails unless the caller may use a route with this `access`.
    ///
    /// # Errors
    /// `unauthorized`, `insufficient_scope`.
    pub fn require(&self, access: Access) -> Result<(), Error> {
        match (access, &self.authority) {
            (
                Access::Database,
                Authority::Administrator {
                    by: Operator::Key { .. },
                    ..
                },
            ) => Err(administrator_only()),
            (Access::Open, _)
            | (_, Authority::Administrator { .. })
            | (Access::AnyKey, Authority::Partner { .. }) => Ok(()),
            (Access::Scope(scope), Authority::Partner { scopes, .. }) if scopes.allow(scope) => {
                Ok(())
            }
            (Access::Scope(scope), Authority::Partner { signed_in, .. }) => {
                Err(insufficient_scope(scope, signed_in.as_ref()))
            }
            (_, Authority::Anonymous { .. }) => Err(Error::unauthorized()),
            (Access::Administrator | Access::Database, Authority::Partner { .. }) => {
                Err(administrator_only())
            }
        }
    }

    /// Fails if the caller is of a suspended partner. Reading stays allowed: bookings and evidence are the partner's.
    ///
    /// # Errors
    /// `partner_suspended`.
    pub fn require_standing(&self) -> Result<(), Error> {
        match self.authority {
            Authority::Partner {
                suspended: true, ..
            } => Err(Error::partner_suspended()),
            _ => Ok(()),
        }
    }

    /// The partner this caller is, or acts for.
    ///
    /// # Errors
    /// `partner_required` if the administrator named no partner.
    pub fn partner_id(&self) -> Result<PartnerId, Error> {
        match &self.authority {
            Authority::Partner { partner_id, .. }
            | Authority::Administrator {
                partner_id: Some(partner_id),
                ..
            } => Ok(*partner_id),
            Authority::Administrator {
                partner_id: None, ..
            } => Err(Error::invalid(
                "partner_required",
                "This needs a partner to act for. Name one with --partner; over HTTP, in the header x-partner-id.",
            )),
            Authority::Anonymous { .. } => Err(Error::unauthorized()),
        }
    }

    /// Whether this caller may see the data of `owner`.
    pub fn may_see(&self, owner: &PartnerId) -> bool {
        match &self.authority {
            Authority::Partner { partner_id, .. }
            | Authority::Administrator {
                partner_id: Some(partner_id),
                ..
            } => partner_id == owner,
            Authority::Administrator {
                partner_id: None, ..
            } => true,
            Authority::Anonymous { .. } => false,
        }
    }

    /// The console session through which the caller acts, if it does.
    pub fn signed_in(&self) -> Option<&SignedIn> {
        match &self.authority {
            Authority::Partner { signed_in, .. }
            | Authority::Administrator {
                by: Operator::Key { signed_in, .. },
                ..
            } => signed_in.as_ref(),
            _ => None,
        }
    }

    /// The beginning of an audit record of what this caller does.
    pub fn audit_record(&self, action: &str, at: Timestamp) -> AuditRecord {
        let (kind, key_id, name, partner_id) = match &self.authority {
            Authority::Anonymous { .. } => (AuditActorKind::Anonymous, None, None, None),
            Authority::Partner {
                partner_id,
                api_key_id,
                signed_in,
                ..
            } => {
                let key_id = Some(api_key_id.to_string());
                let name = signed_in.as_ref().and_then(|by| by.person.clone());
                (AuditActorKind::ApiKey, key_id, name, Some(*partner_id))
            }
            Authority::Administrator { by, partner_id } => match by {
                Operator::Here { user } => {
                    (AuditActorKind::LocalUser, None, user.clone(), *partner_id)
                }
                Operator::Key {
                    operator_key_id,
                    name,
                    signed_in,
                } => {
                    let key_id = Some(operator_key_id.to_string());
                    let person = signed_in.as_ref().and_then(|by| by.person.clone());
                    let name = Some(person.unwrap_or_else(|| name.clone()));
                    (AuditActorKind::OperatorKey, key_id, name, *partner_id)
                }
            },
        };
        AuditRecord {
            audit_id: AuditId::new(at, entropy::bytes()),
            at,
            actor: AuditActor { kind, key_id, name },
            address: self.address.map(|address| address.to_string()),
            action: action.to_owned(),
            partner_id,
            subject: BTreeMap::new(),
        }
    }

    /// The scope that keeps this caller's idempotency keys apart from all others. An answer may contain a key that is
    /// shown once, so not even two keys of one partner share a scope. Without an API key the network stands for the caller: that
    /// an Idempotency-Key is long does not make it hard to guess.
    pub(crate) fn idempotency_scope(&self) -> String {
        match &self.authority {
            Authority::Anonymous { address } => format!("address {address}"),
            Authority::Partner { api_key_id, .. } => format!("key {api_key_id}"),
            // Acting for one partner is another scope than acting for another partner.
            Authority::Administrator { by, partner_id } => {
                let operator = match by {
                    Operator::Here { .. } => "administrator".to_owned(),
                    Operator::Key {
                        operator_key_id, ..
                    } => format!("operator {operator_key_id}"),
                };
                match partner_id {
                    Some(partner_id) => format!("{operator} for {partner_id}"),
                    None => operator,
                }
            }
        }
    }
}

/// Whoever was signed in by a link has no key to change, so the way out depends on how the caller came in.
fn insufficient_scope(scope: Scope, signed_in: Option<&SignedIn>) -> Error {
    let way = match signed_in.map(|by| by.person.is_some()) {
        None => "which you do not have. Use a key that has it.",
        Some(false) => {
            "which your key does not have. Sign in with a key that has it, or ask whoever gave you yours."
        }
        Some(true) => {
            "which your link does not give you. Ask whoever sent you the link for one that does."
        }
    };
    let message = format!("This needs the scope {}, {way}", scope.word());
    Error::new(Kind::Forbidden, "insufficient_scope", message)
}

fn administrator_only() -> Error {
    Error::new(
        Kind::Forbidden,
        "administrator_only",
        "Only the operator may do this, on the service's own database: run bookguard there, with --db.",
    )
}

/// The code of [`key_expired`].
pub const KEY_EXPIRED: &str = "api_key_expired";

/// The 401 answer to a key that expired. Only its holder can present it, so this tells nobody else anything.
pub fn key_expired(at: Timestamp) -> Error {
    Error::new(
        Kind::Unauthorized,
        KEY_EXPIRED,
        format!(
            "The API key in x-api-key expired at {at}. Use the key that replaced it, or create one with a key that still works"
        ),
    )
}
