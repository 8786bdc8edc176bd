//! The audit: who did what, when and from where.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AuditId, PartnerId, Timestamp};

/// One action of the operator or of a person in the console, or one change that a partner made to its keys, secrets, endpoints or
/// policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// The record's id.
    pub audit_id: AuditId,
    /// When it was done.
    pub at: Timestamp,
    /// Who did it.
    pub actor: AuditActor,
    /// The network address it was done from; absent if it was done on the database itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The `operationId` of what was done, or the name of what only the database's command line or the console does.
    pub action: String,
    /// The partner concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner_id: Option<PartnerId>,
    /// The ids of what was changed or made, by their names.
    pub subject: BTreeMap<String, String>,
}

/// Who did something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct AuditActor {
    /// What kind of caller it was.
    pub kind: AuditActorKind,
    /// The id of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The name of the operator's key, of the user on the database's machine, or of the person for whom the link to the console
    /// was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The kinds of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "snake_case")]
pub enum AuditActorKind {
    /// A partner's key.
    ApiKey,
    /// An operator key.
    OperatorKey,
    /// The operator, on the database itself.
    LocalUser,
    /// Somebody without a key.
    Anonymous,
}

/// The operations that count among the changes that a partner may make in a day. What else is recorded of it, such as signing in or
/// sharing evidence, has limits of its own: otherwise a key that may do nothing but that would use up the changes of keys and secrets.
pub const COUNTED: [&str; 14] = [
    "createApiKey",
    "createConsoleLink",
    "createWebhookEndpoint",
    "deleteWebhookEndpoint",
    "endConsoleSession",
    "placeHold",
    "putPolicy",
    "releaseHold",
    "revokeApiKey",
    "rotateApiKey",
    "rotatePartnerSecret",
    "rotateWebhookEndpointSecret",
    "updatePartner",
    "updateWebhookEndpoint",
];

impl AuditRecord {
    /// Whether it counts among the changes that its partner may make in a day: the partner made it itself.
    pub(crate) fn is_counted(&self) -> bool {
        self.actor.kind == AuditActorKind::ApiKey && COUNTED.contains(&&*self.action)
    }

    /// As partners see it: who the operator's people and machines are is not theirs to know.
    #[must_use]
    pub fn for_partner(mut self) -> Self {
        if matches!(
            self.actor.kind,
            AuditActorKind::OperatorKey | AuditActorKind::LocalUser
        ) {
            (self.actor.key_id, self.actor.name, self.address) = (None, None, None);
        }
        self
    }

    /// Takes an id above that of an earlier record of the same millisecond, so that lists show both in the order of what was done.
    pub(crate) fn follow(&mut self, earlier: &AuditId) {
        self.audit_id = self.audit_id.max(earlier.successor());
    }

    /// Adds ids. The partner's own becomes the partner concerned, if none is known.
    pub(crate) fn concern(&mut self, ids: BTreeMap<String, String>) {
        self.subject.extend(ids);
        let named = self.subject.remove("partnerId");
        let named = named.and_then(|id| PartnerId::parse(&id));
        self.partner_id = self.partner_id.or(named);
    }
}
