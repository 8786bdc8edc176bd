//! The HTTP interface: one table of operations, from which the routes, the OpenAPI document and llms.txt are made.
//!
//! The core implements the operations; [`call`] calls them; [`endpoint`] converts requests and responses; `describe` writes the
//! table as OpenAPI. Invariant: an operation is served and documented if and only if it is in the table.

pub(crate) mod call;
pub(crate) mod describe;
pub(crate) mod download;
pub(crate) mod endpoint;
pub(crate) mod forms;

use std::sync::{Arc, LazyLock};

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
use bookguard_core::features::system::GetSystem;
use bookguard_core::operation::{Method, Operation, Route, StepFn, step};
use bytes::Bytes;
use poem::EndpointExt as _;
use poem::http;
use poem_openapi::registry::{MetaSchemaRef, Registry};
use poem_openapi::types::Type;
use serde_json::Value;

use crate::app::App;
use crate::router::Routes;
pub(crate) use describe::INTERFACE_VERSION;
use describe::{Interface, document};
use endpoint::OperationEndpoint;
use forms::{AnswerForm, PACKET_FORMS};

/// Every operation offered over HTTP, in the order of the document.
pub(crate) fn table() -> Vec<OperationEntry> {
    vec![
        offered::<GetHealth>().changing(),
        offered::<GetActivity>().changing(),
        offered::<RegisterPartner>(),
        offered::<GetPartner>(),
        offered::<UpdatePartner>(),
        offered::<CreateApiKey>(),
        offered::<ListApiKeys>(),
        offered::<RotateApiKey>(),
        offered::<RevokeApiKey>(),
        offered::<CreateConsoleLink>(),
        offered::<ListConsoleSessions>(),
        offered::<EndConsoleSession>(),
        offered::<ListAudit>(),
        offered::<CreateBooking>().at_once().located(),
        offered::<ListBookings>(),
        offered::<GetBooking>(),
        offered::<ProtectBooking>().at_once(),
        offered::<RescheduleBooking>().at_once(),
        offered::<GetDisclosure>(),
        offered::<AcceptTerms>().at_once(),
        offered::<EvaluatePolicy>().changing(),
        offered::<CancelBooking>().at_once().located(),
        offered::<ListResolutions>(),
        offered::<GetResolution>(),
        offered::<DecideResolution>().located(),
        offered::<GetEvidence>().also_as(&PACKET_FORMS),
        offered::<ExportDispute>(),
        offered::<AddEvidenceItem>().at_once(),
        offered::<ListEvidenceItems>(),
        offered::<PutItemFile>(),
        offered::<GetItemFile>().sending_file(),
        offered::<DeleteItemFile>(),
        offered::<CreateShare>(),
        offered::<ListShares>(),
        offered::<RevokeShare>(),
        offered::<EraseValues>(),
        offered::<ListErasures>(),
        offered::<PlaceHold>(),
        offered::<ListHolds>(),
        offered::<ReleaseHold>(),
        offered::<PutPolicy>(),
        offered::<GetPolicy>(),
        offered::<ListPolicies>(),
        offered::<ListPolicyVersions>(),
        offered::<ValidatePolicy>().keeping_nothing(),
        offered::<ListPolicyTemplates>(),
        offered::<ListBookingEvents>(),
        offered::<ListEvents>(),
        offered::<GetEvent>(),
        offered::<RetryEvent>(),
        offered::<RecoverEvents>().located(),
        offered::<ListRecoveries>(),
        offered::<GetRecovery>(),
        offered::<CreateEndpoint>().located(),
        offered::<ListEndpoints>(),
        offered::<GetEndpoint>(),
        offered::<UpdateEndpoint>(),
        offered::<DeleteEndpoint>(),
        offered::<TestEndpoint>(),
        offered::<RotateEndpointSecret>(),
        offered::<RotatePartnerSecret>(),
    ]
}

/// Every operation of the operator interface: those that partners have, and those of the operator alone.
pub(crate) fn operator_table() -> Vec<OperationEntry> {
    let mut table = table();
    table.extend([
        offered::<ListPartners>(),
        offered::<GetPartnerAccount>(),
        offered::<EditPartner>(),
        offered::<ApprovePartner>(),
        offered::<SuspendPartner>(),
        offered::<ReinstatePartner>(),
        offered::<EndContract>(),
        offered::<SetQuota>(),
        offered::<ListAllEvents>(),
        offered::<GetSystem>().changing(),
        offered::<CreateOperatorLink>(),
        offered::<ListOperatorSessions>(),
        offered::<EndOperatorSession>(),
    ]);
    table
}

static OPENAPI: LazyLock<String> = LazyLock::new(|| document(&table(), Interface::Partners, ""));
static OPERATOR_OPENAPI: LazyLock<String> =
    LazyLock::new(|| document(&operator_table(), Interface::Operator, ""));
static PARSED: LazyLock<Value> = LazyLock::new(read_openapi);

/// The OpenAPI 3.1 document, exactly as it is checked in and, at the root of a host, served.
pub fn openapi_json() -> &'static str {
    &OPENAPI
}

/// The OpenAPI document of the operator interface.
pub fn operator_openapi_json() -> &'static str {
    &OPERATOR_OPENAPI
}

/// The document of the app's interface, as the app serves it.
pub(crate) fn served_openapi(app: &App) -> Bytes {
    match (app.is_operated(), app.base_path()) {
        (false, "") => openapi_json().into(),
        (true, "") => operator_openapi_json().into(),
        (false, path) => document(&table(), Interface::Partners, path).into(),
        (true, path) => document(&operator_table(), Interface::Operator, path).into(),
    }
}

/// The OpenAPI document of the operator interface, parsed.
pub fn operator_openapi() -> &'static Value {
    static PARSED: LazyLock<Value> = LazyLock::new(|| parsed(&OPERATOR_OPENAPI));
    &PARSED
}

/// The OpenAPI document, parsed. Its schemas are JSON Schema 2020-12; references lead to `/components/schemas`.
pub fn openapi() -> &'static Value {
    &PARSED
}

/// Parses the OpenAPI document for a caller that needs it only once, because it takes megabytes when parsed.
pub(crate) fn read_openapi() -> Value {
    parsed(&OPENAPI)
}

fn parsed(document: &str) -> Value {
    serde_json::from_str(document).expect("what was written from a tree of JSON reads as JSON")
}

/// Each operation of the document, with its path and method.
pub(crate) fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        let named = methods.filter(|(_, operation)| operation["operationId"].is_string());
        named.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

/// Follows a `$ref` of the document, as used for shared parts; returns any other value unchanged.
pub(crate) fn followed<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let place = value["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix('#'));
    place
        .and_then(|place| document.pointer(place))
        .unwrap_or(value)
}

/// One row of the table.
pub(crate) struct OperationEntry {
    /// The operation's route.
    pub(crate) route: Route,
    /// Whether the answer changes with the clock alone, which makes an ETag useless.
    changing: bool,
    /// Whether the request can be prepared without the store, or tried so, on the connection's own task.
    at_once: bool,
    /// Whether a POST changes nothing, so that it needs no Idempotency-Key.
    keeping_nothing: bool,
    /// Whether the answer has a Location header.
    located: bool,
    /// The forms of its answer besides JSON.
    forms: &'static [AnswerForm],
    /// Whether its answer is a file instead of JSON.
    sends_file: bool,
    output: Schema,
    pub(crate) step: StepFn,
    /// Parses an answer as its type and writes it again.
    #[cfg(test)]
    rewrite: fn(&[u8]) -> serde_json::Result<Vec<u8>>,
}

/// How a type appears in the document.
#[derive(Clone, Copy)]
struct Schema {
    reference: fn() -> MetaSchemaRef,
    register: fn(&mut Registry),
}

impl Schema {
    fn of<T: Type>() -> Self {
        Self {
            reference: T::schema_ref,
            register: T::register,
        }
    }
}

fn offered<O: Operation<Output: Type>>() -> OperationEntry {
    OperationEntry {
        route: O::ROUTE,
        changing: false,
        at_once: false,
        keeping_nothing: false,
        located: false,
        forms: &[],
        sends_file: false,
        output: Schema::of::<O::Output>(),
        step: step::<O>,
        #[cfg(test)]
        rewrite: |answer| {
            let output = serde_json::from_slice::<O::Output>(answer)?;
            Ok(bookguard_core::operation::to_json(&output))
        },
    }
}

impl OperationEntry {
    fn changing(mut self) -> Self {
        self.changing = true;
        self
    }

    fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    fn keeping_nothing(mut self) -> Self {
        self.keeping_nothing = true;
        self
    }

    fn located(mut self) -> Self {
        self.located = true;
        self
    }

    fn also_as(mut self, forms: &'static [AnswerForm]) -> Self {
        self.forms = forms;
        self
    }

    fn sending_file(mut self) -> Self {
        self.sends_file = true;
        self
    }

    /// Whether it takes an Idempotency-Key.
    pub(crate) fn is_remembered(&self) -> bool {
        self.route.method == Method::Post && !self.keeping_nothing
    }

    /// Whether answers carry an ETag.
    fn is_tagged(&self) -> bool {
        !self.changing && self.route.method == Method::Get && self.route.status == 200
    }

    /// Whether to try the operation without the store first. Not if callers are the administrator: what a partner's key
    /// would establish about its owner must then be asked of the store.
    pub(crate) fn is_from_memory(&self, app: &App) -> bool {
        self.at_once && !app.is_operated()
    }

    /// The route's path in the router's syntax.
    fn pattern(&self) -> String {
        self.route.path.replace('{', ":").replace('}', "")
    }

    fn method(&self) -> http::Method {
        let method = http::Method::from_bytes(self.route.method.word().as_bytes());
        method.expect("it is a method's name in HTTP")
    }
}

/// Adds the routes of these operations.
pub(crate) fn add_routes(app: &Arc<App>, table: Vec<OperationEntry>, routes: &mut Routes) {
    for entry in table {
        let (path, method) = (entry.pattern(), entry.method());
        let app = Arc::clone(app);
        let endpoint = OperationEndpoint { app, entry }.boxed();
        routes.entry(path).or_default().insert(method, endpoint);
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::audit::{ACTIONS, SERVICE_ACTIONS};
    use bookguard_core::session::Access;

    use super::*;

    #[test]
    fn each_table_holds_each_operation_once_and_only_its_callers_have_them() {
        for (table, operated) in [(table(), false), (operator_table(), true)] {
            each_once(&table, operated);
        }
    }

    #[test]
    fn what_an_operation_changes_is_an_action_of_the_audit() {
        for entry in operator_table() {
            let changes = entry.route.method != Method::Get && !entry.keeping_nothing;
            let actions = match entry.route.path.starts_with("/v1/operator/") {
                true => SERVICE_ACTIONS,
                false => ACTIONS,
            };
            let id = entry.route.id;
            assert_eq!(actions.contains(&id), changes, "{id}");
        }
    }

    fn each_once(table: &[OperationEntry], operated: bool) {
        let mut seen = std::collections::HashSet::new();
        for entry in table {
            assert!(seen.insert(entry.route.id), "{} twice", entry.route.id);
            assert!(seen.insert(Box::leak(
                format!("{:?} {}", entry.route.method, entry.route.path).into_boxed_str()
            )));
            let served = match entry.route.access {
                Access::Administrator => operated,
                Access::Database => false,
                _ => true,
            };
            assert!(served, "{}", entry.route.id);
        }
    }
}
