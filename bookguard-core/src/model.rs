//! The nouns. One noun, one type; serde on the noun is the JSON of the HTTP API.

pub mod api_key;
pub mod booking;
pub mod endpoint;
pub mod event;
pub mod id;
pub mod money;
#[cfg(feature = "openapi")]
pub(crate) mod openapi;
pub mod page;
pub mod partner;
pub mod quota;
pub mod recovery;
pub mod time;

pub use api_key::{ApiKey, ApiKeySecret, Scope, Scopes};
pub use booking::{Booking, BookingStatus, Party, PolicySummary};
pub use endpoint::{Endpoint, EndpointHealth, EndpointStatus};
pub use event::{Delivery, DeliveryStatus, Event, EventType};
pub use id::{
    ApiKeyId, BookingId, EndpointId, EventId, Id, PartnerId, RecoveryId, RequestId, ResolutionId,
};
pub use money::{Amount, AmountError, Currency, Decimal};
pub use page::Page;
pub use partner::{EVERY_EVENT_TYPE, Partner, PartnerSettings, PartnerStatus};
pub use quota::{PartnerAccount, Quota, QuotaChanges, QuotaReport, QuotaUse, Usage};
pub use recovery::{Recovery, RecoveryStatus, Unreceived};
pub use time::Timestamp;
