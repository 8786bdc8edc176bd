//! Where a command works, and with which settings: from flags first, then the environment, then the configuration file. A
//! command for which none of them names a place works with the user's default profile, if there is one.
//!
//! The server's `Settings` define which values a setting takes. clap's own `env` is not used: it takes an empty variable as
//! set, lets BOOKGUARD_URL conflict with `--db`, and names the flag if a variable is wrong. Invariant: an empty environment
//! variable counts as not set.

use std::ffi::OsString;
use std::path::PathBuf;

use bookguard_core::model::PartnerId;
use bookguard_server::config::settings::{Faults, Setting, Source};
use bookguard_server::config::{Config, Settings};

use crate::args::{GlobalArgs, SettingFlags, Var};
use crate::failure::Failure;
use crate::files;
use crate::profiles::{Profile, Profiles};

/// Where a command works.
#[derive(Debug)]
pub enum Where {
    /// On a database file, as its administrator.
    Database {
        /// The service's configuration.
        config: Box<Config>,
        /// The partner to act for.
        partner_id: Option<PartnerId>,
    },
    /// On a server.
    Server {
        /// Its address.
        url: String,
        /// Whose key it is called with, and where that is.
        key: KeySource,
        /// Whether requests are printed instead of sent.
        prints: bool,
    },
}

/// Whose key a server is called with, and where it is.
#[derive(Debug, Clone)]
pub struct KeySource {
    /// Whose key it is.
    pub kind: KeyKind,
    /// Where it is.
    pub place: KeyPlace,
}

/// Where the key for a server is.
#[derive(Debug, Clone)]
pub enum KeyPlace {
    /// In the variable for its kind.
    Environment,
    /// In a file that holds nothing else.
    File(PathBuf),
    /// In the profile that named the server.
    Profile(String, Profile),
}

/// Whose key a server is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A partner's.
    Partner,
    /// The operator's.
    Operator {
        /// The partner to act for.
        partner_id: Option<PartnerId>,
    },
}

impl KeyKind {
    /// The environment variable that holds such a key.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Partner => "BOOKGUARD_API_KEY",
            Self::Operator { .. } => "BOOKGUARD_OPERATOR_KEY",
        }
    }
}

/// The process's environment.
pub fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Where a command works. A flag wins over the environment, even if they name different kinds of places.
///
/// # Errors
/// [`Failure::Usage`] for an invalid setting.
pub fn place(place: &GlobalArgs, var: Var<'_>) -> Result<Where, Failure> {
    if let Some((url, key)) = server(place, var)? {
        return Ok(Where::Server {
            url,
            key,
            prints: place.curl,
        });
    }
    if place.curl {
        return Err(Failure::Usage(
            "--curl prints a request to a server, and this command works on a database; name the server with --url".to_owned(),
        ));
    }
    let partner_id = place.partner.as_deref().map(partner_id).transpose()?;
    Ok(Where::Database {
        config: Box::new(config(place, None, var)?),
        partner_id,
    })
}

/// Whether a command would work on a server, whatever the other settings are.
///
/// # Errors
/// [`Failure::Usage`] for flags that contradict each other, and profiles that cannot be read.
pub fn is_server(place: &GlobalArgs, var: Var<'_>) -> Result<bool, Failure> {
    Ok(server(place, var)?.is_some())
}

/// The server to work on, if it is one, and its key. A flag wins over the environment.
fn server(place: &GlobalArgs, var: Var<'_>) -> Result<Option<(String, KeySource)>, Failure> {
    if place.url.is_some() && place.profile.is_some() {
        return Err(Failure::Usage(
            "--profile names a server with its key, so --url cannot be given too; `login` alone takes both".to_owned(),
        ));
    }
    let file = |file: &PathBuf| KeyPlace::File(file.clone());
    let flag = match (&place.api_key_file, &place.operator_key_file) {
        (Some(partners), _) => Some((false, file(partners))),
        (None, Some(operators)) => Some((true, file(operators))),
        (None, None) => None,
    };
    let (url, (is_operator, place_of_key)) = match (url(place, var)?, flag) {
        (Some(url), Some(flag)) => (url, flag),
        (Some(url), None) => (url, (is_operators(var)?, KeyPlace::Environment)),
        (None, flag) => match (profile(place, var)?, flag) {
            (None, None) => return Ok(None),
            // Otherwise the command would work as the operator on whatever database is here.
            (None, Some(_)) => return Err(Failure::Usage(NO_SERVER.to_owned())),
            (Some((name, profile)), flag) => (
                profile.url.clone(),
                flag.unwrap_or((profile.operator, KeyPlace::Profile(name, profile))),
            ),
        },
    };
    let partner_id = place.partner.as_deref().map(partner_id).transpose()?;
    let kind = match is_operator {
        true => KeyKind::Operator { partner_id },
        false if partner_id.is_some() => {
            return Err(Failure::Usage(
                "--partner is for work on a database (--db) or with an operator key; otherwise a server knows the partner by its key"
                    .to_owned(),
            ));
        }
        false => KeyKind::Partner,
    };
    let key = KeySource {
        kind,
        place: place_of_key,
    };
    Ok(Some((url, key)))
}

const NO_SERVER: &str = "--api-key-file and --operator-key-file hold the key for a server, and none is named: name it with --url, or leave \
                         the file out to work on a database as its operator";

/// Whether the key in the environment is the operator's.
fn is_operators(var: Var<'_>) -> Result<bool, Failure> {
    let set = |kind: KeyKind| var(kind.variable()).is_some();
    let operators = set(KeyKind::Operator { partner_id: None });
    match operators && set(KeyKind::Partner) {
        true => Err(Failure::Usage(
            "both BOOKGUARD_API_KEY and BOOKGUARD_OPERATOR_KEY are set, and a server is called with one of them: unset the other, \
             or name a file with --api-key-file or --operator-key-file"
                .to_owned(),
        )),
        false => Ok(operators),
    }
}

/// The address of the server to work on, if a flag or a variable says it.
///
/// # Errors
/// [`Failure::Usage`] for a variable that is not valid UTF-8.
pub fn url(place: &GlobalArgs, var: Var<'_>) -> Result<Option<String>, Failure> {
    match &place.url {
        Some(url) => Ok(Some(url.clone())),
        None if place.profile.is_some() || names_database(place) => Ok(None),
        None => text(var, "BOOKGUARD_URL"),
    }
}

/// Whether a flag names the database to work on.
fn names_database(place: &GlobalArgs) -> bool {
    place.settings.has("db") || place.settings.has("db_file")
}

/// The profile to work with, if there is one: the named one, or the default of a command that is told no place.
fn profile(place: &GlobalArgs, var: Var<'_>) -> Result<Option<(String, Profile)>, Failure> {
    let named = match &place.profile {
        Some(name) => Some(name.clone()),
        None if names_database(place) || place.config.is_some() => return Ok(None),
        None => text(var, "BOOKGUARD_PROFILE")?,
    };
    let told = |name| var(name).is_some();
    let databases = ["BOOKGUARD_DB", "BOOKGUARD_DB_FILE", "BOOKGUARD_CONFIG"];
    if named.is_none() && databases.into_iter().any(told) {
        return Ok(None);
    }
    let profiles = Profiles::load(var)?;
    let Some(name) = named.or_else(|| profiles.default.clone()) else {
        return Ok(None);
    };
    let profile = profiles.named(&name)?.clone();
    Ok(Some((name, profile)))
}

/// The service's configuration: with the flags of `serve`, or without them for work on a database.
///
/// # Errors
/// [`Failure::Usage`] for an invalid setting.
pub fn config(
    place: &GlobalArgs,
    serve: Option<&SettingFlags<false>>,
    var: Var<'_>,
) -> Result<Config, Failure> {
    let load = || -> Result<Config, String> {
        let mut faults = Faults::default();
        let flags = Settings::read(Source::Flag, &mut faults, |setting| {
            let said = place.settings.said(setting);
            said.or_else(|| serve?.said(setting))
        });
        let from = |setting: &Setting| var(&setting.variable());
        let variables = Settings::read(Source::Variable, &mut faults, from);
        let file = config_file(place, var);
        let config = Config::load(file.as_deref(), flags, variables, faults)?;
        let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        Ok(Config {
            ignored: Settings::ignored(set.map(|(name, _)| name)),
            ..config
        })
    };
    load().map_err(Failure::Usage)
}

/// The configuration file, if one is named.
pub fn config_file(place: &GlobalArgs, var: Var<'_>) -> Option<PathBuf> {
    let file = place.config.clone();
    file.or_else(|| var("BOOKGUARD_CONFIG").map(PathBuf::from))
}

/// The text of a variable, if it is set.
///
/// # Errors
/// [`Failure::Usage`] for what is not UTF-8.
pub fn text(var: Var<'_>, name: &str) -> Result<Option<String>, Failure> {
    let text = var(name).map(OsString::into_string).transpose();
    text.map_err(|_| Failure::Usage(format!("{name} is not valid UTF-8")))
}

fn partner_id(text: &str) -> Result<PartnerId, Failure> {
    PartnerId::parse(text).ok_or_else(|| {
        Failure::Usage(format!("--partner is \"{text}\"; it must be an id such as ptn_… (`bookguard partners list` shows them)"))
    })
}

/// The key for a server, if there is one.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read, a command that fails, or text that is not a key.
pub fn key(source: &KeySource, var: Var<'_>) -> Result<Option<String>, Failure> {
    let variable = source.kind.variable();
    let (source, key) = match &source.place {
        KeyPlace::File(file) => (
            file.display().to_string(),
            Some(files::text(file, files::SECRET_BYTES)?),
        ),
        KeyPlace::Profile(name, profile) => {
            (format!("the profile \"{name}\""), Some(profile.key()?))
        }
        KeyPlace::Environment => (variable.to_owned(), text(var, variable)?),
    };
    key.map(|key| checked_key(&source, &key)).transpose()
}

/// A key that this source said, without the white space around it.
///
/// # Errors
/// [`Failure::Usage`] for text that is not a key. It never shows the text, not even in part: that may be a real key with a
/// stray character.
pub fn checked_key(source: &str, key: &str) -> Result<String, Failure> {
    let key = key.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Usage(format!(
            "{source} holds no key; it must hold one, bgk_… of a partner or bgo_… of the operator, and nothing else"
        )));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use bookguard_core::key_file::LedgerKeySource;
    use bookguard_server::config::AuthorityUrl;
    use bookguard_server::config::bytes::Bytes;
    use bookguard_server::courier::proxy::Proxy;
    use clap::Parser as _;

    use super::*;
    use crate::profiles::Credential;

    /// The flags of a command line.
    fn at(line: &str) -> GlobalArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            place: GlobalArgs,
        }
        let words = std::iter::once("bookguard").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().place
    }

    fn of_environment(var: Var<'_>) -> Result<Settings, String> {
        let mut faults = Faults::default();
        let read = Settings::read(Source::Variable, &mut faults, |setting| {
            var(&setting.variable())
        });
        faults.none().map(|()| read)
    }

    fn vars<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| OsString::from(value))
        }
    }

    fn described(at: &GlobalArgs, env: &[(&str, &str)]) -> String {
        match place(at, &vars(env)) {
            Ok(Where::Server { url, .. }) => url,
            Ok(Where::Database { config, .. }) => config.db.to_string(),
            Err(failure) => format!("{failure:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_environment_whichever_place_they_name() {
        let nothing = at("");
        let db = at("--db flag.db");
        let url = at("--url http://flag");
        let (env_db, env_url) = (("BOOKGUARD_DB", "env.db"), ("BOOKGUARD_URL", "http://env"));
        for (at, env, expected) in [
            (&nothing, &[][..], "bookguard.db"),
            (&nothing, &[env_db], "env.db"),
            (&nothing, &[env_url], "http://env"),
            (&nothing, &[env_db, env_url], "http://env"),
            (&db, &[env_db, env_url], "flag.db"),
            (&url, &[env_db, env_url], "http://flag"),
        ] {
            assert_eq!(described(at, env), expected, "{at:?} {env:?}");
        }
    }

    #[test]
    fn a_profile_is_used_where_nothing_else_names_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let with = |more: &[(&'static str, &'static str)]| {
            let home = ("XDG_CONFIG_HOME", home);
            let pairs: Vec<_> = more.iter().copied().chain([home]).collect();
            move |name: &str| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| OsString::from(value))
            }
        };
        let of = |url: &str| Profile::new(url.to_owned(), false, Credential::Key("bgk_1"));
        let profiles = Profiles {
            default: Some("a".to_owned()),
            all: [
                ("a".to_owned(), of("http://a")),
                ("b".to_owned(), of("http://b")),
            ]
            .into(),
        };
        profiles.save(&with(&[])).unwrap();
        let (db, url) = (("BOOKGUARD_DB", "env.db"), ("BOOKGUARD_URL", "http://env"));
        for (line, env, expected) in [
            ("", &[][..], "http://a"),
            ("--profile b", &[db, url], "http://b"),
            ("", &[("BOOKGUARD_PROFILE", "b"), db], "http://b"),
            ("", &[db], "env.db"),
            ("", &[url], "http://env"),
            ("--db flag.db", &[], "flag.db"),
            ("--url http://flag", &[], "http://flag"),
            ("--profile c", &[], "there are: a, b"),
            ("--profile b --url http://flag", &[], "`login` alone"),
            (
                "--partner ptn_01a0d3f886e574f3924bf7d06d41a544",
                &[],
                "knows the partner by its key",
            ),
        ] {
            let found = match place(&at(line), &with(env)) {
                Ok(Where::Server { url, .. }) => url,
                Ok(Where::Database { config, .. }) => config.db.to_string(),
                Err(failure) => format!("{failure:?}").replace('\\', ""),
            };
            assert!(found.contains(expected), "{line} {env:?}: {found}");
        }
        // The key in the environment is for another server.
        let env = with(&[("BOOKGUARD_API_KEY", "bgk_env")]);
        let source = |line: &str| match place(&at(line), &env) {
            Ok(Where::Server { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        let key = |line: &str| key(&source(line), &env).unwrap().unwrap();
        assert_eq!(key(""), "bgk_1");
        assert_eq!(key("--url http://a"), "bgk_env");
        let file = source("--api-key-file f").place;
        assert!(matches!(file, KeyPlace::File(_)));
    }

    #[test]
    fn a_key_without_a_server_is_not_ignored() {
        let (db, url) = (("BOOKGUARD_DB", "env.db"), ("BOOKGUARD_URL", "http://x"));
        for line in ["--api-key-file f", "--operator-key-file f"] {
            for env in [&[][..], &[db][..]] {
                let found = described(&at(line), env);
                assert!(found.contains("name it with --url"), "{line}: {found}");
            }
            assert_eq!(described(&at(line), &[db, url]), "http://x");
        }
    }

    #[test]
    fn a_partner_is_named_only_on_a_database() {
        let named = at("--partner ptn_1");
        assert!(described(&named, &[]).contains("must be an id such as ptn_"));
        let named = at(&format!("--partner ptn_{}", "0".repeat(32)));
        let url = ("BOOKGUARD_URL", "http://x");
        assert!(described(&named, &[url]).contains("knows the partner by its key"));
        let key = ("BOOKGUARD_OPERATOR_KEY", "bgo_x");
        assert_eq!(described(&named, &[url, key]), "http://x");
    }

    #[test]
    fn a_server_is_called_with_one_kind_of_key() {
        let url = ("BOOKGUARD_URL", "http://x");
        let (api, operator) = (
            ("BOOKGUARD_API_KEY", "bgk_x"),
            ("BOOKGUARD_OPERATOR_KEY", "bgo_x"),
        );
        let kind = |line: &str, env: &[(&str, &str)]| match place(&at(line), &vars(env)) {
            Ok(Where::Server { key, .. }) => key.kind.variable().to_owned(),
            other => format!("{other:?}"),
        };
        for (line, env, expected) in [
            ("", &[url][..], api.0),
            ("", &[url, api], api.0),
            ("", &[url, operator], operator.0),
            ("--api-key-file f", &[url, operator], api.0),
            ("--operator-key-file f", &[url, api], operator.0),
        ] {
            assert_eq!(kind(line, env), expected, "{line} {env:?}");
        }
        assert!(kind("", &[url, api, operator]).contains("unset the other"));
    }

    #[test]
    fn the_environment_speaks_every_setting() {
        #[rustfmt::skip]
        let env = [
            ("BOOKGUARD_DB", "a.db"),
            ("BOOKGUARD_DB_FILE", "a.address"),
            ("BOOKGUARD_LISTEN", "127.0.0.1:0"),
            ("BOOKGUARD_METRICS_LISTEN", "127.0.0.1:1"),
            ("BOOKGUARD_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("BOOKGUARD_OPERATOR_LISTEN", "127.0.0.1:2"),
            ("BOOKGUARD_OPERATOR_URL", "https://o.example"),
            ("BOOKGUARD_PUBLIC_URL", "https://b.example"),
            ("BOOKGUARD_CONSOLE", "false"),
            ("BOOKGUARD_LEDGER_KEY", "a.key"),
            ("BOOKGUARD_GUARD_FILE", "a.seen"),
            ("BOOKGUARD_DATABASE_WAIT_SECONDS", "5"),
            ("BOOKGUARD_SHUTDOWN_DELAY_SECONDS", "6"),
            ("BOOKGUARD_DEV", "yes"),
            ("BOOKGUARD_REGISTRATION", "closed"),
            ("BOOKGUARD_LIBRARY_POLICIES", "1"),
            ("BOOKGUARD_RATE_LIMIT_PER_SECOND", "7"),
            ("BOOKGUARD_RATE_LIMIT_BURST", "8"),
            ("BOOKGUARD_REGISTRATIONS_PER_MINUTE", "9"),
            ("BOOKGUARD_TRUSTED_PROXIES", "10.0.0.1,fd00::/8"),
            ("BOOKGUARD_PROXY_HEADER", "forwarded"),
            ("BOOKGUARD_WEBHOOK_ALLOW_HTTP", "off"),
            ("BOOKGUARD_WEBHOOK_ALLOW_SUBNETS", "10.1.0.0/16, 10.2.0.0/16"),
            ("BOOKGUARD_WEBHOOK_PROXY", "http://u:p@proxy.example:3128"),
            ("BOOKGUARD_WEBHOOK_VERIFICATION", "off"),
            ("BOOKGUARD_RETENTION_DAYS", "30"),
            ("BOOKGUARD_AUDIT_RETENTION_DAYS", "31"),
            ("BOOKGUARD_MIN_FREE_DISK", "1 GiB"),
            ("BOOKGUARD_BACKUP_FOLDER", "backups"),
            ("BOOKGUARD_PDF_FONTS", "/fonts/a.ttc, b.ttf"),
            ("BOOKGUARD_WITNESSES", "witnesses.policy"),
            ("BOOKGUARD_MAP_INTERVAL_SECONDS", "30"),
            ("BOOKGUARD_TIMESTAMP_AUTHORITIES", "http://t.example/"),
            ("BOOKGUARD_TIMESTAMP_ROOTS", "roots.pem"),
            ("BOOKGUARD_TIMESTAMP_INTERVAL_SECONDS", "60"),
            ("BOOKGUARD_QUOTA_BOOKINGS", "10"),
            ("BOOKGUARD_QUOTA_BYTES", "2 MiB"),
            ("BOOKGUARD_QUOTA_EVENTS_PER_DAY", "11"),
            ("BOOKGUARD_QUOTA_ENDPOINTS", "12"),
            ("BOOKGUARD_QUOTA_FILE_BYTES", "3 MiB"),
            ("BOOKGUARD_LOG_FORMAT", "json"),
            ("BOOKGUARD_LOG_LEVEL", "warn"),
            ("BOOKGUARD_LOG_REQUESTS", "true"),
            ("BOOKGUARD_SLOW_REQUEST_MILLISECONDS", "13"),
            ("BOOKGUARD_SECURITY_CONTACTS", "mailto:s@b.example, https://b.example/r"),
            ("BOOKGUARD_SECURITY_POLICY", "https://b.example/p"),
            ("BOOKGUARD_SECURITY_ENCRYPTION", "https://b.example/k"),
            ("BOOKGUARD_SECURITY_LANGUAGES", "en, de"),
        ];
        let settings = of_environment(&vars(&env)).unwrap();
        let expected = Settings {
            db: Some("a.db".into()),
            db_file: Some("a.address".into()),
            listen: Some("127.0.0.1:0".to_owned()),
            metrics_listen: Some("127.0.0.1:1".to_owned()),
            otlp_endpoint: Some("http://127.0.0.1:4318".to_owned()),
            operator_listen: Some("127.0.0.1:2".to_owned()),
            operator_url: Some("https://o.example".to_owned()),
            public_url: Some("https://b.example".to_owned()),
            console: Some(false),
            ledger_key: Some(LedgerKeySource::File("a.key".into())),
            guard_file: Some("a.seen".into()),
            database_wait_seconds: Some(5),
            shutdown_delay_seconds: Some(6),
            dev: Some(true),
            registration: Some("closed".to_owned()),
            library_policies: Some(true),
            rate_limit_per_second: Some(7),
            rate_limit_burst: Some(8),
            registrations_per_minute: Some(9),
            trusted_proxies: Some(vec!["10.0.0.1".to_owned(), "fd00::/8".to_owned()]),
            proxy_header: Some("forwarded".to_owned()),
            webhook_allow_http: Some(false),
            webhook_allow_subnets: Some(vec!["10.1.0.0/16".to_owned(), "10.2.0.0/16".to_owned()]),
            webhook_proxy: Some(Proxy::parse("http://u:p@proxy.example:3128").unwrap()),
            webhook_verification: Some("off".to_owned()),
            retention_days: Some(30),
            audit_retention_days: Some(31),
            min_free_disk: Some(Bytes(1 << 30)),
            backup_folder: Some("backups".into()),
            pdf_fonts: Some(vec!["/fonts/a.ttc".into(), "b.ttf".into()]),
            witnesses: Some("witnesses.policy".into()),
            map_interval_seconds: Some(30),
            timestamp_authorities: Some(vec![AuthorityUrl("http://t.example/".to_owned())]),
            timestamp_roots: Some("roots.pem".into()),
            timestamp_interval_seconds: Some(60),
            quota_bookings: Some(10),
            quota_bytes: Some(Bytes(2 << 20)),
            quota_events_per_day: Some(11),
            quota_endpoints: Some(12),
            quota_file_bytes: Some(Bytes(3 << 20)),
            log_format: Some("json".to_owned()),
            log_level: Some("warn".to_owned()),
            log_requests: Some(true),
            slow_request_milliseconds: Some(13),
            security_contacts: Some(vec![
                "mailto:s@b.example".to_owned(),
                "https://b.example/r".to_owned(),
            ]),
            security_policy: Some("https://b.example/p".to_owned()),
            security_encryption: Some("https://b.example/k".to_owned()),
            security_languages: Some(vec!["en".to_owned(), "de".to_owned()]),
        };
        assert_eq!(settings, expected);
        for (name, value) in [
            ("BOOKGUARD_DEV", "maybe"),
            ("BOOKGUARD_RATE_LIMIT_BURST", "-1"),
        ] {
            let failure = of_environment(&vars(&[(name, value)])).unwrap_err();
            assert!(failure.starts_with(name), "{failure:?}");
        }
    }

    #[test]
    fn a_ledger_key_is_taken_from_the_environment_only_and_never_shown() {
        let key = "PRIVATE+KEY+b+0123abcd+ASECRETSECRETSECRETSECRETSECRETSECRETSECRETSE";
        let settings = of_environment(&vars(&[("BOOKGUARD_LEDGER_KEY", key)])).unwrap();
        assert!(matches!(
            settings.ledger_key,
            Some(LedgerKeySource::Text(_))
        ));
        assert!(!format!("{settings:?}").contains("SECRET"));
        let place = at(&format!("--ledger-key {key}"));
        match config(&place, None, &vars(&[])).unwrap_err() {
            Failure::Usage(why) => {
                assert!(
                    why.contains("names a file") && !why.contains("SECRET"),
                    "{why}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_can_be_no_key_is_refused_without_showing_it() {
        let partners = |file: Option<&str>| KeySource {
            kind: KeyKind::Partner,
            place: file.map_or(KeyPlace::Environment, |file| KeyPlace::File(file.into())),
        };
        for value in ["bgk_a b", "bgk_\u{e9}", "   "] {
            let env = [("BOOKGUARD_API_KEY", value)];
            let failure = key(&partners(None), &vars(&env)).unwrap_err();
            assert!(
                matches!(&failure, Failure::Usage(why) if !why.contains("bgk_a") && !why.contains('\u{e9}'))
            );
        }
        assert_eq!(
            key(&partners(None), &vars(&[("BOOKGUARD_API_KEY", " bgk_1\n")]))
                .unwrap()
                .as_deref(),
            Some("bgk_1")
        );
        assert_eq!(key(&partners(None), &vars(&[])).unwrap(), None);
        assert!(matches!(
            key(&partners(Some("/nowhere/key")), &vars(&[])),
            Err(Failure::Usage(_))
        ));
    }
}
