//! Who is asking, and what they may do.

use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::model::{ApiKeyId, PartnerId, Scope, Scopes};
use crate::service::Service;

/// A caller's authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// Nobody in particular, calling from this network address.
    Anonymous {
        /// The address, for keeping idempotency keys of strangers apart.
        address: String,
    },
    /// A partner's key.
    Partner {
        /// Whose.
        partner_id: PartnerId,
        /// Which.
        api_key_id: ApiKeyId,
        /// What it may do.
        scopes: Scopes,
    },
    /// The administrator, on the database itself; acting for a partner when one is named.
    Administrator {
        /// For whom.
        partner_id: Option<PartnerId>,
    },
}

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Open,
    /// Any valid key.
    AnyKey,
    /// A key with this scope.
    Scope(Scope),
    /// The administrator; not offered over HTTP.
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
    /// Fails unless the caller may use a route.
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
    /// `partner_required` when the administrator named none.
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

    /// Whether this caller may see what belongs to `owner`.
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

    /// What keeps this caller's idempotency keys apart from every other's: an answer may hold a key that is shown
    /// once, so not even two keys of one partner share theirs.
    pub(crate) fn idempotency_scope(&self) -> String {
        match &self.authority {
            Authority::Anonymous { address } => format!("address {address}"),
            Authority::Partner { api_key_id, .. } => format!("key {api_key_id}"),
            // For one partner it is not the administrator of another.
            Authority::Administrator { partner_id } => match partner_id {
                Some(partner_id) => format!("administrator for {partner_id}"),
                None => "administrator".to_owned(),
            },
        }
    }
}

/// The specification's 401.
pub fn unauthorized() -> Error {
    Error::new(
        Kind::Unauthorized,
        "unauthorized",
        "Missing or invalid x-api-key",
    )
}
