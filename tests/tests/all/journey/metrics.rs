//! What an operator measures: the values move as the service works, on a listener that shows nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bookguard_core::ledger::cosignature::Cosigner;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::limits::DAY_MS;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::{Engine, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::test_server::TestServer;
use bookguard_tests::waiting::until;
use reqwest::Response;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::documents::repository;

const SECOND: i64 = 1000;

/// The most series of one node, however many partners there are.
const SERIES: usize = 3_000;

/// A server that serves metrics.
struct Measured {
    server: TestServer,
    metrics: Caller,
    backups: TempDir,
}

/// The samples of one scrape, by name and labels.
struct Scrape(BTreeMap<String, f64>);

/// A policy with a witness at an address where nobody listens.
fn witness_that_is_away() -> TrustPolicy {
    let cosigner = Cosigner::from_seed("w.example.com", &[1; 32]).unwrap();
    let key = cosigner.verifier();
    TrustPolicy::parse(&format!("witness w {key} http://127.0.0.1:1\nquorum w\n")).unwrap()
}

impl Measured {
    async fn open(engine: Engine) -> Self {
        let backups = tempfile::tempdir().unwrap();
        let server = TestServer::with(engine, |mut config| {
            config.metrics_listen = Some("127.0.0.1:0".to_owned());
            config.backup_folder = Some(backups.path().to_owned());
            config.witnesses = Some(Arc::new(witness_that_is_away()));
            config
        });
        let server = server.await;
        let url = server.running().metrics_url().unwrap();
        let metrics = Caller::new(url.strip_suffix("/metrics").unwrap());
        Self {
            server,
            metrics,
            backups,
        }
    }

    async fn ask(&self, method: &str, path: &str) -> Response {
        self.metrics.request(method, path).send().await.unwrap()
    }

    async fn scrape(&self) -> Scrape {
        let response = self.ask("GET", "/metrics").await;
        assert_eq!(response.status(), 200);
        Scrape::read(&response.text().await.unwrap())
    }

    /// Scrapes until this sample has this value.
    async fn until_is(&self, sample: &str, value: f64) -> Scrape {
        until(&format!("{sample} {value}"), async || {
            let scrape = self.scrape().await;
            (scrape.find(sample) == Some(value)).then_some(scrape)
        })
        .await
    }
}

impl Scrape {
    fn read(text: &str) -> Self {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Self(samples.collect())
    }

    fn find(&self, sample: &str) -> Option<f64> {
        self.0.get(sample).copied()
    }

    fn of(&self, sample: &str) -> f64 {
        self.find(sample)
            .unwrap_or_else(|| panic!("no {sample} in {:#?}", self.0))
    }

    /// The number of requests with these labels.
    fn requests(&self, method: &str, route: &str, status: u16) -> f64 {
        let labels = format!(
            r#"{{http_request_method="{method}",http_route="{route}",http_response_status_code="{status}"}}"#
        );
        let sample = format!("http_server_request_duration_seconds_count{labels}");
        self.find(&sample).unwrap_or_default()
    }

    fn series(&self) -> BTreeSet<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[tokio::test]
async fn requests_and_batches_are_measured() {
    on_every_engine(async |engine| {
        let measured = Measured::open(engine).await;
        let acme = measured.server.partner("Acme").await;
        for _ in 0..3 {
            acme.post("/v1/bookings", &json!({})).await.ok(400);
        }
        let booking = acme.book().await;
        acme.get(&format!("/v1/bookings/{booking}")).await.ok(200);
        acme.request("BREW", "/v1/bookings").send().await.unwrap();
        acme.request("GET", "/nowhere").send().await.unwrap();
        let scrape = measured.scrape().await;
        for (method, route, status, count) in [
            ("POST", "/v1/bookings", 400, 3.0),
            ("POST", "/v1/bookings", 201, 1.0),
            ("GET", "/v1/bookings/{bookingId}", 200, 1.0),
            ("_OTHER", "/v1/bookings", 405, 1.0),
            ("GET", "", 404, 1.0),
        ] {
            let found = scrape.requests(method, route, status);
            assert_eq!(found, count, "{method} {route} {status}");
        }
        let commits = scrape.of("bookguard_writer_commit_seconds_count");
        assert!(commits >= 2.0, "the partner and the booking: {commits}");
        assert_eq!(scrape.of("bookguard_writer_queue_depth"), 0.0);
        let before = scrape.of("bookguard_writer_batch_size_sum");
        assert!(before >= commits);
        let (acme, more) = (&acme, 20);
        let bookings: Vec<_> = (0..more)
            .map(|_| {
                let acme = acme.clone();
                tokio::spawn(async move { acme.book().await })
            })
            .collect();
        for booking in bookings {
            booking.await.unwrap();
        }
        let checkpoint = acme.get("/v1/ledger/checkpoint").await.text();
        let entries: f64 = checkpoint.lines().nth(1).unwrap().parse().unwrap();
        assert!(entries > f64::from(more));
        let scrape = measured.until_is("bookguard_ledger_size", entries).await;
        assert!(scrape.of("bookguard_writer_batch_size_sum") >= before + f64::from(more));
        assert_eq!(scrape.of("bookguard_ledger_sound"), 1.0);
        // A database server makes backups of its own.
        let backup = scrape.find("bookguard_backup_last_success_timestamp_seconds");
        assert_eq!(backup, (engine == Engine::Sqlite).then_some(0.0));
        // A database file has no clock of its own.
        let ahead = scrape.find("bookguard_clock_ahead_seconds");
        assert_eq!(ahead.is_some(), engine != Engine::Sqlite);
        assert!(scrape.of("process_resident_memory_bytes") > 1e6);
        assert!(scrape.of("process_open_fds") > 3.0);
        assert!(scrape.of("process_cpu_seconds_total") > 0.0);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            scrape.of(&format!(r#"bookguard_build_info{{version="{version}"}}"#)),
            1.0
        );
    })
    .await;
}

#[tokio::test]
async fn deliveries_and_the_health_of_endpoints_are_measured() {
    on_every_engine(async |engine| {
        let measured = Measured::open(engine).await;
        let acme = measured.server.partner("Acme").await;
        let (receiver, _) = acme.receiving(Answer::Status(200)).await;
        let delivered = r#"bookguard_delivery_attempts_total{result="delivered"}"#;
        let failed = r#"bookguard_delivery_attempts_total{result="http_5xx"}"#;
        let scrape = measured.scrape().await;
        assert_eq!((scrape.of(delivered), scrape.of(failed)), (0.0, 0.0));
        let ours = r#"bookguard_delivery_attempts_total{result="our_fault"}"#;
        assert_eq!(scrape.of(ours), 0.0);
        acme.book().await;
        let scrape = measured.until_is(delivered, 1.0).await;
        assert_eq!(scrape.of("bookguard_delivery_lag_seconds_count"), 1.0);
        receiver.answer(Answer::Status(500));
        for n in 1..=10 {
            acme.book().await;
            measured.until_is(failed, f64::from(n)).await;
        }
        measured
            .until_is(r#"bookguard_deliveries{state="later"}"#, 10.0)
            .await;
        let scrape = measured
            .until_is(r#"bookguard_endpoints{health="failing"}"#, 1.0)
            .await;
        assert_eq!(scrape.of(r#"bookguard_endpoints{health="active"}"#), 0.0);
        measured.server.advance(5 * DAY_MS);
        measured
            .until_is(r#"bookguard_endpoints{health="suspended"}"#, 1.0)
            .await;
        let scrape = measured
            .until_is(r#"bookguard_deliveries{state="held"}"#, 10.0)
            .await;
        assert_eq!(
            scrape.of("bookguard_delivery_oldest_due_age_seconds"),
            0.0,
            "a receiver that fails does not make this service late"
        );
    })
    .await;
}

#[tokio::test]
async fn a_delivery_that_nobody_takes_grows_old() {
    on_every_engine(async |engine| {
        let measured = Measured::open(engine).await;
        let acme = measured.server.partner("Acme").await;
        let (_receiver, _) = acme.receiving(Answer::Silence).await;
        let age = "bookguard_delivery_oldest_due_age_seconds";
        assert_eq!(measured.scrape().await.of(age), 0.0);
        // A node holds few deliveries of an endpoint that has not answered yet; the others stay in the store.
        for _ in 0..30 {
            acme.book().await;
        }
        let due = r#"bookguard_deliveries{state="due"}"#;
        let leased = r#"bookguard_deliveries{state="leased"}"#;
        until(
            "deliveries that are due, and some that a node holds",
            async || {
                let scrape = measured.scrape().await;
                (scrape.find(due)? > 0.0 && scrape.find(leased)? > 0.0).then_some(())
            },
        )
        .await;
        measured.server.advance(20 * SECOND);
        until("an age", async || {
            (measured.scrape().await.of(age) >= 20.0).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn the_newest_verified_backup_is_shown() {
    let measured = Measured::open(Engine::Sqlite).await;
    let sample = "bookguard_backup_last_success_timestamp_seconds";
    measured.until_is(sample, 0.0).await;
    // A backup that is being made, or was not verified, does not count.
    let folder = measured.backups.path();
    for end in ["db.failed", "db.unverified", "db.0123456789ab.part"] {
        std::fs::write(
            folder.join(format!("bookguard-20990101T000000.000Z.{end}")),
            "",
        )
        .unwrap();
    }
    let line = measured.server.database().command("backup --keep 1");
    let made = line.arg(folder).run().await.string("file");
    let written = std::fs::metadata(made).unwrap().modified().unwrap();
    let written = written.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let shown = until("the backup", async || {
        measured
            .scrape()
            .await
            .find(sample)
            .filter(|seconds| *seconds > 0.0)
    });
    let shown = shown.await;
    assert!(
        (written - 60.0..=written).contains(&shown),
        "{shown} {written}"
    );
}

#[tokio::test]
async fn partners_make_no_series() {
    on_every_engine(async |engine| {
        let measured = Measured::open(engine).await;
        let receiver = Receiver::start().await;
        let work = async |name: &str| {
            let acme = measured.server.partner(name).await;
            acme.endpoint(&receiver.url()).await;
            let booking = acme.book().await;
            acme.event_that_is(&booking, "delivered").await;
            acme.get(&format!("/{name}")).await;
            acme.get(&format!("/v1/bookings/{name}")).await;
        };
        work("first").await;
        let sample = r#"bookguard_endpoints{health="active"}"#;
        let first = measured.until_is(sample, 1.0).await;
        for n in 0..6 {
            work(&format!("partner-{n}")).await;
        }
        let then = measured.until_is(sample, 7.0).await;
        assert_eq!(first.series(), then.series());
        assert!(then.series().len() < SERIES);
    })
    .await;
}

#[tokio::test]
async fn the_listener_of_the_metrics_shows_nothing_else_and_no_other_shows_them() {
    let measured = Measured::open(Engine::Sqlite).await;
    let answer = measured.ask("GET", "/metrics").await;
    let header = |answer: &Response, name: &str| {
        let value = answer.headers().get(name).unwrap();
        value.to_str().unwrap().to_owned()
    };
    assert_eq!(
        header(&answer, "content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert_eq!(header(&answer, "cache-control"), "no-store");
    assert_eq!(measured.ask("HEAD", "/metrics").await.status(), 200);
    let refused = measured.ask("POST", "/metrics").await;
    assert_eq!(refused.status(), 405);
    assert_eq!(header(&refused, "allow"), "GET, HEAD");
    for path in [
        "/",
        "/metrics/",
        "/v1/health",
        "/livez",
        "/v1/bookings",
        "/openapi.json",
    ] {
        let unknown = measured.ask("GET", path).await;
        assert_eq!(unknown.status(), 404, "{path}");
        let said = unknown.text().await.unwrap();
        assert!(
            !said.contains("openapi.json"),
            "it is not served here: {said}"
        );
    }
    let public = measured.server.caller();
    let answer = public.request("GET", "/metrics").send().await.unwrap();
    assert_eq!(answer.status(), 404);
    // Scrapes are not requests of the service.
    let scrape = measured.scrape().await;
    assert_eq!(scrape.requests("GET", "/metrics", 200), 0.0);
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    let known = words.filter(|word| {
        ["bookguard_", "http_server_", "process_"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
    });
    known.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_rules_the_dashboard_and_the_manual_name_only_metrics_that_exist() {
    let measured = Measured::open(Engine::Sqlite).await;
    measured.server.partner("Acme").await;
    let scrape = measured.until_is("bookguard_ledger_sound", 1.0).await;
    let names = scrape
        .series()
        .into_iter()
        .map(|series| series.split('{').next().unwrap());
    // A database file has no clock of its own; another test sees this one on PostgreSQL.
    let names: BTreeSet<_> = names.chain(["bookguard_clock_ahead_seconds"]).collect();
    let families: BTreeSet<_> = names
        .iter()
        .map(|name| {
            let ends = ["_bucket", "_count", "_sum"];
            ends.iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(name)
        })
        .collect();
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    for path in [
        "ops/prometheus/rules.yml",
        "ops/prometheus/rules.test.yml",
        "ops/grafana/bookguard.json",
    ] {
        let asked = named(&read(path));
        assert!(asked.len() > 5, "{path}: {asked:?}");
        for name in asked {
            // The rest of this one is a route or a path.
            assert!(
                names.contains(&*name),
                "{path} names {name}, which no scrape has"
            );
        }
    }
    // The manual has a row for each metric, under the name to ask for.
    let manual = read("docs/operate/watch.md");
    for family in families {
        assert!(
            manual.contains(&format!("| `{family}")),
            "docs/operate/watch.md has no row for {family}"
        );
    }
}

#[tokio::test]
async fn the_dashboard_is_one_that_grafana_loads() {
    let text = std::fs::read_to_string(repository().join("ops/grafana/bookguard.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    assert!(board["id"].is_null(), "Grafana gives the id");
    assert!(
        board["schemaVersion"].as_u64() >= Some(36),
        "{}",
        board["schemaVersion"]
    );
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in board.list("panels") {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = &panel["gridPos"];
        let side = |name: &str| place[name].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{panel}");
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(taken.insert((x, y)), "panels overlap: {panel}");
            }
        }
        let source = json!({"type": "prometheus", "uid": "${source}"});
        assert_eq!(panel["datasource"], source);
        for target in panel.list("targets") {
            assert_eq!(target["datasource"], source);
            assert!(!target.text("expr").is_empty() && !target.text("refId").is_empty());
        }
    }
}
