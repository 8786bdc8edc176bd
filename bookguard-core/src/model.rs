//! The nouns. One noun, one type; serde on the noun is the JSON of the HTTP API.

#[cfg(feature = "internals")]
pub(crate) mod api_key;
#[cfg(feature = "internals")]
pub(crate) mod audit;
pub(crate) mod booking;
#[cfg(feature = "internals")]
pub(crate) mod console_session;
pub(crate) mod digest;
#[cfg(feature = "internals")]
pub(crate) mod endpoint;
pub(crate) mod event;
#[cfg(feature = "internals")]
pub(crate) mod file;
pub(crate) mod id;
pub(crate) mod money;
#[cfg(feature = "openapi")]
pub(crate) mod openapi;
#[cfg(feature = "internals")]
pub(crate) mod operator_key;
#[cfg(feature = "internals")]
pub(crate) mod page;
pub(crate) mod parse_error;
#[cfg(feature = "internals")]
pub(crate) mod partner;
#[cfg(feature = "internals")]
pub(crate) mod quota;
#[cfg(feature = "internals")]
pub(crate) mod recovery;
#[cfg(feature = "internals")]
pub(crate) mod search;
pub(crate) mod time;
#[cfg(feature = "internals")]
pub(crate) mod witness;
mod words;

#[cfg(feature = "internals")]
pub use api_key::{ApiKey, ApiKeySecret, Scope, Scopes};
#[cfg(feature = "internals")]
pub use audit::{AuditActor, AuditActorKind, AuditRecord, COUNTED};
pub use booking::{Booking, BookingStatus, Party, PolicySummary};
#[cfg(feature = "internals")]
pub use console_session::{ConsoleSession, OperatorSession};
#[cfg(feature = "internals")]
pub use endpoint::{Endpoint, EndpointHealth, EndpointStatus};
#[cfg(feature = "internals")]
pub use event::{Delivery, DeliveryProgress, Event};
pub use event::{DeliveryStatus, EventType, RecordedEventType};
#[cfg(feature = "internals")]
pub use file::{FileId, FileState, MediaType, StoredFile};
pub use id::{
    ApiKeyId, BookingId, EndpointId, EventId, HoldId, Id, ItemId, PartnerId, RecoveryId, RequestId,
    ResolutionId, ShareId,
};
#[cfg(feature = "internals")]
pub use id::{AuditId, ConsoleSessionId, OperatorKeyId};
#[doc(hidden)]
pub use id::{Noun, id_pattern, noun};
pub use money::{Amount, AmountError, Currency, Decimal};
#[cfg(feature = "internals")]
pub use operator_key::OperatorKey;
#[cfg(feature = "internals")]
pub use page::Page;
pub use parse_error::ParseError;
#[cfg(feature = "internals")]
pub use partner::{Partner, PartnerSettings, PartnerStatus, RegistrationStatus};
#[cfg(feature = "internals")]
pub use quota::{PartnerAccount, Quota, QuotaChanges, QuotaReport, QuotaUse, Usage};
#[cfg(feature = "store")]
pub(crate) use quota::{day, day_begins};
#[cfg(feature = "internals")]
pub use recovery::{Recovery, RecoveryStatus, Unreceived};
#[cfg(feature = "internals")]
pub use search::Search;
pub use time::Timestamp;
#[cfg(feature = "internals")]
pub use witness::{StoredCosignature, WitnessState, WitnessTrouble};
pub(crate) use words::vocabulary;
