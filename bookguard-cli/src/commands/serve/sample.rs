//! The data of `serve --demo`: platforms with two months of bookings, made by a server of their own through its interface, under
//! a clock that is set from booking to booking.
//!
//! Invariant: the data differs from run to run only in ids, keys and times.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bookguard_core::clock::Clock;
use bookguard_core::features::acceptances::{AcceptTerms, GetDisclosure};
use bookguard_core::features::api_keys::{CreateApiKey, RevokeApiKey};
use bookguard_core::features::bookings::{CreateBooking, ProtectBooking};
use bookguard_core::features::cancellations::{CancelBooking, DecideResolution};
use bookguard_core::features::console::CreateConsoleLink;
use bookguard_core::features::endpoints::CreateEndpoint;
use bookguard_core::features::items::AddEvidenceItem;
use bookguard_core::features::items::files::{PutItemFile, digest_of};
use bookguard_core::features::operator_keys::CreateOperatorKey;
use bookguard_core::features::operator_sessions::CreateOperatorLink;
use bookguard_core::features::partners::{ApprovePartner, RegisterPartner, Registration};
use bookguard_core::features::policies::PutPolicy;
use bookguard_core::features::reschedules::RescheduleBooking;
use bookguard_core::features::shares::CreateShare;
use bookguard_core::limits::{DAY_MS, HOUR_MS};
use bookguard_core::model::Timestamp;
use bookguard_core::service::RegistrationMode;
use bookguard_server::Server;
use bookguard_server::config::{Config, RequestLines};
use poem::http::StatusCode;
use poem::{Route, handler, post};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::commands::demo::call;
use crate::commands::demo::receiver::listen;
use crate::failure::Failure;
use crate::settings::Where;
use crate::target::remote::Remote;
use crate::target::{Purpose, Target, sending};

/// How far back the first booking lies.
const DAYS: i64 = 60;
/// How many bookings each active platform has.
const BOOKINGS: [i64; 2] = [48, 16];
/// How many of all these were recorded within the last day.
const RECENT: i64 = 16;

const TALENTS: [&str; 8] = [
    "The Night Owls",
    "Mara Quint Trio",
    "DJ Solana",
    "Étienne Roux",
    "Northern Brass",
    "Ana & the Tides",
    "Magnus Lindqvist",
    "The Paper Lanterns",
];
const ORGANIZERS: [&str; 6] = [
    "Riverside Hall",
    "Lakeside Festival",
    "Hotel Aurora",
    "Meridian Weddings",
    "City of Port Alder",
    "Foundry Club",
];
const EVENTS: [(&str, &str); 5] = [
    ("concert", "talent_standard"),
    ("wedding", "firm"),
    ("corporate event", "case_by_case"),
    ("festival", "touring_artist"),
    ("private party", "moderate"),
];
const ZONES: [&str; 3] = ["America/New_York", "Europe/Berlin", "America/Los_Angeles"];

/// A platform with sample data.
pub(super) struct SamplePartner {
    pub(super) name: String,
    pub(super) id: String,
    /// Its first API key; `None` while it waits for approval.
    pub(super) api_key: Option<String>,
}

/// The sample data, and the receiver of its webhooks for as long as this lives.
pub(super) struct Sample {
    pub(super) partners: Vec<SamplePartner>,
    pub(super) bookings: i64,
    /// A link to a booking's evidence.
    pub(super) evidence: String,
    /// A link that signs somebody in to the console, if it is served.
    pub(super) console: Option<String>,
    /// A link that signs somebody in to the operator's console, if it is served.
    pub(super) operators: Option<String>,
    receiver: JoinHandle<()>,
}

impl Drop for Sample {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

/// Fills the new database of this configuration.
///
/// # Errors
/// The failure of the first step.
pub(super) async fn fill(config: &Config) -> Result<Sample, Failure> {
    let begun = Clock::System.now().plus_ms(-DAYS * DAY_MS);
    let clock = Arc::new(AtomicI64::new(begun.ms()));
    let free = "127.0.0.1:0".to_owned();
    let making = Config {
        listen: free.clone(),
        public_url: Some(address(config)),
        operator_listen: config.operator_listen.as_ref().map(|_| free.clone()),
        operator_url: operator_address(config),
        metrics_listen: None,
        otlp_endpoint: None,
        registration: RegistrationMode::Approval,
        rate_limit_per_second: 0,
        registrations_per_minute: 0,
        requests: RequestLines::default(),
        clock: Clock::Set(Arc::clone(&clock)),
        ..config.clone()
    };
    let (receiver, url) = receiver().await?;
    let server = Server::start(making.clone()).await?;
    let making = Making {
        config: making,
        base: server.url(),
        clock,
    };
    let made = making.everything(&url).await;
    server.stop().await;
    let (partners, evidence, console) = made?;
    let operators = match making.config.console && making.config.operator_listen.is_some() {
        true => Some(making.operator_link().await?),
        false => None,
    };
    Ok(Sample {
        operators,
        partners,
        bookings: BOOKINGS.iter().sum(),
        evidence,
        console,
        receiver,
    })
}

/// The address at which partners reach the server.
fn address(config: &Config) -> String {
    let listening = || format!("http://{}", config.listen);
    config.public_url.clone().unwrap_or_else(listening)
}

/// The address at which the operator reaches its console, if there is one.
fn operator_address(config: &Config) -> Option<String> {
    let listening = config.operator_listen.as_ref();
    let listening = listening.map(|listen| format!("http://{listen}"));
    config.operator_url.clone().or(listening)
}

struct Making {
    config: Config,
    base: String,
    clock: Arc<AtomicI64>,
}

impl Making {
    async fn everything(
        &self,
        hooks: &str,
    ) -> Result<(Vec<SamplePartner>, String, Option<String>), Failure> {
        let mut partners = Vec::new();
        let mut link = String::new();
        let platforms = [
            ("Acme Stage", "talent marketplace"),
            ("Lakeside Venues", "venue booking"),
        ];
        let begun = self.now().ms();
        for ((name, business), bookings) in platforms.into_iter().zip(BOOKINGS) {
            let registered = self.register(name, business).await?;
            let approved = self.approve(&registered).await?;
            let remote = Remote::new(&self.base, approved.api_key.clone())?;
            let body = json!({"url": hooks, "description": "Production"});
            call::<CreateEndpoint>(&remote, &[], body).await?;
            partners.push((registered, approved, remote, bookings));
        }
        let (closed, first) = ("http://127.0.0.1:9/hook", &partners[0].2);
        // It would hold up everything else that happens, which then looks as if nothing arrived.
        let body = json!({
            "url": closed, "description": "Old system, switched off", "events": ["resolution.created"],
        });
        call::<CreateEndpoint>(first, &[], body).await?;
        let body = json!({"name": "Booking desk", "scopes": ["bookings:read", "bookings:write"]});
        call::<CreateApiKey>(first, &[], body).await?;
        let old = json!({"name": "Old integration"});
        let old = call::<CreateApiKey>(first, &[], old).await?;
        let id = old.api_key_id.to_string();
        call::<RevokeApiKey>(first, &[&id], Value::Null).await?;
        self.own_policy(first).await?;
        let all: i64 = BOOKINGS.iter().sum();
        let (mut made, mut done) = (0, [0; 2]);
        // The platforms take turns, as their bookings came in time.
        while made < all {
            let furthest = |of: &usize| done[*of] * 1_000 / BOOKINGS[*of];
            let turn = (0..BOOKINGS.len()).min_by_key(furthest).unwrap_or_default();
            let before_today = (DAYS - 1) * DAY_MS;
            let at = match made - (all - RECENT) {
                ..0 => begun + (made + 1) * before_today / (all - RECENT + 1),
                recent => begun + before_today + recent * (DAY_MS - 3 * HOUR_MS) / RECENT,
            };
            // The events of the booking before may have ended later than that.
            self.clock.fetch_max(at, Ordering::AcqRel);
            let shared = self.booking(&partners[turn].2, made).await?;
            link = shared.unwrap_or(link);
            done[turn] += 1;
            made += 1;
        }
        let waiting = self.register("Harbor Events", "event agency").await?;
        // A link to the console works for minutes only.
        self.clock
            .store(Clock::System.now().ms(), Ordering::Release);
        let console = match self.config.console {
            true => {
                let body = json!({"person": "Guest"});
                Some(call::<CreateConsoleLink>(first, &[], body).await?.url)
            }
            false => None,
        };
        let mut partners: Vec<_> = partners
            .into_iter()
            .map(|(registered, approved, ..)| sample(registered, approved.api_key))
            .collect();
        partners.push(sample(waiting, None));
        Ok((partners, link, console))
    }

    fn now(&self) -> Timestamp {
        Clock::Set(Arc::clone(&self.clock)).now()
    }

    fn pass(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::AcqRel);
    }

    async fn register(&self, name: &str, business: &str) -> Result<Registration, Failure> {
        let host = name.to_lowercase().replace(' ', "");
        let body = json!({
            "name": name,
            "businessType": business,
            "contactEmail": format!("integration@{host}.example"),
            "website": format!("https://{host}.example"),
        });
        call::<RegisterPartner>(&Remote::new(&self.base, None)?, &[], body).await
    }

    /// The database itself, as its administrator works on it beside a running server.
    fn database(&self) -> Result<Target, Failure> {
        let place = Where::Database {
            config: Box::new(self.config.clone()),
            partner_id: None,
        };
        Target::open(place, Purpose::Work)
    }

    /// Makes an operator key, and a link that signs somebody in with it.
    async fn operator_link(&self) -> Result<String, Failure> {
        let target = self.database()?;
        let body = json!({"name": "Demo"});
        let key = target.ask::<CreateOperatorKey>(&[], body).await?;
        let body = json!({"person": "Guest", "operatorKeyId": key.operator_key_id});
        let link = target.ask::<CreateOperatorLink>(&[], body).await;
        target.close().await;
        Ok(link?.url)
    }

    /// Approves a platform.
    async fn approve(&self, registered: &Registration) -> Result<Registration, Failure> {
        let target = self.database()?;
        let id = registered.partner_id.to_string();
        let approved = target.ask::<ApprovePartner>(&[&id], Value::Null).await;
        target.close().await;
        approved
    }

    /// Stores a policy of the platform's own, in two versions.
    async fn own_policy(&self, remote: &Remote) -> Result<(), Failure> {
        let step =
            |before: &str, share: u32| json!({"before": before, "outcome": {"refundBps": share}});
        let first = [step("P60D", 10_000), step("P30D", 5_000)];
        let second = [
            step("P60D", 10_000),
            step("P30D", 5_000),
            step("P14D", 2_500),
        ];
        for steps in [json!(first), json!(second)] {
            let body = json!({
                "name": "House terms",
                "grace": {"within": "PT24H", "minNotice": "P14D"},
                "organizer": {"tiers": steps, "late": {"refundBps": 0}},
                "talent": {"cancel": {"refundBps": 10_000}},
            });
            call::<PutPolicy>(remote, &["house"], body).await?;
        }
        Ok(())
    }

    /// Makes one booking and what came of it. Returns a link to its evidence, if it has one.
    async fn booking(&self, remote: &Remote, n: i64) -> Result<Option<String>, Failure> {
        fn of<T: Copy, const N: usize>(all: [T; N], n: i64) -> T {
            all[usize::try_from(n).unwrap_or_default() % N]
        }
        // One id for each name, so that a search by either finds the same.
        fn party<const N: usize>(kind: &str, names: [&str; N], n: i64) -> Value {
            let place = usize::try_from(n).unwrap_or_default() % N;
            json!({"id": format!("{kind}-{}", place + 1), "name": names[place]})
        }
        let (event_type, policy) = of(EVENTS, n + n / 5);
        let event_date = self.now().plus_ms((20 + n * 37 % 120) * DAY_MS);
        let value = 300 + n * 173 % 4_000;
        let body = json!({
            "talent": party("talent", TALENTS, n * 3 + n / 8),
            "organizer": party("org", ORGANIZERS, n * 5 + n / 6),
            "eventType": event_type,
            "eventDate": evening(event_date),
            "timeZone": of(ZONES, n),
            "bookingValue": value,
            "amountPaid": value / 2,
            "currency": "USD",
            "policyId": policy,
            "metadata": {"reference": format!("SD-{:04}", 1_000 + n)},
        });
        let booking = call::<CreateBooking>(remote, &[], body).await?;
        let id = booking.booking_id.to_string();
        let id = id.as_str();
        if n % 3 == 0 {
            let terms = call::<GetDisclosure>(remote, &[id], Value::Null).await?;
            self.pass(HOUR_MS / 4);
            let body = json!({
                "party": "organizer",
                "method": "checkbox",
                "at": self.now().to_string(),
                "disclosureHash": terms.current.disclosure_hash,
            });
            call::<AcceptTerms>(remote, &[id], body).await?;
        }
        if n % 7 == 6 {
            return Ok(None);
        }
        self.pass(HOUR_MS / 2);
        call::<ProtectBooking>(remote, &[id], Value::Null).await?;
        if n % 5 == 1 {
            self.add_contract(remote, id).await?;
        }
        if n % 9 == 4 {
            let body = json!({
                "eventDate": evening(event_date.plus_ms(14 * DAY_MS)),
                "timeZone": of(ZONES, n),
                "agreedBy": ["organizer", "talent"],
            });
            call::<RescheduleBooking>(remote, &[id], body).await?;
        }
        match n % 10 {
            3 => {
                self.cancel(remote, id, ["organizer", "changed_plans"])
                    .await?
            }
            5 => self.cancel(remote, id, ["talent", "illness"]).await?,
            8 => {
                self.cancel(remote, id, ["organizer", "force_majeure"])
                    .await?
            }
            9 => {
                let body = json!({"note": "Claims desk of the bank", "withhold": ["organizer"]});
                return Ok(Some(call::<CreateShare>(remote, &[id], body).await?.url));
            }
            _ => {}
        }
        Ok(None)
    }

    async fn add_contract(&self, remote: &Remote, id: &str) -> Result<(), Failure> {
        let file = format!("Contract for the booking {id}.\nSigned by both sides.\n");
        let digest = digest_of(file.as_bytes());
        let body = json!({"kind": "contract", "title": "Signed contract", "sha256": digest});
        let item = call::<AddEvidenceItem>(remote, &[id], body).await?.item;
        let path = vec![id.to_owned(), item.item_id.to_string()];
        let file = sending(path, file.as_bytes());
        remote.call::<PutItemFile>(file).await?;
        Ok(())
    }

    /// Cancels a booking. Half of what a person must decide is decided.
    async fn cancel(
        &self,
        remote: &Remote,
        id: &str,
        [actor, reason]: [&str; 2],
    ) -> Result<(), Failure> {
        self.pass(2 * HOUR_MS);
        let body = json!({"canceledBy": actor, "reason": reason});
        let resolution = call::<CancelBooking>(remote, &[id], body).await?;
        let id = resolution.resolution_id.to_string();
        let is_open =
            serde_json::to_value(&resolution).is_ok_and(|it| it["status"] == "pending_review");
        if is_open && self.now().ms() / DAY_MS % 2 == 0 {
            let body = json!({
                "refund": 100,
                "decidedBy": "Disputes desk",
                "rationale": "Notice was given in good time.",
            });
            call::<DecideResolution>(remote, &[&id], body).await?;
        }
        Ok(())
    }
}

fn sample(registered: Registration, api_key: Option<String>) -> SamplePartner {
    SamplePartner {
        name: registered.name,
        id: registered.partner_id.to_string(),
        api_key,
    }
}

/// An hour of this day's evening, at the place of the event.
fn evening(day: Timestamp) -> String {
    let day = day.to_string();
    format!("{}T19:30", day.get(..10).unwrap_or(&day))
}

/// Starts a receiver that accepts every webhook, on a free port of this machine.
async fn receiver() -> Result<(JoinHandle<()>, String), Failure> {
    let (acceptor, url) = listen().await?;
    let serving = tokio::spawn(async move {
        // It ends only when it is stopped; an error shows as deliveries that fail.
        let routes = Route::new().at("/hook", post(accept));
        let _ = poem::Server::new_with_acceptor(acceptor).run(routes).await;
    });
    Ok((serving, url))
}

#[handler]
fn accept() -> StatusCode {
    StatusCode::NO_CONTENT
}
