//! The HTTP interface: one table of operations, from which come the routes, the OpenAPI document and llms.txt.
//!
//! What an operation does is the core's; calling it is [`call`]'s; how a request becomes its input and its output a response
//! is [`endpoint`]'s; how the table reads as OpenAPI is `describe`'s. Invariant: what is not in the table is neither
//! served nor documented, and what is in it is both.

pub(crate) mod bodies;
pub(crate) mod call;
mod describe;
pub(crate) mod endpoint;

use std::sync::{Arc, LazyLock};

use bookguard_core::features::acceptances::{AcceptTerms, GetDisclosure};
use bookguard_core::features::api_keys::{CreateApiKey, KeyRequest, ListApiKeys, RevokeApiKey};
use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings, ProtectBooking};
use bookguard_core::features::cancellations::{CancelBooking, DecideResolution, GetResolution};
use bookguard_core::features::endpoints::secrets::{
    RotateEndpointSecret, RotatePartnerSecret, SecretRotation,
};
use bookguard_core::features::endpoints::testing::TestEndpoint;
use bookguard_core::features::endpoints::update::{EndpointChanges, UpdateEndpoint};
use bookguard_core::features::endpoints::{
    CreateEndpoint, DeleteEndpoint, GetEndpoint, ListEndpoints, NewEndpoint,
};
use bookguard_core::features::evaluations::EvaluatePolicy;
use bookguard_core::features::events::log::ListEvents;
use bookguard_core::features::events::{GetEvent, ListBookingEvents, RetryEvent};
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::health::GetHealth;
use bookguard_core::features::partners::{GetPartner, NewPartner, RegisterPartner, UpdatePartner};
use bookguard_core::features::policies::{
    GetPolicy, ListPolicies, ListPolicyTemplates, ListPolicyVersions, PutPolicy, ValidatePolicy,
};
use bookguard_core::features::recoveries::{
    GetRecovery, ListRecoveries, NewRecovery, RecoverEvents,
};
use bookguard_core::features::reschedules::RescheduleBooking;
use bookguard_core::operation::{Method, Operation, Route};
use poem::EndpointExt as _;
use poem::endpoint::BoxEndpoint;
use poem::http;
use poem_openapi::registry::{MetaSchemaRef, Registry};
use poem_openapi::types::Type;
use serde_json::Value;

use crate::app::App;
use crate::router::Routes;
use bodies::{
    AcceptanceBody, BookingBody, CancelBody, DecisionBody, NewPolicyBody, PartnerChangesBody,
    PolicyDraftBody, RescheduleBody,
};
use call::Call;
pub(crate) use describe::INTERFACE_VERSION;
use describe::document;
use endpoint::Served;

/// Every operation offered over HTTP, in the order of the document.
pub(crate) fn table() -> Vec<Entry> {
    vec![
        entry::<GetHealth>().changing(),
        entry::<RegisterPartner>().body::<NewPartner>(),
        entry::<GetPartner>(),
        entry::<UpdatePartner>().body::<PartnerChangesBody>(),
        entry::<CreateApiKey>().body::<KeyRequest>(),
        entry::<ListApiKeys>(),
        entry::<RevokeApiKey>(),
        entry::<CreateBooking>()
            .body::<BookingBody>()
            .at_once()
            .located(),
        entry::<ListBookings>(),
        entry::<GetBooking>(),
        entry::<ProtectBooking>().at_once(),
        entry::<RescheduleBooking>()
            .body::<RescheduleBody>()
            .at_once(),
        entry::<GetDisclosure>(),
        entry::<AcceptTerms>().body::<AcceptanceBody>().at_once(),
        entry::<EvaluatePolicy>().changing(),
        entry::<CancelBooking>()
            .body::<CancelBody>()
            .at_once()
            .located(),
        entry::<GetResolution>(),
        entry::<DecideResolution>().body::<DecisionBody>().located(),
        entry::<GetEvidence>(),
        entry::<PutPolicy>().body::<NewPolicyBody>(),
        entry::<GetPolicy>(),
        entry::<ListPolicies>(),
        entry::<ListPolicyVersions>(),
        entry::<ValidatePolicy>()
            .body::<PolicyDraftBody>()
            .keeping_nothing(),
        entry::<ListPolicyTemplates>(),
        entry::<ListBookingEvents>(),
        entry::<ListEvents>(),
        entry::<GetEvent>(),
        entry::<RetryEvent>(),
        entry::<RecoverEvents>().body::<NewRecovery>().located(),
        entry::<ListRecoveries>(),
        entry::<GetRecovery>(),
        entry::<CreateEndpoint>().body::<NewEndpoint>().located(),
        entry::<ListEndpoints>(),
        entry::<GetEndpoint>(),
        entry::<UpdateEndpoint>().body::<EndpointChanges>(),
        entry::<DeleteEndpoint>(),
        entry::<TestEndpoint>(),
        entry::<RotateEndpointSecret>().body::<SecretRotation>(),
        entry::<RotatePartnerSecret>().body::<SecretRotation>(),
    ]
}

static OPENAPI: LazyLock<String> = LazyLock::new(|| document(&table()));
static PARSED: LazyLock<Value> = LazyLock::new(read_openapi);

/// The OpenAPI 3.1 document, exactly as it is served and checked in.
pub fn openapi_json() -> &'static str {
    &OPENAPI
}

/// The same, read. Its schemas are JSON Schema 2020-12; what they refer to is under `/components/schemas`.
pub fn openapi() -> &'static Value {
    &PARSED
}

/// As [`openapi`], for whoever needs it once: read, it takes megabytes.
pub(crate) fn read_openapi() -> Value {
    serde_json::from_str(&OPENAPI).expect("what was written from a tree of JSON reads as JSON")
}

/// What a reference of the document leads to, which is what many operations share; anything else is itself.
pub(crate) fn followed<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let place = value["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix('#'));
    place
        .and_then(|place| document.pointer(place))
        .unwrap_or(value)
}

/// One row of the table.
pub(crate) struct Entry {
    /// The operation's place in the interface.
    pub(crate) route: Route,
    /// Whether the answer changes with the clock alone, so that an ETag would be of no use.
    changing: bool,
    /// Whether preparing the request asks no store, or can be tried without, so that the connection's task does it.
    at_once: bool,
    /// Whether a POST only asks, so that there is nothing to do once only.
    keeping_nothing: bool,
    /// Whether the answer has a Location.
    located: bool,
    output: Schema,
    body: Option<Schema>,
    /// Calls it.
    pub(crate) call: Call,
}

/// A type as the document shows it.
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

fn entry<O: Operation<Output: Type>>() -> Entry {
    Entry {
        route: O::ROUTE,
        changing: false,
        at_once: false,
        keeping_nothing: false,
        located: false,
        output: Schema::of::<O::Output>(),
        body: None,
        call: call::call::<O>,
    }
}

impl Entry {
    fn changing(self) -> Self {
        Self {
            changing: true,
            ..self
        }
    }

    fn at_once(self) -> Self {
        Self {
            at_once: true,
            ..self
        }
    }

    fn keeping_nothing(self) -> Self {
        Self {
            keeping_nothing: true,
            ..self
        }
    }

    fn located(self) -> Self {
        Self {
            located: true,
            ..self
        }
    }

    /// Whether it takes an Idempotency-Key.
    pub(crate) fn is_remembered(&self) -> bool {
        self.route.method == Method::Post && !self.keeping_nothing
    }

    fn body<T: Type>(self) -> Self {
        Self {
            body: Some(Schema::of::<T>()),
            ..self
        }
    }

    /// Whether answers carry an ETag.
    fn is_tagged(&self) -> bool {
        !self.changing && self.route.method == Method::Get && self.route.status == 200
    }

    /// Whether it is tried without the store. What a partner's key tells of its owner is asked of the store where
    /// whoever calls holds the database.
    pub(crate) fn is_from_memory(&self, app: &App) -> bool {
        self.at_once && !app.is_operated()
    }

    /// A route's path as the router takes it.
    fn pattern(&self) -> String {
        self.route.path.replace('{', ":").replace('}', "")
    }

    fn method(&self) -> http::Method {
        match self.route.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Patch => http::Method::PATCH,
            Method::Delete => http::Method::DELETE,
        }
    }

    /// The operation as an endpoint.
    fn served(&self, app: &Arc<App>) -> BoxEndpoint<'static> {
        let served = Served {
            app: Arc::clone(app),
            route: self.route,
            tagged: self.is_tagged(),
            from_memory: self.is_from_memory(app),
            call: self.call,
        };
        served.boxed()
    }
}

/// Adds the route of every operation.
pub(crate) fn add_routes(app: &Arc<App>, routes: &mut Routes) {
    for entry in table() {
        routes
            .entry(entry.pattern())
            .or_default()
            .insert(entry.method(), entry.served(app));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_each_operation_once_and_none_of_the_administrator_s() {
        let table = table();
        let mut seen = std::collections::HashSet::new();
        for entry in &table {
            assert!(seen.insert(entry.route.id), "{} twice", entry.route.id);
            assert!(seen.insert(Box::leak(
                format!("{:?} {}", entry.route.method, entry.route.path).into_boxed_str()
            )));
            assert_ne!(
                entry.route.access,
                bookguard_core::session::Access::Administrator,
                "{}",
                entry.route.id
            );
            let takes_body = entry.route.body != bookguard_core::operation::Body::None;
            assert_eq!(
                entry.body.is_some(),
                takes_body,
                "{}: a body is documented if and only if it is read",
                entry.route.id
            );
        }
    }
}
