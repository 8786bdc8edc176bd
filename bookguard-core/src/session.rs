//! Sessions: who is calling, and what they may do.

use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::model::{ApiKeyId, PartnerId, Scope, Scopes};
use crate::service::Service;

/// A caller's authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// A caller without a key, at this network address.
    Anonymous {
        /// The address, which keeps the idempotency keys of such callers apart.
        address: String,
    },
    /// A partner's key.
    Partner {
        /// The partner.
        partner_id: PartnerId,
        /// The key.
        api_key_id: ApiKeyId,
        /// The scopes of the key.
        scopes: Scopes,
    },
    /// The administrator, on the database itself, possibly acting for a partner.
    Administrator {
        /// The partner to act for, if any.
        partner_id: Option<PartnerId>,
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
    /// The administrator. Not offered over HTTP.
    Administrator,
}

/// A caller and the service it calls.
#[derive(Clone)]
pub struct Session {
    /// The service.
    pub service: Arc<Service>,
    /// The caller.
    pub authority: Authority,
}

impl Session {
    /// Fails unless the caller may use a route with this `access`.
    ///
    /// # Errors
    /// `unauthorized`, `insufficient_scope`.
    pub fn require(&self, access: Access) -> Result<(), Error> {
        match (access, &self.authority) {
            (Access::Open, _)
            | (_, Authority::Administrator { .. })
            | (Access::AnyKey, Authority::Partner { .. }) => Ok(()),
            (Access::Scope(scope), Authority::Partner { scopes, .. }) if scopes.allow(scope) => {
                Ok(())
            }
            (Access::Scope(scope), Authority::Partner { .. }) => Err(Error::new(
                Kind::Forbidden,
                "insufficient_scope",
                format!(
                    "This key does not have the scope {}. Use a key that has it.",
                    scope.word()
                ),
            )),
            (_, Authority::Anonymous { .. }) => Err(unauthorized()),
            (Access::Administrator, Authority::Partner { .. }) => Err(Error::new(
                Kind::Forbidden,
                "administrator_only",
                "Only the administrator, on the service's own machine, may do this.",
            )),
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
            } => Ok(*partner_id),
            Authority::Administrator { partner_id: None } => Err(Error::invalid(
                "partner_required",
                "This needs a partner to act for. Name one with --partner.",
            )),
            Authority::Anonymous { .. } => Err(unauthorized()),
        }
    }

    /// Whether this caller may see the data of `owner`.
    pub fn may_see(&self, owner: &PartnerId) -> bool {
        match &self.authority {
            Authority::Partner { partner_id, .. }
            | Authority::Administrator {
                partner_id: Some(partner_id),
            } => partner_id == owner,
            Authority::Administrator { partner_id: None } => true,
            Authority::Anonymous { .. } => false,
        }
    }

    /// The scope that keeps this caller's idempotency keys apart from all others. An answer may contain a key that is
    /// shown once, so not even two keys of one partner share a scope.
    pub(crate) fn idempotency_scope(&self) -> String {
        match &self.authority {
            Authority::Anonymous { address } => format!("address {address}"),
            Authority::Partner { api_key_id, .. } => format!("key {api_key_id}"),
            // Acting for one partner is another scope than acting for another partner.
            Authority::Administrator { partner_id } => match partner_id {
                Some(partner_id) => format!("administrator for {partner_id}"),
                None => "administrator".to_owned(),
            },
        }
    }
}

/// The 401 answer that the specification requires.
pub fn unauthorized() -> Error {
    Error::new(
        Kind::Unauthorized,
        "unauthorized",
        "Missing or invalid x-api-key",
    )
}
