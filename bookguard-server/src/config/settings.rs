//! The settings, each declared once: its name, its type, its default and one sentence about it.
//!
//! This table defines the keys of the configuration file, the environment variables, the flags of the command line, the limits
//! and the reference page. Invariant: an error never repeats the value of a setting that may hold a secret.

use std::ffi::OsString;
use std::fmt::{Debug, Display};
use std::fs;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bookguard_core::input::{nearest, shorten};
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::limits::{
    AUDIT_DAYS, AUDIT_DAYS_MAX, AUDIT_DAYS_MIN, ENDPOINTS_PER_PARTNER, MIN_FREE_DISK,
    QUOTA_BOOKINGS, QUOTA_BYTES, QUOTA_EVENTS_PER_DAY, QUOTA_FILE_BYTES, QUOTA_MAX, RETENTION_DAYS,
    RETENTION_DAYS_MAX,
};
use bookguard_core::service::SettingInForce;
use bookguard_core::store::Database;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

use super::authority::AuthorityUrl;
use super::bytes::Bytes;
use crate::courier::proxy::Proxy;

/// The default database.
pub(super) const DB: &str = "bookguard.db";
/// Requests one partner may make at once after a pause.
pub(super) const RATE_LIMIT_BURST: u32 = 2_000;
/// A longer wait would only hide a fault.
const DATABASE_WAIT_MAX: u64 = 3_600;
/// Longer than any balancer takes to notice, and short enough for an operator to wait.
const SHUTDOWN_DELAY_MAX: u64 = 300;
/// No request takes longer.
const SLOW_REQUEST_MAX: u64 = 60_000;
/// Some authorities refuse whoever asks more often.
const TIMESTAMP_INTERVAL_MIN: u64 = 15;
/// A day: until a map covers its entries, a packet cannot show that it is complete.
const MAP_INTERVAL_MAX: u64 = 24 * 60 * 60;
/// A day: a stamp says little of when something was logged before it.
const TIMESTAMP_INTERVAL_MAX: u64 = 24 * 60 * 60;
/// A higher rate limits nothing, and its arithmetic would need more bits.
const RATE_MAX: u64 = 1_000_000;

/// The declaration of a setting.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Its key in the configuration file.
    pub name: &'static str,
    /// The placeholder for its value in help texts; empty for a flag without a value.
    pub value: &'static str,
    /// Whether it takes several values.
    pub is_list: bool,
    /// Whether its flag may be given without a value, which then means `true`.
    pub is_switch: bool,
    /// Whether every command that works on a database has its flag, not only `serve`.
    pub everywhere: bool,
    /// What only its environment variable may do, such as hold a secret.
    pub variable_may: Option<&'static str>,
    /// Whether a running server applies it on SIGHUP.
    pub is_reloaded: bool,
    about: &'static str,
    /// The flag, if it differs from the name: a list's flag names one of its values.
    flag: Option<&'static str>,
    default: Option<&'static (dyn Display + Sync)>,
    /// What applies if it is not set and the default is not a single value.
    unset: Option<&'static str>,
    least: Option<u64>,
    most: Option<u64>,
    /// What the value 0 means.
    zero: Option<&'static str>,
}

/// The source of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A command-line flag, which other users can read.
    Flag,
    /// An environment variable.
    Variable,
}

impl Setting {
    const NONE: Self = Self {
        name: "",
        value: "",
        is_list: false,
        is_switch: false,
        everywhere: false,
        variable_may: None,
        is_reloaded: false,
        about: "",
        flag: None,
        default: None,
        unset: None,
        least: None,
        most: None,
        zero: None,
    };

    /// The flag, without its dashes.
    pub fn flag(&self) -> String {
        self.flag
            .map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("BOOKGUARD_{}", self.name.to_uppercase())
    }

    /// The sentence about it, without a full stop.
    pub fn about(&self) -> String {
        let mut about = self.about.to_owned();
        let several = self.is_list.then_some("may be given several times");
        for more in self.zero.into_iter().chain(several) {
            about = format!("{about}; {more}");
        }
        about
    }

    /// What applies if it is not set, in words; `None` if nothing does.
    pub fn without(&self) -> Option<String> {
        let default = self.default.map(ToString::to_string);
        default.or_else(|| self.unset.map(str::to_owned))
    }

    /// What the file must hold for it.
    fn wanted(&self) -> String {
        match self.value {
            _ if self.is_list => "a list of texts in quotes, such as [\"…\", \"…\"]".to_owned(),
            _ if self.is_switch => "true or false, without quotes".to_owned(),
            "SIZE" => "a number of bytes, or a text such as \"256MiB\"".to_owned(),
            "N" => {
                let most = self.most.map(|most| format!(" to {most}"));
                let such = self.default.map(|default| format!(", such as {default}"));
                let (most, such) = (most.unwrap_or_default(), such.unwrap_or_default());
                format!(
                    "a whole number from {}{most}{such}",
                    self.least.unwrap_or(0)
                )
            }
            _ => "a text in quotes".to_owned(),
        }
    }

    /// The flag or variable, as the operator writes it.
    fn place(&self, source: Source) -> String {
        match source {
            Source::Flag => format!("--{}", self.flag()),
            Source::Variable => self.variable(),
        }
    }

    fn check(&self, number: Option<u64>) -> Result<(), String> {
        let (Some(most), Some(number)) = (self.most, number) else {
            return Ok(());
        };
        if let Some(least) = self.least.filter(|least| number < *least) {
            return Err(format!(
                "{} is {number}; it must be at least {least}",
                self.name
            ));
        }
        if number <= most {
            return Ok(());
        }
        let zero = self
            .zero
            .map_or_else(String::new, |it| format!(", and {it}"));
        Err(format!(
            "{} is {number}; it must be at most {most}{zero}",
            self.name
        ))
    }
}

/// The sentence, with the flag or the variable in place of the setting that it begins with, if one of them set it.
fn as_written(written: &[(&'static str, String)], about: &[&str], why: String) -> String {
    let named = about.iter().find_map(|name| {
        let rest = why.strip_prefix(*name)?;
        let (_, place) = written.iter().find(|(known, _)| known == name)?;
        rest.starts_with(' ').then(|| format!("{place}{rest}"))
    });
    named.unwrap_or(why)
}

/// What is wrong with settings: all of it, so that nobody has to try again for each fault.
#[derive(Debug, Default)]
pub struct Faults {
    told: Vec<String>,
    /// The settings that a source has, and that could not be read.
    unread: Vec<&'static str>,
    /// The settings that flags and variables set, each beside the flag or the variable, the strongest first.
    written: Vec<(&'static str, String)>,
}

impl Faults {
    /// The value, or `None` after noting what is wrong with these settings. Nothing is noted of one that could not be read: it only
    /// seems to be missing.
    pub(super) fn note<T>(&mut self, about: &[&str], value: Result<T, String>) -> Option<T> {
        let is_known = about.iter().any(|name| self.unread.contains(name));
        let note = |why| {
            if !is_known {
                self.told.push(as_written(&self.written, about, why));
            }
        };
        value.map_err(note).ok()
    }

    /// What `check` makes of the value of a setting, if it has one; `None` also after noting what is wrong with it.
    pub(super) fn checked<T, U>(
        &mut self,
        name: &str,
        value: Option<T>,
        check: impl FnOnce(&str, T) -> Result<U, String>,
    ) -> Option<U> {
        self.note(&[name], check(name, value?))
    }

    /// The value of a setting, or `None` after noting why it could not be read.
    fn read<T>(&mut self, setting: Option<&Setting>, value: Result<T, String>) -> Option<T> {
        let value = self.note(&[], value);
        if value.is_none() {
            self.unread.extend(setting.map(|setting| setting.name));
        }
        value
    }

    /// Fails with everything that was noted.
    ///
    /// # Errors
    /// One sentence for each fault.
    pub fn none(self) -> Result<(), String> {
        match self.told.is_empty() {
            true => Ok(()),
            false => Err(self.in_words()),
        }
    }

    /// Everything that was noted, numbered if it is more than one fault.
    pub(super) fn in_words(mut self) -> String {
        let count = self.told.len();
        if count > 1 {
            let faults = self.told.iter_mut().enumerate();
            faults.for_each(|(at, why)| *why = format!("({}) {why}", at + 1));
            return format!("the settings have {count} faults: {}", self.told.join("; "));
        }
        self.told.pop().unwrap_or_default()
    }
}

/// Declares the settings: name, type, placeholder, sentence, and further fields of [`Setting`].
macro_rules! settings {
    ($($name:ident: $type:ty, $value:literal, $about:literal $(, $word:ident = $said:expr)*;)*) => {
        /// The settings of one source of configuration. The names are the keys of the configuration file.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields)]
        // Their texts are the help of a terminal, not Markdown.
        #[allow(rustdoc::bare_urls, rustdoc::broken_intra_doc_links)]
        pub struct Settings {
            $(#[doc = $about] pub $name: Option<$type>,)*
        }

        impl Settings {
            /// Every setting, in the order of the reference.
            pub const ALL: &'static [Setting] = &[
                $(Setting {
                    name: stringify!($name),
                    value: $value,
                    is_list: <$type as Value>::IS_LIST,
                    is_switch: <$type as Value>::IS_SWITCH,
                    about: $about,
                    $($word: $said,)*
                    ..Setting::NONE
                },)*
            ];

            fn or(self, weaker: Self) -> Self {
                Self { $($name: self.$name.or(weaker.$name),)* }
            }

            /// Reads the settings of one source. `text` returns the text of a setting, if the source has one. Notes a sentence for
            /// each fault, that names the flag or the variable, the rule and what to write.
            pub fn read(source: Source, faults: &mut Faults, text: impl Fn(&Setting) -> Option<OsString>) -> Self {
                let mut all = Self::ALL.iter();
                let mut next = || all.next().and_then(|setting| Some((text(setting)?, setting)));
                Self {
                    $($name: next().and_then(|(text, setting)| {
                        faults.written.push((setting.name, setting.place(source)));
                        faults.read(Some(setting), Value::read(text, &setting.place(source), source))
                    }),)*
                }
            }

            /// The names of the settings that are not at their defaults.
            pub(super) fn changed(&self) -> Result<Vec<&'static str>, String> {
                let defaults = Self::defaults()?;
                let names = [$((self.$name.is_some() && self.$name != defaults.$name).then_some(stringify!($name))),*];
                Ok(names.into_iter().flatten().collect())
            }

            /// The values, in the order of [`Self::ALL`], without secrets.
            fn shown(&self) -> Vec<Option<String>> {
                vec![$(self.$name.as_ref().map(Value::shown)),*]
            }

            /// Checks every number against its limit.
            pub(super) fn check(&self, faults: &mut Faults) {
                let numbers = [$(self.$name.as_ref().and_then(Value::number)),*];
                for (setting, number) in Self::ALL.iter().zip(numbers) {
                    faults.note(&[setting.name], setting.check(number));
                }
            }
        }
    };
}

settings! {
    db: Database, "DATABASE", "The database: a file, or postgres://…", everywhere = true, default = Some(&DB);
    db_file: PathBuf, "FILE", "A file that holds the database's address, such as a systemd credential; used instead of db", everywhere = true;
    listen: String, "ADDRESS:PORT", "Address and port to listen on; port 0 takes a free one", default = Some(&"127.0.0.1:8080");
    metrics_listen: String, "ADDRESS:PORT", "Address and port on which metrics are served at /metrics, to everybody who reaches it; \
        port 0 takes a free one", unset = Some("no metrics");
    otlp_endpoint: String, "ADDRESS", "The OpenTelemetry collector that gets a span of each request, such as http://127.0.0.1:4318; only \
        a program built with the feature otlp can send them", unset = Some("no traces");
    operator_listen: String, "ADDRESS:PORT", "Address and port of the operator interface, for requests with operator keys; port 0 takes \
        a free one", unset = Some("no operator interface");
    public_url: String, "ADDRESS", "The address at which partners reach the service; evidence links begin with it, and /mcp answers \
        to its host", everywhere = true, unset = Some("http:// and the listening address");
    operator_url: String, "ADDRESS", "The address at which people of the operator reach the operator interface, for its console; links that \
        sign them in begin with it", everywhere = true, unset = Some("http:// and the operator interface's address");
    console: bool, "BOOL", "Whether people can sign in at /console: partners' staff and, on the operator interface, the operator's",
        default = Some(&true);
    ledger_key: LedgerKeySource, "FILE", "The ledger key file, the same for every node", everywhere = true,
        variable_may = Some("hold the key itself"), unset = Some("beside the database file, else ./bookguard.key");
    guard_file: PathBuf, "FILE", "The file that remembers the last published head of the ledger, even if an older database is restored",
        everywhere = true, unset = Some("beside the ledger key's file, else beside the database; a guard file that already exists is used");
    database_wait_seconds: u32, "N", "Seconds to wait for a PostgreSQL server that cannot be reached yet",
        default = Some(&30), most = Some(DATABASE_WAIT_MAX), zero = Some("0 does not wait");
    shutdown_delay_seconds: u32, "N", "Seconds for which a server that was told to stop keeps serving, while /readyz says that it is not ready",
        default = Some(&0), most = Some(SHUTDOWN_DELAY_MAX);
    dev: bool, "", "For development: webhooks may go to this machine and over plain http", everywhere = true, default = Some(&false);
    registration: String, "MODE", "Who may register: open, approval or closed", default = Some(&"open");
    library_policies: bool, "BOOL", "Whether bookings without a policy get one from the library, by event type", default = Some(&true);
    rate_limit_per_second: u32, "N", "Requests per second that one partner may make on each node, all its keys together; a request \
        that keeps a processor busy counts for more", default = Some(&1000), most = Some(RATE_MAX), zero = Some("0 means no limit"),
        is_reloaded = true;
    rate_limit_burst: u32, "N", "Requests that one partner may make at once after a pause, on each node; if not set, at least \
        rate_limit_per_second",
        default = Some(&RATE_LIMIT_BURST), most = Some(RATE_MAX), is_reloaded = true;
    registrations_per_minute: u32, "N", "Registrations per minute from one network address, on each node",
        default = Some(&300), most = Some(RATE_MAX), zero = Some("0 means no limit"), is_reloaded = true;
    trusted_proxies: Vec<String>, "SUBNET", "A proxy in front of the server, or its subnet, such as 10.0.0.0/8, trusted to name its \
        client", flag = Some("trusted-proxy"), is_reloaded = true;
    proxy_header: String, "HEADER", "The header in which proxies name the client: x-forwarded-for or forwarded",
        default = Some(&"x-forwarded-for"), is_reloaded = true;
    webhook_allow_http: bool, "BOOL", "Whether webhooks may go over plain http", unset = Some("false; true with --dev");
    webhook_allow_subnets: Vec<String>, "SUBNET", "A subnet to which webhooks may go although it is not public",
        flag = Some("webhook-allow-subnet");
    webhook_proxy: Proxy, "http://HOST:PORT", "The proxy through which webhooks go, http://[user:password@]host:port; give a password \
        in the environment or the file";
    webhook_verification: String, "MODE", "What verifies a new webhook endpoint, which gets six deliveries a minute at most until \
        then: first_success, or off", unset = Some("first_success; off with --dev");
    retention_days: u32, "N", "Days for which events are kept whole; after that, payloads and attempts with nothing left to deliver \
        are deleted", default = Some(&RETENTION_DAYS), most = Some(RETENTION_DAYS_MAX as u64), zero = Some("0 keeps them for ever");
    audit_retention_days: u32, "N", "Days for which records of the audit are kept, 30 to 3650; older ones are deleted",
        default = Some(&AUDIT_DAYS), least = Some(AUDIT_DAYS_MIN as u64), most = Some(AUDIT_DAYS_MAX as u64);
    min_free_disk: Bytes, "SIZE", "How much of a database file's disk must be free for anything new, such as 1GiB; with less, bookings are \
        still protected, rescheduled, canceled and delivered", default = Some(&Bytes(MIN_FREE_DISK)), zero = Some("0 means no limit");
    backup_folder: PathBuf, "FOLDER", "The folder in which `bookguard backup` keeps verified backups, named by their time; the metrics show \
        the time of the newest";
    pdf_fonts: Vec<PathBuf>, "FILE", "A font file for characters in PDFs that the shipped fonts lack (.ttf, .otf, .ttc), the same for every \
        node; of several, the first that has a character shows it", flag = Some("pdf-font"), everywhere = true;
    witnesses: PathBuf, "FILE", "A file with a trust policy (C2SP tlog-policy), the same for every node: its witnesses are asked to cosign the log's \
        checkpoints, and evidence shows its quorum once it is there", everywhere = true, unset = Some("no witnesses");
    map_interval_seconds: u32, "N", "The longest time, in seconds, until a map of the ledger covers a new entry; with the map, a \
        packet shows that none of its booking's entries is missing",
        default = Some(&60), least = Some(1), most = Some(MAP_INTERVAL_MAX);
    timestamp_authorities: Vec<AuthorityUrl>, "URL", "A time-stamp authority (RFC 3161) that stamps the ledger, such as \
        http://timestamp.example.com; of several, the next one is asked when one gives no stamp",
        flag = Some("timestamp-authority");
    timestamp_roots: PathBuf, "FILE", "The certificates (PEM) to which the authorities' stamps must lead, the same for every node";
    timestamp_interval_seconds: u32, "N", "Seconds between two stamps; only what was logged since is stamped",
        default = Some(&600), least = Some(TIMESTAMP_INTERVAL_MIN), most = Some(TIMESTAMP_INTERVAL_MAX);
    quota_bookings: u64, "N", "Bookings a partner without a quota of its own may record",
        default = Some(&QUOTA_BOOKINGS), most = Some(QUOTA_MAX), zero = Some("0 means no limit");
    quota_bytes: Bytes, "SIZE", "Bytes of bookings that a partner without a quota of its own may have, such as 10GiB",
        default = Some(&Bytes(QUOTA_BYTES)), most = Some(QUOTA_MAX), zero = Some("0 means no limit");
    quota_events_per_day: u64, "N", "Events a day (UTC) beyond which a partner without a quota of its own may record no bookings",
        default = Some(&QUOTA_EVENTS_PER_DAY), most = Some(QUOTA_MAX), zero = Some("0 means no limit");
    quota_endpoints: u64, "N", "Webhook endpoints that a partner without a quota of its own may have, 20 at most",
        default = Some(&ENDPOINTS_PER_PARTNER), most = Some(ENDPOINTS_PER_PARTNER as u64), zero = Some("0 means no limit of its own");
    quota_file_bytes: Bytes, "SIZE", "Bytes of evidence files that a partner without a quota of its own may have, such as 10GiB",
        default = Some(&Bytes(QUOTA_FILE_BYTES)), most = Some(QUOTA_MAX), zero = Some("0 means no limit");
    log_format: String, "FORM", "The form of the log on standard error: text, json (an object a line), or auto (text on a terminal)",
        default = Some(&"auto");
    log_level: String, "LEVEL", "The least important lines that are logged: error, warn, info or debug", default = Some(&"info"),
        is_reloaded = true;
    log_requests: bool, "BOOL", "Whether every request gets a line in the log", default = Some(&false), is_reloaded = true;
    slow_request_milliseconds: u32, "N", "Milliseconds of the server's own work from which a request counts as slow and gets a line in \
        the log", default = Some(&1000), most = Some(SLOW_REQUEST_MAX), zero = Some("0 means never"), is_reloaded = true;
    security_contacts: Vec<String>, "ADDRESS", "Where to report vulnerabilities, such as mailto:security@example.com; with it, \
        /.well-known/security.txt is served", flag = Some("security-contact");
    security_policy: String, "ADDRESS", "The https address of the rules for reporting vulnerabilities";
    security_encryption: String, "ADDRESS", "The address of a key for encrypting reports";
    security_languages: Vec<String>, "TAGS", "Languages reports may be in, such as en,de";
}

/// Variables that are not settings: commands read them, or `ops/compose.yml` is filled in with them.
const OTHER_VARIABLES: [&str; 10] = [
    "api_key",
    "config",
    "operator_key",
    "password",
    "profile",
    "transfer_from",
    "transfer_to",
    "url",
    "version",
    "webhook_secret",
];
/// How variables of our tests begin.
const TESTS_BEGIN: [&str; 2] = ["BENCH_", "TEST_"];
/// What variables hold that Kubernetes makes of a Service whose name begins as ours does, such as `bookguard-metrics`.
const OF_SERVICES: [&str; 2] = ["_SERVICE_", "_PORT_"];

impl Settings {
    /// Which of these environment variables look like settings and are not, in a sentence each.
    #[must_use]
    pub fn ignored(variables: impl IntoIterator<Item = OsString>) -> Vec<String> {
        let names = Self::ALL.iter().map(|setting| setting.name);
        let known: Vec<&str> = names.chain(OTHER_VARIABLES).collect();
        let variables = variables.into_iter();
        let mut ignored: Vec<String> = variables
            .filter_map(|variable| ignored(&variable.to_string_lossy(), &known))
            .collect();
        ignored.sort();
        ignored
    }

    /// Returns these settings, with gaps filled from a weaker source. If these have `db` or `db_file`, the weaker ones lose both.
    #[must_use]
    pub fn merge(self, mut weaker: Self) -> Self {
        if self.db.is_some() || self.db_file.is_some() {
            (weaker.db, weaker.db_file) = (None, None);
        }
        self.or(weaker)
    }

    /// The default settings.
    ///
    /// # Errors
    /// Only if a default does not parse as its setting's type, which a test would catch.
    pub(super) fn defaults() -> Result<Self, String> {
        let mut faults = Faults::default();
        let defaults = Self::read(Source::Variable, &mut faults, |setting| {
            setting.default.map(|default| default.to_string().into())
        });
        faults.none().map(|()| defaults)
    }

    /// What applies of these sources, the strongest first.
    #[must_use]
    pub fn in_force(sources: [(&'static str, Self); 3]) -> Vec<SettingInForce> {
        let mut is_placed = false;
        let sources = sources.map(|(from, mut settings)| {
            if is_placed {
                (settings.db, settings.db_file) = (None, None);
            }
            is_placed |= settings.db.is_some() || settings.db_file.is_some();
            (from, settings.shown())
        });
        let of = |(place, setting): (usize, &Setting)| {
            let said = sources
                .iter()
                .find_map(|(from, values)| Some((values[place].clone()?, *from)));
            let (value, from) = said.unwrap_or_else(|| {
                let without = setting.without();
                (without.unwrap_or_else(|| "none".to_owned()), "default")
            });
            SettingInForce {
                name: setting.name.to_owned(),
                value,
                from: from.to_owned(),
            }
        };
        Self::ALL.iter().enumerate().map(of).collect()
    }

    /// Whether an address in them may hold a password.
    #[must_use]
    pub fn holds_password(&self) -> bool {
        let database = match &self.db {
            Some(Database::Postgres(url)) => url.reveal() != url.to_string(),
            _ => false,
        };
        database
            || self
                .webhook_proxy
                .as_ref()
                .is_some_and(Proxy::holds_password)
    }

    /// Reads a configuration file (TOML). Notes a sentence for each fault, that names the file and, if a value is at fault, its
    /// line and key. `None` if nothing of the file can be read.
    pub fn load(file: &Path, faults: &mut Faults) -> Option<Self> {
        let shown = file.display();
        let text = fs::read_to_string(file)
            .map_err(|e| format!("the configuration file {shown} cannot be read: {e}"));
        let text = faults.note(&[], text)?;
        Self::parse(&text, &shown.to_string(), faults)
    }

    pub(super) fn parse(text: &str, file: &str, faults: &mut Faults) -> Option<Self> {
        let table = DeTable::parse(text).map_err(|error| told(text, file, &error, None));
        let mut entries: Vec<_> = faults.note(&[], table)?.into_inner().into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut all = Self::default();
        // One by one: a reader of the whole would end at the first that is wrong.
        for (key, value) in entries {
            let name: &str = key.get_ref();
            let setting = Self::ALL.iter().find(|setting| setting.name == name);
            let span = key.span();
            let alone: DeTable<'_> = [(key, value)].into_iter().collect();
            let read = Self::deserialize(toml::Deserializer::from(Spanned::new(span, alone)))
                .map_err(|error| told(text, file, &error, setting));
            if let Some(read) = faults.read(setting, read) {
                all = all.or(read);
            }
        }
        Some(all)
    }
}

/// What is wrong with the text of a file, with its line and, if it is known, the setting.
fn told(text: &str, file: &str, error: &toml::de::Error, setting: Option<&Setting>) -> String {
    let Some(span) = error.span() else {
        return format!("{file}: {}", error.message());
    };
    let before = text.get(..span.start).unwrap_or_default();
    let line = before.matches('\n').count();
    let key = text
        .lines()
        .nth(line)
        .and_then(|line| line.split_once('='))
        .map(|(key, _)| key.trim());
    // What stands before an equals sign may be part of an address with a password.
    let known = |key: &str| Settings::ALL.iter().find(|setting| setting.name == key);
    let setting = setting.or_else(|| key.and_then(known));
    let place = setting.filter(|it| !error.message().contains(&format!("`{}`", it.name)));
    let place = place.map_or_else(String::new, |it| format!(" ({})", it.name));
    let why = in_our_words(error.message(), setting);
    format!("{file}, line {}{place}: {why}", line + 1)
}

/// The sentence about a variable that looks like one of these and is not.
fn ignored(variable: &str, known: &[&str]) -> Option<String> {
    let name = variable.strip_prefix("BOOKGUARD_")?;
    let is_known = known.iter().any(|known| known.to_uppercase() == name);
    let of_tests = TESTS_BEGIN.iter().any(|begin| name.starts_with(begin));
    let marked = format!("_{name}_");
    let of_a_service = OF_SERVICES.iter().any(|mark| marked.contains(mark));
    if is_known || of_tests || of_a_service {
        return None;
    }
    let way = match nearest(name, known) {
        Some(near) => format!("did you mean BOOKGUARD_{}?", near.to_uppercase()),
        None => "`bookguard serve --help` lists all".to_owned(),
    };
    let variable = shorten(variable);
    Some(format!(
        "the environment variable {variable} is ignored, because no setting has it; {way}"
    ))
}

/// What the reader of the file says about a setting, without the names of Rust's types.
fn in_our_words(message: &str, setting: Option<&Setting>) -> String {
    let is_of_type = message.starts_with("invalid type") || message.starts_with("invalid value");
    if let Some(setting) = setting.filter(|_| is_of_type) {
        return format!("it must be {}", setting.wanted());
    }
    let unknown = message.strip_prefix("unknown field `");
    let Some((name, _)) = unknown.and_then(|rest| rest.split_once('`')) else {
        return message.to_owned();
    };
    let names: Vec<&str> = Settings::ALL.iter().map(|setting| setting.name).collect();
    let way = match nearest(name, &names) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "`bookguard serve --help` lists all".to_owned(),
    };
    format!("there is no setting \"{}\"; {way}", shorten(name))
}

/// A type that a setting can have.
trait Value: Sized + Debug {
    /// Whether it is a list.
    const IS_LIST: bool = false;
    /// Whether it is a switch.
    const IS_SWITCH: bool = false;

    /// Reads the text of a flag or variable named `at`.
    fn read(text: OsString, at: &str, source: Source) -> Result<Self, String>;

    /// The value in words, without secrets.
    fn shown(&self) -> String {
        format!("{self:?}")
    }

    /// The value as a number to check against the setting's limit.
    fn number(&self) -> Option<u64> {
        None
    }
}

/// Implements [`Value`] for each type: how a text is read, and further items.
macro_rules! values {
    ($($type:ty: |$text:ident, $at:pat_param, $source:pat_param| $read:expr $(, $more:item)*;)*) => {
        $(impl Value for $type {
            fn read($text: OsString, $at: &str, $source: Source) -> Result<Self, String> {
                $read
            }

            $($more)*
        })*
    };
}

values! {
    String: |text, at, _| text.into_string().map_err(|_| format!("{at} is not valid UTF-8")),
        fn shown(&self) -> String { self.clone() };
    PathBuf: |text, _, _| Ok(text.into()), fn shown(&self) -> String { self.display().to_string() };
    Database: |text, _, _| Ok(text.into());
    Proxy: |text, at, source| Self::parse(&String::read(text, at, source)?);
    LedgerKeySource: |text, _, source| match source {
        Source::Flag => Self::file(text.into()).map_err(|e| e.to_string()),
        Source::Variable => Ok(Self::from_variable(text)),
    }, fn shown(&self) -> String {
        self.path().map_or_else(|| self.to_string(), |file| file.display().to_string())
    };
    Vec<String>: |text, at, source| {
        let text = String::read(text, at, source)?;
        Ok(text.split(',').map(|one| one.trim().to_owned()).collect())
    }, const IS_LIST: bool = true;;
    Vec<PathBuf>: |text, at, source| {
        let files = <Vec<String> as Value>::read(text, at, source)?;
        Ok(files.into_iter().map(PathBuf::from).collect())
    }, const IS_LIST: bool = true;;
    Vec<AuthorityUrl>: |text, at, source| {
        let addresses = <Vec<String> as Value>::read(text, at, source)?;
        Ok(addresses.into_iter().map(AuthorityUrl).collect())
    }, const IS_LIST: bool = true;;
    bool: |text, at, source| {
        let word = String::read(text, at, source)?;
        match word.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => Err(format!("{at} is \"{word}\"; it must be true or false")),
        }
    }, const IS_SWITCH: bool = true;;
    Bytes: |text, at, source| {
        let size = String::read(text, at, source)?;
        size.parse().map_err(|why| format!("{at}: {why}"))
    }, fn shown(&self) -> String { self.to_string() }, fn number(&self) -> Option<u64> { Some(self.0) };
    u32: |text, at, source| whole(String::read(text, at, source)?, at),
        fn number(&self) -> Option<u64> { Some((*self).into()) };
    u64: |text, at, source| whole(String::read(text, at, source)?, at),
        fn number(&self) -> Option<u64> { Some(*self) };
}

fn whole<N: FromStr<Err = ParseIntError>>(digits: String, at: &str) -> Result<N, String> {
    let number = digits.parse();
    number.map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("{at} is \"{digits}\", which is too large"),
        _ => format!("{at} is \"{digits}\"; it must be a whole number, in digits alone"),
    })
}
