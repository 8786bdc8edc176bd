//! Requests as a client sends them: path, query, Idempotency-Key and body, read by the operation itself.
//!
//! Four lines: the operation; the parameters of its path, between slashes; the query; the key. Then the body.

use std::sync::{Arc, LazyLock};

use bookguard_core::engine::command::Written;
use bookguard_core::error::{Error, Kind};
use bookguard_core::features::acceptances::{AcceptTerms, GetDisclosure};
use bookguard_core::features::activity::GetActivity;
use bookguard_core::features::api_keys::rotation::RotateApiKey;
use bookguard_core::features::api_keys::{CreateApiKey, ListApiKeys, RevokeApiKey};
use bookguard_core::features::audit::ListAudit;
use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings, ProtectBooking};
use bookguard_core::features::cancellations::{
    CancelBooking, DecideResolution, GetResolution, ListResolutions,
};
use bookguard_core::features::console::{
    CreateConsoleLink, EndConsoleSession, ListConsoleSessions,
};
use bookguard_core::features::endings::EndContract;
use bookguard_core::features::endpoints::secrets::{RotateEndpointSecret, RotatePartnerSecret};
use bookguard_core::features::endpoints::testing::TestEndpoint;
use bookguard_core::features::endpoints::update::UpdateEndpoint;
use bookguard_core::features::endpoints::{
    CreateEndpoint, DeleteEndpoint, GetEndpoint, ListEndpoints,
};
use bookguard_core::features::erasures::{EraseValues, ListErasures};
use bookguard_core::features::evaluations::EvaluatePolicy;
use bookguard_core::features::events::log::{ListAllEvents, ListEvents};
use bookguard_core::features::events::{GetEvent, ListBookingEvents, RetryEvent};
use bookguard_core::features::evidence::{ExportDispute, GetEvidence};
use bookguard_core::features::health::GetHealth;
use bookguard_core::features::holds::{ListHolds, PlaceHold, ReleaseHold};
use bookguard_core::features::items::files::{DeleteItemFile, GetItemFile, PutItemFile};
use bookguard_core::features::items::{AddEvidenceItem, ListEvidenceItems};
use bookguard_core::features::operator_sessions::{
    CreateOperatorLink, EndOperatorSession, ListOperatorSessions,
};
use bookguard_core::features::partners::account::{
    EditPartner, GetPartnerAccount, ReinstatePartner, SuspendPartner,
};
use bookguard_core::features::partners::{
    ApprovePartner, GetPartner, ListPartners, RegisterPartner, SetQuota, UpdatePartner,
};
use bookguard_core::features::policies::{
    GetPolicy, ListPolicies, ListPolicyTemplates, ListPolicyVersions, PutPolicy, ValidatePolicy,
};
use bookguard_core::features::recoveries::{GetRecovery, ListRecoveries, RecoverEvents};
use bookguard_core::features::reschedules::RescheduleBooking;
use bookguard_core::features::shares::{CreateShare, ListShares, RevokeShare};
use bookguard_core::limits;
use bookguard_core::model::{ApiKeyId, PartnerId, Scopes};
use bookguard_core::operation::{self, Action, Operation, Request, Route};
use bookguard_core::service::{Service, ServiceConfig};
use bookguard_core::session::{Access, Authority, Operator, Session};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{incoming, kept};

/// An operation: its route, and what it makes of a request.
type Entry = (Route, fn(&Session, &Request) -> Result<(), Error>);

macro_rules! operations {
    ($($operation:ident),* $(,)?) => { &[$(($operation::ROUTE, answer::<$operation>)),*] };
}

/// Every operation that is offered over HTTP, but the one that tells of the machine.
const OPERATIONS: &[Entry] = operations![
    AcceptTerms,
    AddEvidenceItem,
    ApprovePartner,
    CancelBooking,
    CreateApiKey,
    CreateBooking,
    CreateConsoleLink,
    CreateEndpoint,
    CreateOperatorLink,
    CreateShare,
    DecideResolution,
    DeleteEndpoint,
    DeleteItemFile,
    EditPartner,
    EndConsoleSession,
    EndContract,
    EndOperatorSession,
    EraseValues,
    EvaluatePolicy,
    ExportDispute,
    GetActivity,
    GetBooking,
    GetDisclosure,
    GetEndpoint,
    GetEvent,
    GetEvidence,
    GetHealth,
    GetItemFile,
    GetPartner,
    GetPartnerAccount,
    GetPolicy,
    GetRecovery,
    GetResolution,
    ListAllEvents,
    ListApiKeys,
    ListAudit,
    ListBookingEvents,
    ListBookings,
    ListConsoleSessions,
    ListEndpoints,
    ListErasures,
    ListEvents,
    ListEvidenceItems,
    ListHolds,
    ListOperatorSessions,
    ListPartners,
    ListPolicies,
    ListPolicyTemplates,
    ListPolicyVersions,
    ListRecoveries,
    ListResolutions,
    ListShares,
    PlaceHold,
    ProtectBooking,
    PutItemFile,
    PutPolicy,
    RecoverEvents,
    RegisterPartner,
    ReinstatePartner,
    ReleaseHold,
    RescheduleBooking,
    RetryEvent,
    RevokeApiKey,
    RevokeShare,
    RotateApiKey,
    RotateEndpointSecret,
    RotatePartnerSecret,
    SetQuota,
    SuspendPartner,
    TestEndpoint,
    UpdateEndpoint,
    UpdatePartner,
    ValidatePolicy,
];

/// A service, and a partner who has recorded nothing, with a key.
static SERVICE: LazyLock<(Arc<Service>, PartnerId, ApiKeyId)> = LazyLock::new(|| {
    let database = kept::FOLDER.join("b.db");
    let (service, _) = Service::open(ServiceConfig::of(database.as_path().into())).unwrap();
    let stranger = Session {
        service: Arc::clone(&service),
        authority: anybody(),
        address: None,
    };
    let body = br#"{"name":"Acme","businessType":"venue","contactEmail":"a@example.com"}"#;
    let request = Request {
        body: body.to_vec(),
        ..Request::default()
    };
    let prepared = operation::prepare::<RegisterPartner>(&stranger, &request).unwrap();
    let Action::Write(writing) = prepared else {
        panic!("registering writes")
    };
    let Written::Fresh(registered) = service.submit_and_wait(writing.command).unwrap() else {
        panic!("it has no idempotency key")
    };
    let key = registered.api_key_id.expect("registration is open");
    (service, registered.partner_id, key)
});

/// A refusal is the caller's fault, names what is wrong, and is no longer than a few requests. The pairs of a query are the same when
/// they are written and read again.
pub fn prepare(bytes: &[u8]) {
    let mut parts = bytes.splitn(5, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (id, path, query, key, body) = (next(), next(), next(), next(), next());
    let Some((route, answer)) = OPERATIONS
        .iter()
        .find(|(route, _)| route.id.as_bytes() == id)
    else {
        return;
    };
    let (Some(path), Some(query), Some(key)) =
        (crate::text(path), crate::text(query), crate::text(key))
    else {
        return;
    };
    if body.len() > limits::BODY_BYTES {
        return;
    }
    let Ok(query) = incoming::query(Some(query)) else {
        return;
    };
    let written: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    if let Ok(again) = incoming::query(Some(&written.join("&"))) {
        assert_eq!(again, query);
    }
    let mut path: Vec<String> = path.split('/').map(str::to_owned).collect();
    path.resize(route.parameters().count(), String::new());
    let request = Request {
        path,
        query,
        body: body.to_vec(),
        idempotency_key: (!key.is_empty()).then(|| key.to_owned()),
        ..Request::default()
    };
    let session = Session {
        service: Arc::clone(&SERVICE.0),
        authority: caller(route.access),
        address: None,
    };
    if let Err(Error {
        kind,
        message,
        details,
        ..
    }) = answer(&session, &request)
    {
        assert!(
            !matches!(kind, Kind::Internal),
            "a request is never our fault: {message}"
        );
        assert!(!message.is_empty());
        let room: usize = details.iter().map(|fault| format!("{fault:?}").len()).sum();
        assert!(
            room <= 4 * bytes.len() + 64 * 1024,
            "{room} bytes of faults"
        );
    }
}

/// Reads the request. What only reads is done too; what would write is not.
fn answer<O: Operation>(session: &Session, request: &Request) -> Result<(), Error> {
    match operation::prepare::<O>(session, request)? {
        Action::Read { read, .. } => read(session).map(drop),
        Action::Watch(watch) => (watch.look)(session).map(drop),
        Action::Write(_) => Ok(()),
    }
}

fn caller(access: Access) -> Authority {
    match access {
        Access::Administrator | Access::Database => Authority::Administrator {
            by: Operator::Here { user: None },
            partner_id: None,
        },
        Access::Open => anybody(),
        Access::AnyKey | Access::Scope(_) => Authority::Partner {
            partner_id: SERVICE.1,
            api_key_id: SERVICE.2,
            scopes: Scopes::all(),
            suspended: false,
            signed_in: None,
        },
    }
}

fn anybody() -> Authority {
    Authority::Anonymous {
        address: "203.0.113.9".to_owned(),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
