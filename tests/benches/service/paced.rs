//! An open loop: bookings are created at a steady pace, far below what the server can take, so that no queue is part of the
//! measured time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::cases::BOOKING;
use crate::http::{self, Connection};
use crate::load::{self, Client, Limit, Timing};
use crate::receiver::{Receiver, booking_id};

/// How long the last webhook may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A booking that was created.
pub struct Noted {
    booking_id: String,
    asked: Instant,
    answered: Instant,
}

impl Noted {
    /// How long its answer took.
    pub fn answer(&self) -> Duration {
        self.answered - self.asked
    }
}

/// From what on a webhook is timed.
#[derive(Clone, Copy)]
pub enum From {
    /// The request that created the booking.
    Asked,
    /// The answer to it; the time is 0 for a webhook that arrived before the answer.
    Answered,
}

struct Paced {
    /// The index of its key, because clients end in any order.
    place: usize,
    request: Vec<u8>,
    next: tokio::time::Instant,
    every: Duration,
    noted: Vec<Noted>,
}

impl Client for Paced {
    async fn turn(&mut self, connection: &mut Connection) -> Fallible<bool> {
        tokio::time::sleep_until(self.next).await;
        self.next += self.every;
        let asked = Instant::now();
        let answer = connection.exchange(&self.request).await?;
        let answered = Instant::now();
        http::expect(&answer, 201..202)?;
        self.noted.push(Noted {
            booking_id: booking_id(answer.body)
                .ok_or("a booking without an id")?
                .to_owned(),
            asked,
            answered,
        });
        Ok(true)
    }
}

/// Creates `per_second` bookings a second with the keys in turn; returns the bookings of each key, in the keys' order.
pub fn create(
    server: SocketAddr,
    keys: &[String],
    per_second: u32,
    time: Duration,
) -> Fallible<Vec<Vec<Noted>>> {
    let gap = Duration::from_secs(1) / per_second;
    let every = gap * u32::try_from(keys.len())?;
    let mut next = tokio::time::Instant::now() + every;
    let clients = keys.iter().enumerate().map(|(place, key)| {
        next += gap;
        Paced {
            place,
            request: http::request("POST", "/v1/bookings", Some(key), Some(BOOKING)),
            next,
            every,
            noted: Vec::new(),
        }
    });
    let (_, mut clients) = load::run(&[server], Limit::time(time), clients.collect())?;
    clients.sort_by_key(|client| client.place);
    Ok(clients.into_iter().map(|client| client.noted).collect())
}

/// Returns how long the webhooks of these bookings took.
pub fn timing<'a>(
    receiver: &Receiver,
    noted: impl Iterator<Item = &'a Noted> + Clone,
    from: From,
) -> Fallible<Timing> {
    let until = Instant::now() + PATIENCE;
    for noted in noted.clone() {
        while receiver.came(&noted.booking_id).is_none() {
            if Instant::now() > until {
                return Err(format!("the webhook of {} did not come", noted.booking_id).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let first = noted.clone().map(|noted| noted.asked).min();
    let last = noted.clone().map(|noted| noted.answered).max();
    let elapsed = first.zip(last).map_or(Duration::ZERO, |(a, b)| b - a);
    let taken = noted.filter_map(|noted| {
        let came = receiver.came(&noted.booking_id)?;
        Some(match from {
            From::Asked => came - noted.asked,
            From::Answered => came.saturating_duration_since(noted.answered),
        })
    });
    Ok(Timing::of(elapsed, taken))
}
