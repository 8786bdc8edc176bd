//! The configuration of a server: the settings as the operator writes them, and the checked configuration built from them.
//!
//! [`Settings`] holds the values of one source (flags, environment or file), each optional. [`Settings::merge`] lets the
//! stronger source win; [`Settings::resolve`] fills in the defaults and checks every value. The command line reads flags and
//! the environment. Invariant: a [`Config`] returned by `resolve` needs no further checks.

mod authority;
pub mod bytes;
mod fonts;
pub mod security;
pub mod settings;
mod timestamps;
mod witnesses;

use std::fs::File;
use std::io::{Read as _, read_to_string};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::clock::Clock;
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::lines::LEVELS;
use bookguard_core::model::Quota;
use bookguard_core::service::{self, RegistrationMode, SettingInForce};
use bookguard_core::store::Database;
use url::{Host, ParseError, Url};

pub use self::authority::AuthorityUrl;
use self::security::SecurityTxt;
pub use self::settings::Settings;
use self::settings::{DB, Faults, RATE_LIMIT_BURST};
pub use self::timestamps::Timestamps;
use crate::courier::address::{AddressRules, Subnet};
use crate::courier::proxy::Proxy;
use crate::courier::{CourierConfig, endpoint_rule};
use crate::logging::LogFormat;
pub use crate::observer::RequestLines;
use crate::proxies::ProxyHeader;
pub use crate::proxies::TrustedProxies;

/// The most bytes of a file that holds the database's address.
const DB_FILE_BYTES: u64 = 64 * 1024;

impl Settings {
    /// Fills in the defaults and checks every value.
    ///
    /// # Errors
    /// One sentence for each fault, that names the setting, the rule and what to write.
    pub fn resolve(self) -> Result<Config, String> {
        self.checked(Faults::default())
    }

    /// Does the same as [`Self::resolve`], after these faults were found when the settings were read.
    fn checked(self, mut faults: Faults) -> Result<Config, String> {
        self.check(&mut faults);
        let burst = self.rate_limit_burst;
        let dev = self.dev.unwrap_or_default();
        let changed = self.changed()?;
        let nothing = Self::default;
        let in_force = Self::in_force([
            ("flag", nothing()),
            ("environment", nothing()),
            ("file", self.clone()),
        ]);
        let it = self.merge(Self::defaults()?);
        let rate = it.rate_limit_per_second.unwrap_or_default();
        let rates = ["rate_limit_burst", "rate_limit_per_second"];
        let rate_limit_burst = faults.note(&rates, burst_for(rate, burst));
        let db_from = it.db_file.as_ref().map_or("db", |_| "db_file");
        let db = faults.note(&[db_from], database(it.db, it.db_file));
        let places = [
            ("listen", it.listen.as_deref()),
            ("metrics_listen", it.metrics_listen.as_deref()),
            ("operator_listen", it.operator_listen.as_deref()),
        ];
        for (at, (setting, place)) in places.iter().enumerate() {
            let both = |(other, there): &(&'static str, Option<&str>)| {
                Some((*other, shared((*place)?, (*there)?)?))
            };
            if let Some((other, are)) = places[..at].iter().find_map(both) {
                let why = format!("{setting} and {other} are {are}; give each a port of its own");
                faults.note(&[*setting, other], Err::<(), _>(why));
            }
        }
        let proxy_header = faults.checked("proxy_header", it.proxy_header, |name, word| {
            one_of(name, &word.to_ascii_lowercase(), &ProxyHeader::WORDS)
        });
        let webhooks = address_rules(
            dev,
            it.webhook_allow_http,
            &it.webhook_allow_subnets.unwrap_or_default(),
        );
        let timestamps = timestamps::checked(
            &it.timestamp_authorities.unwrap_or_default(),
            it.timestamp_roots,
            it.timestamp_interval_seconds.unwrap_or_default(),
        );
        let config = Config {
            changed,
            in_force,
            ignored: Vec::new(),
            db: db.unwrap_or_else(|| DB.into()),
            database_wait: seconds(it.database_wait_seconds),
            shutdown_delay: seconds(it.shutdown_delay_seconds),
            listen: faults
                .checked("listen", it.listen, listened)
                .unwrap_or_default(),
            metrics_listen: faults.checked("metrics_listen", it.metrics_listen, listened),
            operator_listen: faults.checked("operator_listen", it.operator_listen, listened),
            otlp_endpoint: faults.checked("otlp_endpoint", it.otlp_endpoint, |name, text| {
                base_url_text(name, "http://127.0.0.1:4318", &text)
            }),
            public_url: faults.checked("public_url", it.public_url, |name, text| {
                base_url_text(name, "https://bookings.example.com", &text)
            }),
            operator_url: faults.checked("operator_url", it.operator_url, |name, text| {
                base_url_text(name, "https://operator.example.com", &text)
            }),
            ledger_key: it.ledger_key,
            guard_file: it.guard_file,
            registration: faults
                .checked("registration", it.registration, |name, word| {
                    one_of(name, &word, &RegistrationMode::WORDS)
                })
                .unwrap_or_default(),
            console: it.console.unwrap_or_default(),
            library_policies: it.library_policies.unwrap_or_default(),
            rate_limit_per_second: rate,
            rate_limit_burst: rate_limit_burst.unwrap_or_default(),
            registrations_per_minute: it.registrations_per_minute.unwrap_or_default(),
            trusted_proxies: faults
                .checked("trusted_proxies", it.trusted_proxies, |_, subnets| {
                    TrustedProxies::new(&subnets, proxy_header.unwrap_or_default())
                })
                .unwrap_or_default(),
            connections: None,
            webhooks: faults
                .note(&["webhook_allow_subnets"], webhooks)
                .unwrap_or_default(),
            webhook_proxy: it.webhook_proxy,
            verifies_endpoints: match it.webhook_verification {
                Some(word) => faults
                    .note(&["webhook_verification"], verification(&word))
                    .unwrap_or_default(),
                // A developer's receiver is this machine, and nobody needs protection from it.
                None => !dev,
            },
            retention_days: it.retention_days.unwrap_or_default(),
            audit_retention_days: it.audit_retention_days.unwrap_or_default(),
            min_free_disk: it.min_free_disk.map_or(0, |bytes| bytes.0),
            backup_folder: it.backup_folder,
            pdf_fonts: it.pdf_fonts.unwrap_or_default(),
            witnesses: faults.checked("witnesses", it.witnesses, |_, file| witnesses::read(&file)),
            map_interval: seconds(it.map_interval_seconds),
            timestamps: faults
                .note(&["timestamp_authorities", "timestamp_roots"], timestamps)
                .flatten(),
            quota: Quota {
                bookings: it.quota_bookings,
                bytes: it.quota_bytes.map(|bytes| bytes.0),
                events_per_day: it.quota_events_per_day,
                endpoints: it.quota_endpoints,
                file_bytes: it.quota_file_bytes.map(|bytes| bytes.0),
            },
            security: SecurityTxt {
                contacts: it.security_contacts.unwrap_or_default(),
                policy: it.security_policy,
                encryption: it.security_encryption,
                languages: it.security_languages.unwrap_or_default(),
            }
            .checked(&mut faults),
            log_format: faults
                .checked("log_format", it.log_format, |name, word| {
                    one_of(name, &word, &LogFormat::words())
                })
                .unwrap_or(LogFormat::Text),
            log_level: faults
                .checked("log_level", it.log_level, |name, word| {
                    one_of(name, &word, &LEVELS)
                })
                .unwrap_or(tracing::Level::INFO),
            requests: RequestLines {
                all: it.log_requests.unwrap_or_default(),
                slow: (it.slow_request_milliseconds)
                    .filter(|milliseconds| *milliseconds > 0)
                    .map(|milliseconds| Duration::from_millis(milliseconds.into())),
            },
            clock: Clock::System,
            commit_delay: Duration::ZERO,
        };
        faults.none().map(|()| config)
    }
}

/// The database that `db` or the file names; the default one if neither does.
fn database(db: Option<Database>, file: Option<PathBuf>) -> Result<Database, String> {
    let db = match (db, file) {
        (Some(_), Some(_)) => {
            let why = "db and db_file both say where the database is; leave one of them out";
            return Err(why.to_owned());
        }
        (None, Some(file)) => database_in(&file)?,
        (db, None) => db.unwrap_or_else(|| DB.into()),
    };
    db.check()?;
    Ok(db)
}

/// How many requests may come at once, if so many per second may come.
fn burst_for(rate: u32, burst: Option<u32>) -> Result<u32, String> {
    match burst {
        Some(0) if rate > 0 => Err("rate_limit_burst is 0, so no request could pass; set rate_limit_per_second = 0 to switch the limit off".to_owned()),
        // A burst smaller than one second's requests would make the rate itself unreachable.
        burst => Ok(burst.unwrap_or(RATE_LIMIT_BURST.max(rate))),
    }
}

fn seconds(count: Option<u32>) -> Duration {
    Duration::from_secs(count.unwrap_or_default().into())
}

/// The database whose address is in a file. The address may hold a password, so no error shows it.
fn database_in(file: &Path) -> Result<Database, String> {
    if Database::File(file.to_owned()).check().is_err() {
        let why = "db_file holds an address itself (not shown, as it may hold a password); write that into a file, and name the file";
        return Err(why.to_owned());
    }
    let fail = |why: &str| format!("db_file is {}, which {why}", file.display());
    let text = File::open(file).and_then(|it| read_to_string(it.take(DB_FILE_BYTES)));
    let text = text.map_err(|e| fail(&format!("cannot be read: {e}")))?;
    match text.trim() {
        "" => Err(fail("holds no address")),
        address if address.contains('\n') => Err(fail(
            "holds more than one line; it must hold the address alone",
        )),
        address => Ok(address.into()),
    }
}

/// What a setting's word stands for.
fn one_of<T: Copy, const N: usize>(
    setting: &str,
    word: &str,
    known: &[(&str, T); N],
) -> Result<T, String> {
    let found = known.iter().find(|(known, _)| *known == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words = known.each_ref().map(|(word, _)| *word).join(", ");
        format!("{setting} is \"{word}\"; it must be one of {words}")
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

/// Checks the form of a setting that says where to listen. Whether the host is this machine's is known only once it listens.
fn listened(setting: &str, text: String) -> Result<String, String> {
    let is_host = |host: &str| match host.strip_prefix('[') {
        Some(inner) => inner.ends_with(']'),
        None => !host.is_empty() && !host.contains(':'),
    };
    let parts = text.rsplit_once(':');
    match parts.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok()) {
        true => Ok(text),
        false => Err(format!(
            "{setting} is {}, which is not a host and a port; write it like 127.0.0.1:8080",
            quoted(&text)
        )),
    }
}

/// Both places to listen at in words, if they take the same port and the system does not pick it.
fn shared(place: &str, there: &str) -> Option<String> {
    if place.ends_with(":0") || !share_port(place, there) {
        return None;
    }
    Some(match (quoted(place), quoted(there)) {
        (one, other) if one == other => format!("both {one}"),
        (one, other) => format!("{one} and {other}, which take the same port"),
    })
}

/// Whether nobody can listen at both places. What a name stands for is known only once the server listens.
fn share_port(one: &str, other: &str) -> bool {
    let (Ok(a), Ok(b)) = (one.parse::<SocketAddr>(), other.parse::<SocketAddr>()) else {
        return one == other;
    };
    // `0.0.0.0` is every IPv4 address, and `[::]` every address.
    let holds = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (at, there) = (a.ip(), b.ip());
    a.port() == b.port() && (at == there || holds(at, there) || holds(there, at))
}

/// A setting that is a base URL, as a text without a trailing slash.
fn base_url_text(setting: &str, example: &str, text: &str) -> Result<String, String> {
    let url = base_url(setting, example, text)?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Reads a base URL. Paths are appended to it, so it must have no query and no fragment; `setting` names it.
///
/// # Errors
/// One sentence that names it, the rule and an example.
pub fn base_url(setting: &str, example: &str, text: &str) -> Result<Url, String> {
    let wrong = |why: &str| {
        format!(
            "{setting} is {}, {why}; write it like {example}",
            quoted(text)
        )
    };
    let url = Url::parse(text).map_err(|e| match e {
        ParseError::RelativeUrlWithoutBase => {
            wrong("which does not begin with http:// or https://")
        }
        e => wrong(&format!("which is not an address ({e})")),
    })?;
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
    Ok(url)
}

/// Whether a name or an address can only mean this machine.
#[must_use]
pub fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// An address for a message: quoted, or not shown at all if it may hold a password. The text need not be a valid address.
#[must_use]
pub fn quoted(address: &str) -> String {
    match address.contains('@') {
        true => "a text (not shown, as it may hold a password)".to_owned(),
        false => format!("\"{address}\""),
    }
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

/// The limits on simultaneous connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// All connections together.
    pub all: usize,
    /// Connections from one network address; a trusted proxy may use them all.
    pub per_address: usize,
    /// Connections above `all`, on which only the health check is answered.
    pub reserve: usize,
}

/// A server's checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The names of the settings that are not at their defaults.
    pub changed: Vec<&'static str>,
    /// Every setting, without secrets, and where it came from. A configuration that was not loaded by [`Config::load`] calls the source
    /// of what was set `file`.
    pub in_force: Vec<SettingInForce>,
    /// The environment variables that look like settings and are not, in a sentence each: see [`Settings::ignored`].
    pub ignored: Vec<String>,
    /// The database.
    pub db: Database,
    /// Address and port to listen on; port 0 picks a free one.
    pub listen: String,
    /// Address and port of the metrics, which are not served if not set; port 0 picks a free one.
    pub metrics_listen: Option<String>,
    /// The OpenTelemetry collector that gets spans of requests, without a trailing slash; none are sent if `None`.
    pub otlp_endpoint: Option<String>,
    /// The address and port of the operator interface; none if `None`.
    pub operator_listen: Option<String>,
    /// The URL at which partners reach the service, without a trailing slash; `http://<address>` if not set.
    pub public_url: Option<String>,
    /// The URL at which the operator reaches its console, without a trailing slash; `http://` and the address of the operator
    /// interface if not set.
    pub operator_url: Option<String>,
    /// Where the ledger key is. If not set: a file beside the database file, or `bookguard.key` in the working directory if the
    /// database is not a file.
    pub ledger_key: Option<LedgerKeySource>,
    /// The file that remembers the last published head of the ledger; where [`bookguard_core::guard::default_path`] finds it if not
    /// set.
    pub guard_file: Option<PathBuf>,
    /// How long to wait at startup for a database server that cannot be reached.
    pub database_wait: Duration,
    /// How long a server told to end goes on serving although it is not ready.
    pub shutdown_delay: Duration,
    /// Who may register.
    pub registration: RegistrationMode,
    /// Whether a booking without a policy of its own gets one from the library.
    pub library_policies: bool,
    /// Requests per second one partner may make; 0 means no limit.
    pub rate_limit_per_second: u32,
    /// Requests one partner may make at once after a pause.
    pub rate_limit_burst: u32,
    /// Registrations per minute from one network address; 0 means no limit.
    pub registrations_per_minute: u32,
    /// The proxies in front of the server.
    pub trusted_proxies: TrustedProxies,
    /// The limits on connections; derived from the system's limit of open files if not set. No setting controls this.
    pub connections: Option<Connections>,
    /// Where webhooks may go.
    pub webhooks: AddressRules,
    /// The proxy through which webhooks are sent, if any.
    pub webhook_proxy: Option<Proxy>,
    /// Whether a new endpoint, or one whose address changed, gets few deliveries until its receiver has accepted one.
    pub verifies_endpoints: bool,
    /// Days after which old events are pruned; 0 means never.
    pub retention_days: u32,
    /// Days after which records of the audit are deleted.
    pub audit_retention_days: u32,
    /// Bytes that must be free on a database file's disk before anything new is accepted; 0 means no such limit.
    pub min_free_disk: u64,
    /// The folder of backups, whose newest one is shown in the metrics.
    pub backup_folder: Option<PathBuf>,
    /// Font files for characters in PDFs that the shipped fonts lack, in the order in which they are tried.
    pub pdf_fonts: Vec<PathBuf>,
    /// The witnesses that are asked to cosign the log's checkpoints, and the quorum that evidence shows if it is there.
    pub witnesses: Option<Arc<TrustPolicy>>,
    /// How long an entry waits until the ledger commits to the map of all entries.
    pub map_interval: Duration,
    /// Who stamps the ledger; nobody if `None`.
    pub timestamps: Option<Timestamps>,
    /// The quota of partners that have none of their own.
    pub quota: Quota,
    /// Whether the console is served.
    pub console: bool,
    /// The contents of security.txt, which is served only if this is set.
    pub security: Option<SecurityTxt>,
    /// The form of the lines in the log.
    pub log_format: LogFormat,
    /// The least important level that is logged.
    pub log_level: tracing::Level,
    /// Which requests get a line in the log.
    pub requests: RequestLines,
    /// The source of time.
    pub clock: Clock,
    /// Added to every commit to simulate a slower disk. For measurements; no setting controls it.
    pub commit_delay: Duration,
}

impl Config {
    /// The default configuration for this database: a starting point for tests and embedders.
    pub fn of(db: impl Into<Database>) -> Self {
        let defaults = Settings::default().resolve();
        Self {
            db: db.into(),
            ..defaults.expect("each default is one that its setting takes: a test resolves them")
        }
    }

    /// The configuration of the service. Partners reach it at `address` unless `public_url` is set, and the operator at
    /// `operator_address` unless `operator_url` is.
    pub fn service(
        &self,
        address: &str,
        operator_address: Option<&str>,
        outbox: Option<Arc<Outbox>>,
    ) -> service::ServiceConfig {
        let operator_url = operator_address.map(|address| {
            (self.operator_url.clone()).unwrap_or_else(|| format!("http://{address}"))
        });
        service::ServiceConfig {
            db: self.db.clone(),
            create: true,
            upgrade: true,
            ledger_key: self.ledger_key.clone(),
            guard_file: self.guard_file.clone(),
            public_url: (self.public_url.clone()).unwrap_or_else(|| format!("http://{address}")),
            operator_url,
            registration: self.registration,
            library_policies: self.library_policies,
            clock: self.clock.clone(),
            outbox,
            endpoint_rule: endpoint_rule(self.webhooks.clone()),
            verifies_endpoints: self.verifies_endpoints,
            min_free_disk: self.min_free_disk,
            quota: self.quota,
            commit_delay: self.commit_delay,
            backup_folder: self.backup_folder.clone(),
            witnesses: self.witnesses.clone(),
            settings: self.in_force.clone(),
            batches: Arc::new(drop),
        }
    }

    /// The configuration of the courier.
    pub fn courier(&self) -> CourierConfig {
        CourierConfig {
            proxy: self.webhook_proxy.clone(),
            ..CourierConfig::new(self.webhooks.clone())
        }
    }

    /// Reads the configuration file, if one is named, and overrides it with the environment and the flags, of which these faults
    /// are known.
    ///
    /// # Errors
    /// One sentence for each fault of any source, and for each that [`Settings::resolve`] finds.
    pub fn load(
        file: Option<&Path>,
        flags: Settings,
        environment: Settings,
        mut faults: Faults,
    ) -> Result<Self, String> {
        let file = match file {
            Some(file) => Settings::load(file, &mut faults),
            None => Some(Settings::default()),
        };
        // Without the file, nothing can be said about the whole.
        let Some(file) = file else {
            return Err(faults.in_words());
        };
        let in_force = Settings::in_force([
            ("flag", flags.clone()),
            ("environment", environment.clone()),
            ("file", file.clone()),
        ]);
        let config = flags.merge(environment).merge(file).checked(faults)?;
        Ok(Self { in_force, ..config })
    }

    /// Notes that the program itself chose this value of a setting, whatever was set. Without a value, it is the one that applies
    /// if nothing is set.
    pub fn note(&mut self, name: &str, value: Option<&str>, from: &str) {
        let known = Settings::ALL.iter().find(|setting| setting.name == name);
        let value = value.map(str::to_owned);
        let value = value.or_else(|| known?.without()).unwrap_or_default();
        let noted = self.in_force.iter_mut().find(|it| it.name == name);
        if let Some(setting) = noted.filter(|setting| setting.value != value) {
            setting.value = value;
            from.clone_into(&mut setting.from);
        }
    }
}

#[cfg(test)]
mod tests;
