//! Serves `/metrics` on a listener of its own, so that partners never reach it, and looks at the database for it.
//!
//! A scrape asks no database: it shows what `metrics` holds and what `database` found last. Invariant: the number of series does
//! not depend on the number of partners, endpoints or deliveries.

mod database;
mod process;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bookguard_core::clock::Clock;
use bookguard_core::model::EndpointStatus;
use bookguard_core::service::Service;
use bookguard_core::version::VERSION;
use poem::endpoint::make_sync;
use poem::http::Method;
use poem::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use poem::{EndpointExt as _, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::Connections;
use crate::connections::{self, Serving};
use crate::metrics::{DeliveryMetrics, Metrics};
use crate::probes::Stage;
use crate::router::Routes;
use database::Found;
pub(crate) use database::watch_database;

/// The path of the metrics.
pub(crate) const PATH: &str = "/metrics";

/// Prometheus 3 refuses an answer whose type it does not know.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Few programs scrape, and each keeps a connection.
const CONNECTIONS: Connections = Connections {
    all: 32,
    per_address: 16,
    reserve: 1,
};

/// What the last look at the database found.
pub(crate) type LastLook = Arc<Mutex<Option<Found>>>;

/// Shows what is not counted but read at each scrape.
struct State {
    /// Weak, because the database closes with the last owner of the service.
    service: Weak<Service>,
    delivery: Arc<DeliveryMetrics>,
    found: LastLook,
}

/// All that a scrape shows.
pub(crate) fn registry(metrics: &Metrics, service: &Arc<Service>, found: LastLook) -> Registry {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    registry.register(
        "bookguard_build",
        "This node: its version",
        Info::new([("version", VERSION)]),
    );
    registry.register_collector(Box::new(State {
        service: Arc::downgrade(service),
        delivery: Arc::clone(&metrics.delivery),
        found,
    }));
    registry.register_collector(Box::new(process::Process::new()));
    registry
}

/// Serves the metrics until the server ends.
pub(crate) async fn serve(
    listener: TcpListener,
    registry: Registry,
    clock: Clock,
    stage: watch::Receiver<Stage>,
) {
    let mut routes = Routes::new();
    let methods = routes.entry(PATH.to_owned()).or_default();
    methods.insert(Method::GET, make_sync(move |_| answer(&registry)).boxed());
    let serving = Serving::alone(routes, clock, Some(CONNECTIONS), stage);
    connections::serve(listener, serving).await;
}

/// Where the metrics of a server with this address are.
pub(crate) fn url(addr: SocketAddr) -> String {
    format!("http://{addr}{PATH}")
}

fn answer(registry: &Registry) -> Response {
    let mut text = String::new();
    // Writing to a string fails only if a value has no text, and each value here has one.
    if encode(&mut text, registry).is_err() {
        text.clear();
    }
    Response::builder()
        .header(CONTENT_TYPE, OPEN_METRICS)
        .header(CACHE_CONTROL, "no-store")
        .body(text)
}

/// Shows one value.
fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: impl EncodeGaugeValue,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

/// Shows one value for each word of a label.
fn show_each<'a, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, V)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (word, value) in values {
        let labels = [(label, word)];
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(service) = self.service.upgrade() else {
            return Ok(());
        };
        show(
            &mut encoder,
            "bookguard_writer_queue_depth",
            "This node: commands that wait for the writer.",
            service.waiting_commands() as u64,
        )?;
        let oldest_due = self.delivery.oldest_due_age(service.clock().now());
        show(
            &mut encoder,
            "bookguard_delivery_oldest_due_age_seconds",
            "Whole database: how long the oldest delivery has been due that no node holds, to verified endpoints whose last attempt did not fail; 0 if there is none.",
            oldest_due.as_secs_f64(),
        )?;
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found
            .as_ref()
            .map_or(Ok(()), |found| found.encode(&mut encoder))
    }
}

impl Found {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        show(
            encoder,
            "bookguard_ledger_sound",
            "Whole database: 1 if it has every entry that this node has seen published, 0 if it lacks some.",
            u64::from(self.is_sound),
        )?;
        show(
            encoder,
            "bookguard_ledger_size",
            "Whole database: entries of the ledger.",
            self.size,
        )?;
        if let Some(seconds) = self.backed_up {
            show(
                encoder,
                "bookguard_backup_last_success_timestamp_seconds",
                "Whole database: when the newest verified backup in backup_folder was made, in seconds since the epoch; 0 if there is none.",
                seconds,
            )?;
        }
        if !self.witnesses.is_empty() {
            let witnesses = self.witnesses.iter();
            show_each(
                encoder,
                "bookguard_witness_last_cosigned_timestamp_seconds",
                "Whole database: when a witness of the log last cosigned a checkpoint, in seconds since the epoch; 0 if it never has.",
                "witness",
                witnesses.clone().map(|one| (&*one.name, one.cosigned)),
            )?;
            show_each(
                encoder,
                "bookguard_witness_size",
                "Whole database: entries of the ledger that a witness has cosigned, as far as is known.",
                "witness",
                witnesses.clone().map(|one| (&*one.name, one.size)),
            )?;
            show_each(
                encoder,
                "bookguard_witness_contradicts",
                "Whole database: 1 if what a witness has cosigned is not in the ledger, 0 otherwise.",
                "witness",
                witnesses.map(|one| (&*one.name, u64::from(one.is_alarm))),
            )?;
        }
        show(
            encoder,
            "bookguard_timestamp_last_success_timestamp_seconds",
            "Whole database: the time of the last time-stamp of the ledger, in seconds since the epoch; 0 if there is none, or the \
             ledger was moved.",
            self.stamped,
        )?;
        show(
            encoder,
            "bookguard_map_size",
            "Whole database: entries of the ledger that its newest map covers.",
            self.mapped,
        )?;
        show(
            encoder,
            "bookguard_map_oldest_waiting_age_seconds",
            "Whole database: how long the first entry of a booking has waited for a map that covers it; 0 if none waits.",
            self.unmapped_s,
        )?;
        if let Some(seconds) = self.ahead_s {
            show(
                encoder,
                "bookguard_clock_ahead_seconds",
                "This node: whole seconds by which its clock is ahead of the database server's, negative if it is behind.",
                seconds,
            )?;
        }
        let waiting = &self.waiting;
        show_each(
            encoder,
            "bookguard_deliveries",
            "Whole database: deliveries that are not over, at most 1000 due and 1000 others of each endpoint.",
            "state",
            [
                ("due", waiting.due),
                ("later", waiting.later),
                ("held", waiting.held),
                ("leased", self.leased),
            ],
        )?;
        let endpoints = EndpointStatus::WORDS.iter().zip(self.endpoints);
        show_each(
            encoder,
            "bookguard_endpoints",
            "Whole database: webhook endpoints.",
            "health",
            endpoints.map(|((word, _), count)| (*word, count)),
        )
    }
}
