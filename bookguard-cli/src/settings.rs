//! Where a command works, and with which settings: from flags first, then the environment, then the configuration file.
//!
//! The server's `Settings` define which values a setting takes. clap's own `env` is not used: it takes an empty variable as
//! set, lets BOOKGUARD_URL conflict with `--db`, and names the flag if a variable is wrong. Invariant: an empty environment
//! variable counts as not set.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bookguard_core::model::PartnerId;
use bookguard_server::config::settings::Source;
use bookguard_server::config::{Config, Settings};

use crate::args::{GlobalArgs, SettingFlags};
use crate::failure::Failure;
use crate::files;

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
        /// The file that holds the key; without one, the environment does.
        api_key_file: Option<PathBuf>,
        /// Whether requests are printed instead of sent.
        prints: bool,
    },
}

/// Reads one environment variable.
pub type Var<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The process's environment.
pub fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Where a command works. A flag wins over the environment, even if they name different kinds of places.
///
/// # Errors
/// [`Failure::Usage`] for an invalid setting.
pub fn place(place: &GlobalArgs, var: Var<'_>) -> Result<Where, Failure> {
    if let Some(url) = url(place, var)? {
        if place.partner.is_some() {
            return Err(Failure::Usage(
                "--partner is for work on a database; a server (BOOKGUARD_URL) knows the partner by its key".to_owned(),
            ));
        }
        return Ok(Where::Server {
            url,
            api_key_file: place.api_key_file.clone(),
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

/// The address of the server to work on, if it is one.
///
/// # Errors
/// [`Failure::Usage`] for a variable that is not valid UTF-8.
pub fn url(place: &GlobalArgs, var: Var<'_>) -> Result<Option<String>, Failure> {
    match &place.url {
        Some(url) => Ok(Some(url.clone())),
        None if place.settings.has("db") => Ok(None),
        None => text(var, "BOOKGUARD_URL"),
    }
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
    let flags = Settings::read(Source::Flag, |setting| {
        let said = place.settings.said(setting);
        said.or_else(|| serve?.said(setting))
    });
    let variables = Settings::read(Source::Variable, |setting| var(&setting.variable()));
    let file = place.config.clone();
    let file = file.or_else(|| var("BOOKGUARD_CONFIG").map(PathBuf::from));
    let load = || Config::load(file.as_deref(), flags?.merge(variables?));
    load().map_err(Failure::Usage)
}

fn text(var: Var<'_>, name: &str) -> Result<Option<String>, Failure> {
    var(name)
        .map(|value| {
            value
                .into_string()
                .map_err(|_| Failure::Usage(format!("{name} is not valid UTF-8")))
        })
        .transpose()
}

fn partner_id(text: &str) -> Result<PartnerId, Failure> {
    PartnerId::parse(text).ok_or_else(|| {
        Failure::Usage(format!("--partner is \"{text}\"; it must be an id such as ptn_… (`bookguard partners list` shows them)"))
    })
}

/// The API key for a server, if there is one.
///
/// # Errors
/// [`Failure::Usage`] for a file that cannot be read, or text that is not a key.
pub fn api_key(file: Option<&Path>, var: Var<'_>) -> Result<Option<String>, Failure> {
    let (source, key) = match file {
        Some(file) => (
            file.display().to_string(),
            Some(files::text(file, files::SECRET_BYTES)?),
        ),
        None => (
            "BOOKGUARD_API_KEY".to_owned(),
            text(var, "BOOKGUARD_API_KEY")?,
        ),
    };
    let Some(key) = key.map(|key| key.trim().to_owned()) else {
        return Ok(None);
    };
    // Never shown, not even in part: it may be a real key with a stray character.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Usage(format!(
            "{source} holds no API key; it must hold one, bgk_…, and nothing else"
        )));
    }
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use bookguard_core::key_file::LedgerKeySource;
    use bookguard_server::config::bytes::Bytes;
    use bookguard_server::courier::proxy::Proxy;
    use clap::Parser as _;

    use super::*;

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
        Settings::read(Source::Variable, |setting| var(&setting.variable()))
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
    fn a_partner_is_named_only_on_a_database() {
        let at = at("--partner ptn_1");
        assert!(described(&at, &[]).contains("must be an id such as ptn_"));
        assert!(
            described(&at, &[("BOOKGUARD_URL", "http://x")])
                .contains("knows the partner by its key")
        );
    }

    #[test]
    fn the_environment_speaks_every_setting() {
        let env = [
            ("BOOKGUARD_DB", "a.db"),
            ("BOOKGUARD_LISTEN", "127.0.0.1:0"),
            ("BOOKGUARD_METRICS_LISTEN", "127.0.0.1:1"),
            ("BOOKGUARD_PUBLIC_URL", "https://b.example"),
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
            (
                "BOOKGUARD_WEBHOOK_ALLOW_SUBNETS",
                "10.1.0.0/16, 10.2.0.0/16",
            ),
            ("BOOKGUARD_WEBHOOK_PROXY", "http://u:p@proxy.example:3128"),
            ("BOOKGUARD_WEBHOOK_VERIFICATION", "off"),
            ("BOOKGUARD_RETENTION_DAYS", "30"),
            ("BOOKGUARD_MIN_FREE_DISK", "1 GiB"),
            ("BOOKGUARD_PDF_FONTS", "/fonts/a.ttc, b.ttf"),
            ("BOOKGUARD_QUOTA_BOOKINGS", "10"),
            ("BOOKGUARD_QUOTA_BYTES", "2 MiB"),
            ("BOOKGUARD_QUOTA_EVENTS_PER_DAY", "11"),
            ("BOOKGUARD_QUOTA_ENDPOINTS", "12"),
            ("BOOKGUARD_QUOTA_FILE_BYTES", "3 MiB"),
            ("BOOKGUARD_LOG_FORMAT", "json"),
            ("BOOKGUARD_LOG_LEVEL", "warn"),
            ("BOOKGUARD_LOG_REQUESTS", "true"),
            ("BOOKGUARD_SLOW_REQUEST_MILLISECONDS", "13"),
            (
                "BOOKGUARD_SECURITY_CONTACTS",
                "mailto:s@b.example, https://b.example/r",
            ),
            ("BOOKGUARD_SECURITY_POLICY", "https://b.example/p"),
            ("BOOKGUARD_SECURITY_ENCRYPTION", "https://b.example/k"),
            ("BOOKGUARD_SECURITY_LANGUAGES", "en, de"),
        ];
        let settings = of_environment(&vars(&env)).unwrap();
        let expected = Settings {
            db: Some("a.db".into()),
            listen: Some("127.0.0.1:0".to_owned()),
            metrics_listen: Some("127.0.0.1:1".to_owned()),
            public_url: Some("https://b.example".to_owned()),
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
            min_free_disk: Some(Bytes(1 << 30)),
            pdf_fonts: Some(vec!["/fonts/a.ttc".into(), "b.ttf".into()]),
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
        for value in ["bgk_a b", "bgk_\u{e9}", "   "] {
            let failure = api_key(None, &vars(&[("BOOKGUARD_API_KEY", value)])).unwrap_err();
            assert!(
                matches!(&failure, Failure::Usage(why) if !why.contains("bgk_a") && !why.contains('\u{e9}'))
            );
        }
        assert_eq!(
            api_key(None, &vars(&[("BOOKGUARD_API_KEY", " bgk_1\n")]))
                .unwrap()
                .as_deref(),
            Some("bgk_1")
        );
        assert_eq!(api_key(None, &vars(&[])).unwrap(), None);
        assert!(matches!(
            api_key(Some(Path::new("/nowhere/key")), &vars(&[])),
            Err(Failure::Usage(_))
        ));
    }
}
