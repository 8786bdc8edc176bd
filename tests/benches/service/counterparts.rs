//! This program in another role, each in a process of its own, as the server is.
//!
//! `empty`: an HTTP server with one handler that does nothing. `post`: a bare HTTP client. `pace`: a bare client at a steady
//! pace. `serve`: the server on a disk with slower commits.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bookguard_server::config::{Config, Settings};
use poem::http::StatusCode;
use poem::listener::{Acceptor as _, Listener as _, TcpListener};
use poem::web::Json;
use poem::{Route, Server, handler, post};
use reqwest::header::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::Fallible;
use crate::load::Timing;

/// Takes the role that the arguments name.
pub fn become_counterpart(arguments: &[String]) -> Fallible<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match words[..] {
            ["empty"] => empty().await,
            ["serve", db, delay_ms] => serve(Path::new(db), delay_ms.parse()?).await,
            ["pace", url, per_second, ms, body] => {
                let time = Duration::from_millis(ms.parse()?);
                paced_client(url, per_second.parse()?, time, body).await
            }
            ["post", url, concurrency, ms, body] => {
                let time = Duration::from_millis(ms.parse()?);
                bare_client(url, concurrency.parse()?, time, body).await
            }
            _ => Err(format!("no such counterpart: {words:?}").into()),
        }
    })
}

/// The least that accepts the same body and answers in the same shape.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "parsed, as the product must, and dropped")]
struct Booking {
    talent: Party,
    organizer: Party,
    event_type: String,
    event_date: String,
    booking_value: f64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "parsed, as the product must, and dropped")]
struct Party {
    id: String,
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    booking_id: &'static str,
    partner_id: &'static str,
    status: &'static str,
    created_at: &'static str,
}

#[handler]
async fn nothing(Json(_): Json<Booking>) -> (StatusCode, Json<Created>) {
    let created = Created {
        booking_id: "bkg_00000000000000000000000000000000",
        partner_id: "ptn_00000000000000000000000000000000",
        status: "created",
        created_at: "2027-01-01T00:00:00.000Z",
    };
    (StatusCode::CREATED, Json(created))
}

async fn empty() -> Fallible<()> {
    let acceptor = TcpListener::bind("127.0.0.1:0").into_acceptor().await?;
    let addr = acceptor
        .local_addr()
        .into_iter()
        .find_map(|addr| addr.as_socket_addr().copied())
        .ok_or("no address")?;
    println!("listening on http://{addr}");
    let app = Route::new().at("/v1/bookings", post(nothing));
    Ok(Server::new_with_acceptor(acceptor).run(app).await?)
}

async fn serve(db: &Path, delay_ms: u64) -> Fallible<()> {
    let settings = Settings {
        db: Some(db.into()),
        listen: Some("127.0.0.1:0".to_owned()),
        dev: Some(true),
        rate_limit_per_second: Some(0),
        registrations_per_minute: Some(0),
        ..Settings::default()
    };
    let load = || {
        Ok(Config {
            commit_delay: Duration::from_millis(delay_ms),
            ..settings.clone().resolve()?
        })
    };
    let signals = bookguard_server::signals()?;
    bookguard_server::run(load()?, signals, load, |server| {
        println!("listening on {}", server.url());
    })
    .await?;
    Ok(())
}

/// The courier's client, with this many connections.
fn client(idle: usize) -> Fallible<reqwest::Client> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is given TLS on the next line"
    )]
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(bookguard_server::tls::system_trust()?)
        .no_proxy()
        .http1_only()
        .pool_max_idle_per_host(idle);
    Ok(client.build()?)
}

/// Posts the body as fast as it is answered, with the courier's headers and client but none of its other work.
async fn bare_client(url: &str, concurrency: usize, time: Duration, body: &str) -> Fallible<()> {
    let client = client(concurrency)?;
    let body = bytes::Bytes::from(body.to_owned());
    let headers = headers();
    // Connections are made before the clock starts.
    let first = Duration::from_millis(100);
    exchange(&client, url, &headers, &body, concurrency, first).await?;
    let (elapsed, latencies) = exchange(&client, url, &headers, &body, concurrency, time).await?;
    say(&Timing::of(elapsed, latencies));
    Ok(())
}

fn say(timing: &Timing) {
    println!(
        "{} {} {}",
        timing.rate(),
        timing.percentile(50),
        timing.percentile(99)
    );
}

/// Posts the body at a steady rate; each turn is a round trip.
async fn paced_client(url: &str, per_second: u32, time: Duration, body: &str) -> Fallible<()> {
    let client = client(1)?;
    let (body, headers) = (bytes::Bytes::from(body.to_owned()), headers());
    let mut pace = tokio::time::interval(Duration::from_secs(1) / per_second);
    let began = Instant::now();
    let mut latencies = Vec::new();
    while began.elapsed() < time {
        pace.tick().await;
        let sent = Instant::now();
        let request = client.post(url).headers(headers.clone());
        request.body(body.clone()).send().await?.bytes().await?;
        latencies.push(sent.elapsed());
    }
    say(&Timing::of(began.elapsed(), latencies));
    Ok(())
}

async fn exchange(
    client: &reqwest::Client,
    url: &str,
    headers: &HeaderMap,
    body: &bytes::Bytes,
    concurrency: usize,
    time: Duration,
) -> Fallible<(Duration, Vec<Duration>)> {
    let began = Instant::now();
    let failed = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..concurrency {
        let (client, url, headers) = (client.clone(), reqwest::Url::parse(url)?, headers.clone());
        let (body, failed) = (body.clone(), Arc::clone(&failed));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut now = began;
            while now < began + time {
                let request = client
                    .post(url.clone())
                    .headers(headers.clone())
                    .body(body.clone());
                let answer = request.send().await;
                let read = match answer {
                    Ok(answer) => answer.bytes().await,
                    Err(error) => Err(error),
                };
                if read.is_err() {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                let ended = Instant::now();
                latencies.push(ended - now);
                now = ended;
            }
            latencies
        });
    }
    let latencies: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    match failed.load(Ordering::Relaxed) {
        0 => Ok((began.elapsed(), latencies)),
        n => Err(format!("{n} posts of the bare client failed").into()),
    }
}

fn headers() -> HeaderMap {
    let pairs = [
        ("content-type", "application/json"),
        (
            "x-service-signature",
            "sha256=6a1fd5f59fbd7cbb3ef4b1b3b0f9b1a6f1a0d7c7f6ad1a5d2a4c1b0f9e8d7c6b",
        ),
        ("webhook-id", "evt_00000000000000000000000000000000"),
        ("webhook-timestamp", "1800000000"),
        (
            "webhook-signature",
            "v1,ah/V9Z+9fLs+9LGzsPmxpvGg18f2rRpdKkwbD56NfGs=",
        ),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| {
            (
                reqwest::header::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        })
        .collect()
}
