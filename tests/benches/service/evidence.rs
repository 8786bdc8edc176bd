//! What evidence costs: the packet of a booking with 20 entries, its page and its PDFs, in processor time; and the memory of
//! many at once.
//!
//! Each packet is asked for once, so that none was made before. The figures of page and PDFs hold the making of the packet.

use std::net::SocketAddr;

use crate::Fallible;
use crate::cases::{self, measure};
use crate::http::{self, Connection};
use crate::load::{self, Client, Limit};
use crate::parts::Bench;
use crate::report::{Report, median};

/// Entries of each booking: its recording, its protection, and acceptances of its terms.
const ENTRIES: usize = 20;
/// Bookings in one measurement: a thread's processor time is counted in steps of 10 ms.
const BOOKINGS: usize = 300;
/// Packets, pages and PDFs that are asked for at the same time.
const AT_ONCE: usize = 100;
/// The most memory that [`AT_ONCE`] of them should take, MiB.
const AT_ONCE_MIB: f64 = 20.0;

/// A form of the answer: name, query, media type, and the most milliseconds of processor time it should take.
const FORMS: [(&str, &str, &str, f64); 4] = [
    ("packet", "", "application/json", 1.0),
    ("page", "", "text/html", 5.0),
    ("PDF for banks", "?form=bank", "application/pdf", 50.0),
    ("PDF for archives", "?form=archive", "application/pdf", 50.0),
];

/// Measures all forms.
pub fn evidence(bench: &Bench, report: &mut Report) -> Fallible<()> {
    let server = bench.maker.server()?;
    let addr = server.process.addr;
    let keys = cases::partners(addr, bench.concurrency, None)?;
    report.part("evidence of 20 entries");
    for (name, query, media_type, aim) in FORMS {
        let mut times = Vec::new();
        for _ in 0..bench.repeat {
            let bookings = grow(addr, &keys, BOOKINGS)?;
            let sample = measure(&server.process, || {
                ask(addr, bookings, 2, query, media_type)
            })?;
            times.push(sample.cpu_us / 1e3);
        }
        let what = format!("processor time of a {name}");
        report.value(&what, median(times), "ms", Some(aim));
    }
    for (name, query, media_type, _) in FORMS {
        let bookings = grow(addr, &keys, AT_ONCE)?;
        let idle = server.process.memory("VmRSS")?;
        let sample = measure(&server.process, || {
            ask(addr, bookings, AT_ONCE, query, media_type)
        })?;
        let what = format!("memory above idle, {AT_ONCE} at once: {name}");
        report.value(&what, sample.peak - idle, "MiB", Some(AT_ONCE_MIB));
    }
    Ok(())
}

/// A booking: its key and its path.
type Booking = (String, String);

/// Makes bookings with [`ENTRIES`] entries.
fn grow(addr: SocketAddr, keys: &[String], count: usize) -> Fallible<Vec<Booking>> {
    let clients = keys.iter().cycle().take(count).map(|key| Grow {
        key: key.clone(),
        path: None,
    });
    let (_, grown) = load::run(&[addr], Limit::turns(count as u64), clients.collect())?;
    let grown = grown.into_iter();
    Ok(grown.filter_map(|one| Some((one.key, one.path?))).collect())
}

/// A client that makes one booking.
struct Grow {
    key: String,
    path: Option<String>,
}

impl Client for Grow {
    async fn turn(&mut self, connection: &mut Connection) -> Fallible<bool> {
        let key = Some(self.key.as_str());
        let made = http::request("POST", "/v1/bookings", key, Some(cases::BOOKING));
        let made: serde_json::Value =
            serde_json::from_slice(connection.exchange(&made).await?.body)?;
        let id = made["bookingId"]
            .as_str()
            .ok_or("a booking without an id")?;
        let path = format!("/v1/bookings/{id}");
        let disclosure = http::request("GET", &format!("{path}/disclosure"), key, None);
        let disclosure: serde_json::Value =
            serde_json::from_slice(connection.exchange(&disclosure).await?.body)?;
        let protect = http::request("POST", &format!("{path}/protect"), key, None);
        http::expect(&connection.exchange(&protect).await?, 200..201)?;
        for n in 2..ENTRIES {
            let body = serde_json::json!({
                "party": "organizer", "method": format!("checkbox {n}"), "at": made["createdAt"],
                "disclosureHash": disclosure["disclosureHash"],
            });
            let body = body.to_string();
            let accept = http::request("POST", &format!("{path}/acceptances"), key, Some(&body));
            http::expect(&connection.exchange(&accept).await?, 201..202)?;
        }
        self.path = Some(path);
        Ok(true)
    }
}

/// Asks once for the evidence of each booking.
fn ask(
    addr: SocketAddr,
    bookings: Vec<Booking>,
    clients: usize,
    query: &'static str,
    media_type: &'static str,
) -> Fallible<load::Timing> {
    let mut asking: Vec<Ask> = (0..clients).map(|_| Ask(Vec::new())).collect();
    for (n, (key, path)) in bookings.into_iter().enumerate() {
        let head = http::request("GET", &format!("{path}/evidence{query}"), Some(&key), None);
        let head = String::from_utf8(head)?;
        let accept = format!("\r\naccept: {media_type}\r\n\r\n");
        let request = head.replacen("\r\n\r\n", &accept, 1);
        asking[n % clients].0.push(request.into_bytes());
    }
    Ok(load::run(&[addr], Limit::turns(u64::MAX), asking)?.0)
}

/// A client with the requests it has still to send.
struct Ask(Vec<Vec<u8>>);

impl Client for Ask {
    async fn turn(&mut self, connection: &mut Connection) -> Fallible<bool> {
        let Some(request) = self.0.pop() else {
            return Ok(false);
        };
        http::expect(&connection.exchange(&request).await?, 200..201)?;
        Ok(true)
    }
}
