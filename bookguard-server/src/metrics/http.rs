//! Counts and times requests, as OpenTelemetry's conventions for HTTP name it.
//!
//! Invariant: the number of series is bounded. A client can get any operation refused in many ways, so only the first
//! combinations of route and refusal keep their route.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bookguard_core::limits::REFUSALS_BY_ROUTE;
use poem::http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The bounds that the conventions advise.
const REQUEST_S: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// The label of all further routes once there are too many.
const OTHER: &str = "_OTHER";

/// The measurements of requests.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<RequestLabels, Histogram>,
    /// How many combinations of route and refusal are shown, by the client's fault, and otherwise.
    refusals: [AtomicUsize; 2],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    http_request_method: &'static str,
    /// Empty if no route has the path.
    http_route: Arc<str>,
    /// `None` if the client was gone before it was answered.
    http_response_status_code: Option<u16>,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            requests: Family::new_with_constructor(|| Histogram::new(REQUEST_S)),
            refusals: Default::default(),
        }
    }
}

impl HttpMetrics {
    /// Notes that a request ended.
    pub(crate) fn ended(
        &self,
        method: &'static str,
        route: Option<&Arc<str>>,
        status: Option<StatusCode>,
        took: Duration,
    ) {
        let labels = RequestLabels {
            http_request_method: method,
            http_route: route.map_or_else(Arc::default, Arc::clone),
            http_response_status_code: status.map(|status| status.as_u16()),
        };
        if let Some(known) = self.requests.get(&labels) {
            return known.observe(took.as_secs_f64());
        }
        let labels = self.admitted(labels, status);
        self.requests
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// The labels of a new series: without its route if there are too many.
    fn admitted(&self, mut labels: RequestLabels, status: Option<StatusCode>) -> RequestLabels {
        let group = match status {
            Some(status) if status.is_client_error() => &self.refusals[0],
            Some(status) if !status.is_server_error() => return labels,
            _ => &self.refusals[1],
        };
        if !labels.http_route.is_empty()
            && group.fetch_add(1, Ordering::Relaxed) >= REFUSALS_BY_ROUTE
        {
            labels.http_route = OTHER.into();
        }
        labels
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "http_server_request_duration",
            "This node: time from a request's head until the head of its answer, waiting for the client included",
            Unit::Seconds,
            self.requests.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn series(metrics: &HttpMetrics) -> Vec<String> {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let counts = text.lines().filter(|line| line.contains("_count{"));
        counts.map(str::to_owned).collect()
    }

    #[test]
    fn whoever_gets_everything_refused_makes_a_bounded_number_of_series() {
        let metrics = HttpMetrics::default();
        for route in 0..200 {
            let route: Arc<str> = format!("/v1/{route}").into();
            for status in [200, 400, 401, 404, 422, 429, 500, 503] {
                let status = StatusCode::from_u16(status).ok();
                for _ in 0..2 {
                    metrics.ended("GET", Some(&route), status, Duration::ZERO);
                }
            }
            metrics.ended("GET", Some(&route), None, Duration::ZERO);
        }
        let series = series(&metrics);
        // Every success, the first refusals, and one series for the rest of each status.
        assert_eq!(series.len(), 200 + 2 * REFUSALS_BY_ROUTE + 8);
        let total: u64 = series
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(total, 200 * (2 * 8 + 1), "none is lost");
        let other = series.iter().filter(|line| line.contains(OTHER)).count();
        assert_eq!(other, 8);
    }

    #[test]
    fn a_request_without_a_route_or_an_answer_is_counted() {
        let metrics = HttpMetrics::default();
        metrics.ended("_OTHER", None, Some(StatusCode::NOT_FOUND), Duration::ZERO);
        metrics.ended("GET", None, None, Duration::ZERO);
        let mut found = series(&metrics);
        found.sort();
        let name = "http_server_request_duration_seconds_count";
        assert_eq!(
            found,
            [
                format!(
                    r#"{name}{{http_request_method="GET",http_route="",http_response_status_code=""}} 1"#
                ),
                format!(
                    r#"{name}{{http_request_method="_OTHER",http_route="",http_response_status_code="404"}} 1"#
                ),
            ]
        );
    }
}
