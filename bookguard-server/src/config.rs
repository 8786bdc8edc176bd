//! What a server is started with: settings as the operator gives them, and the checked configuration they make.
//!
//! [`Settings`] are what one source says (flags, environment, file), every part optional; [`Settings::merge`] lets
//! the stronger source win and [`Settings::resolve`] fills in the defaults and checks. Reading flags and the
//! environment is the command line's. Invariant: a [`Config`] out of `resolve` needs no further checks.

pub mod bytes;
pub mod security;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::limits::{
    ENDPOINTS_PER_PARTNER, MIN_FREE_DISK, QUOTA_MAX, RETENTION_DAYS, RETENTION_DAYS_MAX,
};
use bookguard_core::model::Quota;
use bookguard_core::service::RegistrationMode;
use bookguard_core::store::Database;
use serde::Deserialize;
use url::Url;

use self::bytes::Bytes;
use self::security::SecurityTxt;
use crate::courier::address::{AddressRules, Subnet};
use crate::courier::proxy::Proxy;
pub use crate::proxies::TrustedProxies;

/// Where the server listens when nothing is said: this machine only.
pub const LISTEN: &str = "127.0.0.1:8080";
/// The database when nothing is said.
pub const DB: &str = "bookguard.db";
/// Requests per second one partner may make in the long run, with all its keys.
pub const RATE_LIMIT_PER_SECOND: u32 = 1_000;
/// Requests one partner may make at once after a pause.
pub const RATE_LIMIT_BURST: u32 = 2_000;
/// Registrations per minute from one network address.
pub const REGISTRATIONS_PER_MINUTE: u32 = 300;
/// Seconds that a server waits at its start for a database server that cannot be reached: what a restart or a failover
/// of a small database takes.
pub const DATABASE_WAIT_SECONDS: u32 = 30;
/// More is not waiting but hiding a fault.
const DATABASE_WAIT_MAX: u32 = 3_600;
/// Above it a limit is no limit, and its arithmetic would need more bits.
const RATE_MAX: u32 = 1_000_000;

/// What one source of configuration says. The names are the configuration file's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The database: a SQLite file, made when it is not there, or `postgres://…`.
    pub db: Option<Database>,
    /// Address and port to listen on, such as `0.0.0.0:8080`; port 0 takes a free one.
    pub listen: Option<String>,
    /// The address partners reach the service at.
    pub public_url: Option<String>,
    /// Where the ledger key is. A configuration file may name only the key's file.
    pub ledger_key: Option<LedgerKeySource>,
    /// The file that remembers what was last published of the ledger; beside the ledger key when not given.
    pub guard_file: Option<PathBuf>,
    /// How long to wait at the start for a database server that cannot be reached; 0 does not wait.
    pub database_wait_seconds: Option<u32>,
    /// Local development: webhooks may go to this machine and over plain http.
    pub dev: Option<bool>,
    /// Who may register: `open`, `approval` or `closed`.
    pub registration: Option<String>,
    /// Whether bookings without a policy of their own get one from the library.
    pub library_policies: Option<bool>,
    /// Requests per second one partner may make with all its keys; 0 switches the limit off. One that keeps a processor busy
    /// counts for more. Each node counts for itself: behind a balancer with N nodes a partner may make up to N times as many.
    pub rate_limit_per_second: Option<u32>,
    /// Requests one partner may make at once after a pause.
    pub rate_limit_burst: Option<u32>,
    /// Registrations per minute from one network address, on each node; 0 switches the limit off.
    pub registrations_per_minute: Option<u32>,
    /// The proxies in front of the server, such as `10.0.0.0/8`: what they say of a client's address is believed.
    pub trusted_proxies: Option<Vec<String>>,
    /// The header in which they say it: `x-forwarded-for` or `forwarded`.
    pub proxy_header: Option<String>,
    /// Whether webhooks may go over plain http.
    pub webhook_allow_http: Option<bool>,
    /// Subnets webhooks may go to although they are not public, such as `10.1.0.0/16`.
    pub webhook_allow_subnets: Option<Vec<String>>,
    /// The proxy through which webhooks go, `http://[user:password@]host:port`.
    pub webhook_proxy: Option<Proxy>,
    /// What verifies an endpoint, which gets little until then: `first_success` or `off`.
    pub webhook_verification: Option<String>,
    /// Days after which payloads and attempts of events are deleted of which nothing waits any more; 0 keeps them for ever.
    pub retention_days: Option<u32>,
    /// How much of a database file's disk must be free for anything new to be taken in, such as `256MiB`; 0 for no such limit.
    pub min_free_disk: Option<Bytes>,
    /// Bookings each partner may record unless it has a quota of its own; 0 for no limit, as with the others.
    pub quota_bookings: Option<u64>,
    /// Bytes of bookings, record and terms, that it may have, such as `10GiB`.
    pub quota_bytes: Option<Bytes>,
    /// Events a day, in UTC, beyond which it may record no bookings.
    pub quota_events_per_day: Option<u64>,
    /// Webhook endpoints it may have, 20 at most.
    pub quota_endpoints: Option<u64>,
    /// Where vulnerabilities are reported, such as `mailto:security@example.com`; security.txt is served with it.
    pub security_contacts: Option<Vec<String>>,
    /// The https address of the rules of reporting.
    pub security_policy: Option<String>,
    /// The address of a key for encrypted reports.
    pub security_encryption: Option<String>,
    /// Language tags of the languages reports may be in.
    pub security_languages: Option<Vec<String>>,
}

impl Settings {
    /// Reads a configuration file (TOML).
    ///
    /// Errors are one sentence that names the file and, where it is a value's fault, its line and key.
    pub fn load(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|e| {
            format!(
                "the configuration file {} cannot be read: {e}",
                file.display()
            )
        })?;
        Self::parse(&text).map_err(|why| format!("{}{why}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let Some(span) = error.span() else {
                return format!(": {}", error.message());
            };
            let before = text.get(..span.start).unwrap_or_default();
            let line = before.matches('\n').count();
            let key = text
                .lines()
                .nth(line)
                .and_then(|line| line.split_once('='))
                .map(|(key, _)| key.trim());
            let place = key.filter(|key| !error.message().contains(&format!("`{key}`")));
            let place = place.map_or_else(String::new, |key| format!(" ({key})"));
            format!(", line {}{place}: {}", line + 1, error.message())
        })
    }

    /// These settings, and what they leave open from a weaker source.
    #[must_use]
    pub fn merge(self, weaker: Self) -> Self {
        Self {
            db: self.db.or(weaker.db),
            listen: self.listen.or(weaker.listen),
            public_url: self.public_url.or(weaker.public_url),
            ledger_key: self.ledger_key.or(weaker.ledger_key),
            guard_file: self.guard_file.or(weaker.guard_file),
            database_wait_seconds: self.database_wait_seconds.or(weaker.database_wait_seconds),
            dev: self.dev.or(weaker.dev),
            registration: self.registration.or(weaker.registration),
            library_policies: self.library_policies.or(weaker.library_policies),
            rate_limit_per_second: self.rate_limit_per_second.or(weaker.rate_limit_per_second),
            rate_limit_burst: self.rate_limit_burst.or(weaker.rate_limit_burst),
            registrations_per_minute: self
                .registrations_per_minute
                .or(weaker.registrations_per_minute),
            trusted_proxies: self.trusted_proxies.or(weaker.trusted_proxies),
            proxy_header: self.proxy_header.or(weaker.proxy_header),
            webhook_allow_http: self.webhook_allow_http.or(weaker.webhook_allow_http),
            webhook_allow_subnets: self.webhook_allow_subnets.or(weaker.webhook_allow_subnets),
            webhook_proxy: self.webhook_proxy.or(weaker.webhook_proxy),
            webhook_verification: self.webhook_verification.or(weaker.webhook_verification),
            retention_days: self.retention_days.or(weaker.retention_days),
            min_free_disk: self.min_free_disk.or(weaker.min_free_disk),
            quota_bookings: self.quota_bookings.or(weaker.quota_bookings),
            quota_bytes: self.quota_bytes.or(weaker.quota_bytes),
            quota_events_per_day: self.quota_events_per_day.or(weaker.quota_events_per_day),
            quota_endpoints: self.quota_endpoints.or(weaker.quota_endpoints),
            security_contacts: self.security_contacts.or(weaker.security_contacts),
            security_policy: self.security_policy.or(weaker.security_policy),
            security_encryption: self.security_encryption.or(weaker.security_encryption),
            security_languages: self.security_languages.or(weaker.security_languages),
        }
    }

    /// Fills in the defaults and checks every value.
    ///
    /// Errors are one sentence that names the setting, the rule and what to write.
    pub fn resolve(self) -> Result<Config, String> {
        let rate_limit_per_second = rate(
            "rate_limit_per_second",
            self.rate_limit_per_second.unwrap_or(RATE_LIMIT_PER_SECOND),
        )?;
        // A burst below one second's share would make the limit itself unreachable.
        let burst = self
            .rate_limit_burst
            .unwrap_or(RATE_LIMIT_BURST.max(rate_limit_per_second));
        if rate_limit_per_second > 0 && burst == 0 {
            return Err("rate_limit_burst is 0, so no request could pass; set rate_limit_per_second = 0 to switch the limit off".to_owned());
        }
        let subnets = self.webhook_allow_subnets.unwrap_or_default();
        let db = self.db.unwrap_or_else(|| DB.into());
        db.check()?;
        let wait = self.database_wait_seconds.unwrap_or(DATABASE_WAIT_SECONDS);
        if wait > DATABASE_WAIT_MAX {
            return Err(format!(
                "database_wait_seconds is {wait}; at most {DATABASE_WAIT_MAX} is possible, and 0 means not to wait"
            ));
        }
        Ok(Config {
            db,
            database_wait: Duration::from_secs(wait.into()),
            listen: self.listen.unwrap_or_else(|| LISTEN.to_owned()),
            public_url: self.public_url.as_deref().map(public_url).transpose()?,
            ledger_key: self.ledger_key,
            guard_file: self.guard_file,
            registration: self
                .registration
                .as_deref()
                .map_or(Ok(RegistrationMode::default()), registration)?,
            library_policies: self.library_policies.unwrap_or(true),
            rate_limit_per_second,
            rate_limit_burst: rate("rate_limit_burst", burst)?,
            registrations_per_minute: rate(
                "registrations_per_minute",
                self.registrations_per_minute
                    .unwrap_or(REGISTRATIONS_PER_MINUTE),
            )?,
            trusted_proxies: TrustedProxies::parse(
                &self.trusted_proxies.unwrap_or_default(),
                self.proxy_header.as_deref(),
            )?,
            connections: None,
            webhooks: address_rules(self.dev.unwrap_or(false), self.webhook_allow_http, &subnets)?,
            webhook_proxy: self.webhook_proxy,
            verifies_endpoints: match self.webhook_verification {
                Some(word) => verification(&word)?,
                // A developer's receiver is this machine, which nobody needs to be protected from.
                None => !self.dev.unwrap_or(false),
            },
            retention_days: retention(self.retention_days.unwrap_or(RETENTION_DAYS))?,
            min_free_disk: self.min_free_disk.map_or(MIN_FREE_DISK, |bytes| bytes.0),
            quota: Quota {
                bookings: quota("quota_bookings", self.quota_bookings, QUOTA_MAX)?,
                bytes: quota(
                    "quota_bytes",
                    self.quota_bytes.map(|bytes| bytes.0),
                    QUOTA_MAX,
                )?,
                events_per_day: quota(
                    "quota_events_per_day",
                    self.quota_events_per_day,
                    QUOTA_MAX,
                )?,
                endpoints: quota(
                    "quota_endpoints",
                    self.quota_endpoints,
                    ENDPOINTS_PER_PARTNER as u64,
                )?,
            }
            .or(Quota::GENEROUS),
            security: security::Given {
                contacts: self.security_contacts,
                policy: self.security_policy,
                encryption: self.security_encryption,
                languages: self.security_languages,
            }
            .resolve()?,
            clock: Clock::System,
            report: to_stderr,
            commit_delay: Duration::ZERO,
        })
    }
}

fn quota(name: &str, said: Option<u64>, most: u64) -> Result<Option<u64>, String> {
    match said {
        Some(limit) if limit > most => Err(format!(
            "{name} is {limit}; at most {most} is possible, and 0 means no limit of its own"
        )),
        said => Ok(said),
    }
}

fn rate(name: &str, value: u32) -> Result<u32, String> {
    if value <= RATE_MAX {
        Ok(value)
    } else {
        Err(format!(
            "{name} is {value}; at most {RATE_MAX} is possible, and 0 means no limit"
        ))
    }
}

fn retention(days: u32) -> Result<u32, String> {
    if days <= RETENTION_DAYS_MAX {
        Ok(days)
    } else {
        Err(format!(
            "retention_days is {days}; at most {RETENTION_DAYS_MAX} is possible, and 0 keeps events whole for ever"
        ))
    }
}

fn registration(word: &str) -> Result<RegistrationMode, String> {
    RegistrationMode::WORDS
        .iter()
        .find(|(known, _)| *known == word)
        .map(|(_, mode)| *mode)
        .ok_or_else(|| {
            let words = RegistrationMode::WORDS.map(|(word, _)| word).join(", ");
            format!("registration is \"{word}\"; it must be one of {words}")
        })
}

fn verification(word: &str) -> Result<bool, String> {
    match word {
        "first_success" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!(
            "webhook_verification is \"{word}\"; it must be first_success or off"
        )),
    }
}

/// Evidence addresses are built by adding a path, so nothing may stand behind the address.
fn public_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| {
        format!("public_url is \"{text}\", {why}; write it like https://bookings.example.com")
    };
    let url = Url::parse(text).map_err(|e| wrong(&format!("which is not an address ({e})")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("which is not an http or https address"));
    }
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(wrong("which has more than scheme, host, port and path"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn address_rules(
    dev: bool,
    allow_http: Option<bool>,
    subnets: &[String],
) -> Result<AddressRules, String> {
    let mut rules = if dev {
        AddressRules::dev()
    } else {
        AddressRules::public()
    };
    if let Some(allow) = allow_http {
        rules.allow_http = allow;
    }
    for text in subnets {
        let subnet: Subnet = text.parse().map_err(|e| {
            format!("webhook_allow_subnets holds \"{text}\", which is not a subnet: {e}")
        })?;
        rules.allowed.push(subnet);
    }
    Ok(rules)
}

/// How many connections there may be at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// In all.
    pub all: usize,
    /// Of one network address; a trusted proxy may have them all.
    pub per_address: usize,
    /// Beyond all, in which only the health check is answered.
    pub reserve: usize,
}

/// A server's checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database.
    pub db: Database,
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: String,
    /// The address partners reach the service at, without a slash at its end; `http://<address>` when not given.
    pub public_url: Option<String>,
    /// Where the ledger key is; in a file beside the database, or `bookguard.key` in the working directory when the
    /// database is not a file, when not given.
    pub ledger_key: Option<LedgerKeySource>,
    /// The file that remembers what was last published of the ledger; beside the ledger key when not given.
    pub guard_file: Option<PathBuf>,
    /// How long to wait at the start for a database server that cannot be reached.
    pub database_wait: Duration,
    /// Who may register.
    pub registration: RegistrationMode,
    /// Whether bookings without a policy of their own get one from the library.
    pub library_policies: bool,
    /// Requests per second one partner may make; 0 is no limit.
    pub rate_limit_per_second: u32,
    /// Requests one partner may make at once after a pause.
    pub rate_limit_burst: u32,
    /// Registrations per minute from one network address; 0 is no limit.
    pub registrations_per_minute: u32,
    /// The proxies in front of the server.
    pub trusted_proxies: TrustedProxies,
    /// How many connections there may be; as many as the system's limit of open files allows when not given. No setting
    /// reaches it.
    pub connections: Option<Connections>,
    /// Where webhooks may go.
    pub webhooks: AddressRules,
    /// The proxy through which webhooks go, if through one.
    pub webhook_proxy: Option<Proxy>,
    /// Whether a new endpoint, and one at another address, gets little until its receiver has accepted a delivery.
    pub verifies_endpoints: bool,
    /// Days after which old events are pruned; 0 is never.
    pub retention_days: u32,
    /// Bytes that must be free on a database file's disk for anything new to be taken in; 0 for no such limit.
    pub min_free_disk: u64,
    /// The quota of partners that have none of their own.
    pub quota: Quota,
    /// What security.txt says; it is not served without.
    pub security: Option<SecurityTxt>,
    /// Where time comes from.
    pub clock: Clock,
    /// Told one line per fault of ours; standard error unless said otherwise.
    pub report: fn(&str),
    /// Added to every commit: what a slower disk would cost. For measurements; no setting reaches it.
    pub commit_delay: Duration,
}

impl Config {
    /// The defaults on this database: what tests and embedders start from.
    pub fn of(db: impl Into<Database>) -> Self {
        Self {
            db: db.into(),
            listen: LISTEN.to_owned(),
            public_url: None,
            ledger_key: None,
            guard_file: None,
            database_wait: Duration::from_secs(DATABASE_WAIT_SECONDS.into()),
            registration: RegistrationMode::default(),
            library_policies: true,
            rate_limit_per_second: RATE_LIMIT_PER_SECOND,
            rate_limit_burst: RATE_LIMIT_BURST,
            registrations_per_minute: REGISTRATIONS_PER_MINUTE,
            trusted_proxies: TrustedProxies::default(),
            connections: None,
            webhooks: AddressRules::public(),
            webhook_proxy: None,
            verifies_endpoints: true,
            retention_days: RETENTION_DAYS,
            min_free_disk: MIN_FREE_DISK,
            quota: Quota::GENEROUS,
            security: None,
            clock: Clock::System,
            report: to_stderr,
            commit_delay: Duration::ZERO,
        }
    }

    /// The configuration of a file, if one is named, under stronger settings.
    ///
    /// # Errors
    /// As [`Settings::load`] and [`Settings::resolve`].
    pub fn load(file: Option<&Path>, stronger: Settings) -> Result<Self, String> {
        let weaker = file.map(Settings::load).transpose()?.unwrap_or_default();
        stronger.merge(weaker).resolve()
    }
}

/// One line on standard error. A log that cannot be written is no reason to stop serving.
fn to_stderr(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "bookguard: {line}");
}

#[cfg(test)]
mod tests;
