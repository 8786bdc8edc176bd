//! Sends a span of each request to an OpenTelemetry collector: OTLP over HTTP in protobuf, in builds with the feature `otlp`.
//!
//! A span's trace is the one in the log's lines. A caller that says it does not record its trace has none of it recorded here
//! either. Spans wait in a queue of the SDK, whose thread sends them in batches: if the collector is slow or gone, spans are
//! lost, and no request waits. Invariant: a span holds no more than a line of the log does; `url.path`, which the conventions
//! of OpenTelemetry ask for, is left out because paths hold tokens.

mod parent;

use std::time::Duration;

use bookguard_core::model::PartnerId;
use poem::http::{HeaderValue, StatusCode};

pub(crate) use self::parent::{TraceParent, trace_parent};

#[cfg(feature = "otlp")]
use self::sent::SpanQueue as Queue;
#[cfg(not(feature = "otlp"))]
use self::unsent::NoQueue as Queue;

/// Takes the span of each request.
pub(crate) struct Tracer(Queue);

/// A request that has ended.
#[cfg_attr(
    not(feature = "otlp"),
    expect(dead_code, reason = "only spans need it")
)]
pub(crate) struct EndedRequest<'a> {
    pub(crate) method: &'static str,
    /// The template of its route, if any has its path.
    pub(crate) route: Option<&'a str>,
    pub(crate) request_id: &'a HeaderValue,
    pub(crate) partner_id: Option<&'a PartnerId>,
    pub(crate) trace_id: [u8; 16],
    /// What the caller said of its trace.
    pub(crate) parent: Option<TraceParent>,
    /// `None` if the client did not wait for the answer.
    pub(crate) status: Option<StatusCode>,
    pub(crate) took: Duration,
}

impl Tracer {
    /// Begins to send spans to a collector. An error is a sentence for the operator; an unreachable collector is not an error.
    pub(crate) async fn start(collector: &str) -> Result<Self, String> {
        Queue::start(collector).await.map(Self)
    }

    /// Queues the span of a request that ends now.
    pub(crate) fn ended(&self, request: &EndedRequest<'_>) {
        self.0.ended(request);
    }

    /// Sends what is queued. Blocks.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

#[cfg(not(feature = "otlp"))]
mod unsent {
    use super::*;

    /// This build cannot send spans, so there is none.
    pub(super) enum NoQueue {}

    impl NoQueue {
        pub(super) async fn start(_: &str) -> Result<Self, String> {
            Err("otlp_endpoint is set, but this program was built without traces; build it with --features otlp, or leave the setting out".to_owned())
        }

        pub(super) fn ended(&self, _: &EndedRequest<'_>) {
            match *self {}
        }

        pub(super) fn stop(&self) {
            match *self {}
        }
    }
}

#[cfg(feature = "otlp")]
mod sent {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, SystemTime};

    use bookguard_core::entropy;
    use bookguard_core::version::VERSION;
    use opentelemetry::trace::{
        SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
    };
    use opentelemetry::{InstrumentationScope, KeyValue};
    use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{
        BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor as _,
    };

    use super::*;

    /// How long the collector may take for a batch.
    const BATCH: Duration = Duration::from_secs(10);
    /// How long a stopping server waits for its last spans.
    const LAST_SPANS: Duration = Duration::from_secs(2);

    /// The SDK's queue for one collector.
    pub(super) struct SpanQueue {
        queue: BatchSpanProcessor,
        scope: InstrumentationScope,
    }

    impl SpanQueue {
        pub(super) async fn start(collector: &str) -> Result<Self, String> {
            let address = format!("{collector}/v1/traces");
            // The client has a runtime of its own, which must not begin on a thread of ours.
            let exporter = tokio::task::spawn_blocking(|| exporter(address)).await;
            let exporter = exporter
                .map_err(|e| format!("the client for the collector cannot be made: {e}"))??;
            let mut queue = BatchSpanProcessor::builder(exporter).build();
            let service = [KeyValue::new("service.version", VERSION)];
            let resource = Resource::builder()
                .with_service_name("bookguard")
                .with_attributes(service);
            queue.set_resource(&resource.build());
            Ok(Self {
                queue,
                scope: InstrumentationScope::builder("bookguard").build(),
            })
        }

        pub(super) fn ended(&self, request: &EndedRequest<'_>) {
            let parent = request.parent;
            if parent.is_some_and(|parent| !parent.is_sampled) {
                return;
            }
            let context = SpanContext::new(
                TraceId::from_bytes(request.trace_id),
                SpanId::from_bytes(entropy::bytes()),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            );
            let parent_id =
                parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.span_id));
            let end_time = SystemTime::now();
            let failed = request.status.filter(StatusCode::is_server_error);
            self.queue.on_end(SpanData {
                span_context: context,
                parent_span_id: parent_id,
                parent_span_is_remote: parent.is_some(),
                span_kind: SpanKind::Server,
                name: name(request).into(),
                start_time: end_time - request.took,
                end_time,
                attributes: attributes(request, failed),
                dropped_attributes_count: 0,
                events: Default::default(),
                links: Default::default(),
                status: failed.map_or(Status::Unset, |_| Status::error("")),
                instrumentation_scope: self.scope.clone(),
            });
        }

        pub(super) fn stop(&self) {
            if let Err(error) = self.queue.shutdown_with_timeout(LAST_SPANS) {
                tracing::warn!("the last spans may not have reached the collector: {error}");
            }
        }
    }

    /// Tells the operator when spans begin to be lost, and when they arrive again.
    #[derive(Debug)]
    struct ReportingExporter {
        to_collector: opentelemetry_otlp::SpanExporter,
        is_failing: AtomicBool,
    }

    impl SpanExporter for ReportingExporter {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let sent = self.to_collector.export(batch).await;
            let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
            match &sent {
                Err(error) if !was_failing => {
                    tracing::warn!("spans do not reach the collector, and are lost: {error}");
                }
                Ok(()) if was_failing => tracing::info!("spans reach the collector again"),
                _ => {}
            }
            sent
        }

        fn set_resource(&mut self, resource: &Resource) {
            self.to_collector.set_resource(resource);
        }
    }

    fn exporter(address: String) -> Result<ReportingExporter, String> {
        let tls = crate::tls::system_trust().map_err(|e| format!("TLS cannot be set up: {e}"))?;
        let client = reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(BATCH)
            .build();
        let client =
            client.map_err(|e| format!("the client for the collector cannot be made: {e}"))?;
        let to_collector = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address)
            .with_timeout(BATCH)
            .build()
            .map_err(|e| format!("spans cannot be sent: {e}"))?;
        Ok(ReportingExporter {
            to_collector,
            is_failing: AtomicBool::new(false),
        })
    }

    /// The method, and the route if there is one (OpenTelemetry's semantic conventions for HTTP spans).
    fn name(request: &EndedRequest<'_>) -> String {
        let method = match request.method {
            "_OTHER" => "HTTP",
            method => method,
        };
        match request.route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        }
    }

    fn attributes(request: &EndedRequest<'_>, failed: Option<StatusCode>) -> Vec<KeyValue> {
        let request_id = request.request_id.to_str().unwrap_or_default().to_owned();
        let mut attributes = vec![
            KeyValue::new("http.request.method", request.method),
            KeyValue::new("bookguard.request_id", request_id),
        ];
        let number = |status: StatusCode| i64::from(status.as_u16());
        let route = request.route;
        let route = route.map(|it| KeyValue::new("http.route", it.to_owned()));
        let status =
            (request.status).map(|it| KeyValue::new("http.response.status_code", number(it)));
        let failed = failed.map(|it| KeyValue::new("error.type", it.as_str().to_owned()));
        let partner = request.partner_id;
        let partner = partner.map(|it| KeyValue::new("bookguard.partner_id", it.to_string()));
        attributes.extend([route, status, failed, partner].into_iter().flatten());
        attributes
    }
}
