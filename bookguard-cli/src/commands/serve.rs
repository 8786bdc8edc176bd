//! `bookguard serve`: runs the server with the command line's settings, until it is stopped.

mod sample;

use bookguard_server::config::Config;
use bookguard_server::courier::address::AddressRules;
use bookguard_server::{Server, logging, told_to_end};
use clap::Args;
use tempfile::TempDir;

use super::declare::{Call, CliCommand, alone};
use super::demo;
use crate::args::SettingFlags;
use crate::failure::Failure;
use crate::output;
use crate::settings::{self, environment};
use sample::Sample;

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Begin with sample data to look at: platforms with two months of bookings, in a new database (a temporary one without
    /// --db)
    #[arg(long)]
    demo: bool,
}

pub(super) fn command() -> CliCommand {
    let serve = alone("serve", "Run the server", run);
    serve.with::<ServeArgs>()
}

/// Serves until SIGTERM or SIGINT, then shuts down gracefully; each further signal ends a wait. SIGHUP reloads the
/// configuration.
///
/// # Errors
/// [`Failure::Usage`] for an invalid setting, [`Failure::Unreachable`] if the database server stays unreachable,
/// [`Failure::Unexpected`] with a sentence for the operator otherwise.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (place, flags) = (call.place, call.args::<ServeArgs>()?);
    let named = [&place.url, &place.partner, &place.profile];
    let keys = [&place.api_key_file, &place.operator_key_file];
    if named.into_iter().any(Option::is_some) || keys.into_iter().any(Option::is_some) {
        return Err(Failure::Usage(
            "serve is a server itself: --url, --profile, --partner, --api-key-file and --operator-key-file are for commands that call one".to_owned(),
        ));
    }
    // Signals are handled before anything is read or opened: none finds a half-open server, and SIGHUP does not end one that starts.
    let mut signals = bookguard_server::signals().map_err(Failure::Unexpected)?;
    let typed = || settings::config(place, Some(&flags.settings), &environment);
    let demo = match flags.demo {
        true => Some(Demo::new(&typed()?)?),
        false => None,
    };
    let config = || -> Result<Config, Failure> {
        Ok(match &demo {
            Some(demo) => demo.adjusted(typed()?),
            None => typed()?,
        })
    };
    // Files that settings name are settings too: a server that cannot read them must not be started again and again, nor say that it
    // took them over.
    let checked = || -> Result<Config, Failure> {
        let config = config()?;
        config.maker().map_err(Failure::Usage)?;
        Ok(config)
    };
    checked()?;
    let sample = match &demo {
        Some(_) => {
            let config = config()?;
            // The server that makes the data logs as this one does.
            let _flush = logging::begin(config.log_format, config.log_level);
            let filled = tokio::select! {
                filled = sample::fill(&config) => filled?,
                // The server reads its configuration only after this, so a reload changes nothing here.
                () = told_to_end(&mut signals, || {}) => return Ok(()),
            };
            Some(filled)
        }
        None => None,
    };
    let reload = || checked().map_err(|failure| failure.reason());
    bookguard_server::run(config()?, signals, reload, |server| {
        // If standard output is closed, the server runs all the same.
        let _ = output::print(&format!("listening on {}", server.url()));
        if let Some(operator) = server.operator_url() {
            let _ = output::print(&format!("operator interface at {operator}"));
        }
        if let Some(metrics) = server.metrics_url() {
            let _ = output::print(&format!("metrics at {metrics}"));
        }
        if let (Some(demo), Some(sample)) = (&demo, &sample) {
            let _ = output::print(&demo.in_words(sample, server));
        }
    })
    .await?;
    Ok(())
}

/// How `serve --demo` differs from `serve`.
struct Demo {
    /// The folder of a temporary database, which is removed at the end.
    scratch: Option<TempDir>,
    listen: String,
    /// For the operator's console, if consoles are served.
    operator_listen: Option<String>,
}

impl Demo {
    /// # Errors
    /// [`Failure::Usage`] for a database that exists.
    fn new(config: &Config) -> Result<Self, Failure> {
        // A database can be named explicitly and still equal the default.
        let mut settings = config.in_force.iter();
        let is_named =
            settings.any(|it| matches!(&*it.name, "db" | "db_file") && it.from != "default");
        if is_named && config.db.file().is_none_or(|file| file.exists()) {
            return Err(Failure::Usage(format!(
                "{} exists; --demo makes a new database file: name another one, or none for a temporary one",
                config.db
            )));
        }
        let listen = known_port(&config.listen)?;
        let operators = config.operator_listen.clone();
        let operators = operators.or_else(|| config.console.then(|| "127.0.0.1:0".to_owned()));
        let scratch = match is_named {
            true => None,
            false => Some(demo::scratch("bookguard-demo-")?),
        };
        Ok(Self {
            scratch,
            listen,
            operator_listen: operators.as_deref().map(known_port).transpose()?,
        })
    }

    fn adjusted(&self, config: Config) -> Config {
        let scratch = self.scratch.as_ref();
        let mut config = Config {
            db: scratch.map_or_else(
                || config.db.clone(),
                |folder| folder.path().join("bookguard.db").into(),
            ),
            listen: self.listen.clone(),
            operator_listen: self.operator_listen.clone(),
            // A made-up ledger has a key of its own, and leaves alone what guards a real one.
            ledger_key: None,
            guard_file: None,
            // Its receiver is on this machine.
            webhooks: AddressRules::dev(),
            verifies_endpoints: false,
            ..config
        };
        let database = config.db.to_string();
        for (name, value) in [
            ("db", Some(&*database)),
            ("listen", Some(&*self.listen)),
            ("operator_listen", self.operator_listen.as_deref()),
            ("ledger_key", None),
            ("guard_file", None),
            ("dev", Some("true")),
            ("webhook_allow_http", Some("true")),
            ("webhook_allow_subnets", Some("127.0.0.0/8,::1/128")),
            ("webhook_verification", Some("off")),
        ] {
            config.note(name, value, "demo");
        }
        config
    }

    fn in_words(&self, sample: &Sample, server: &Server) -> String {
        let place = match self.scratch {
            Some(_) => "a temporary database that is removed when the server ends",
            None => "the new database",
        };
        let partners: String = sample
            .partners
            .iter()
            .map(|partner| {
                let key = partner.api_key.as_deref().unwrap_or("waits for approval");
                format!("\n  {:<16} {}  {key}", partner.name, partner.id)
            })
            .collect();
        let (url, program) = (server.url(), demo::program());
        let mut made = sample.partners.iter();
        let key = made.find_map(|partner| partner.api_key.as_deref());
        let console = sample.console.as_ref().map_or_else(String::new, |link| {
            format!(
                "In a browser, as somebody of {}: this link signs in once, within ten minutes.\n\n  {link}\n\n",
                sample.partners[0].name
            )
        });
        let operators = sample.operators.as_ref().map_or_else(String::new, |link| {
            format!("As the operator of the service, likewise:\n\n  {link}\n\n")
        });
        format!(
            "\n{} bookings of two months are in {place}.\n{partners}\n\n{console}{operators}\
             On the command line:\n\n  \
             export BOOKGUARD_URL={url} BOOKGUARD_API_KEY={}\n  \
             {program} bookings list\n  \
             {program} webhook-endpoints list\n  \
             {program} bookings list --status canceled --curl\n\n\
             Evidence as somebody without an account sees it, and the interface:\n\n  \
             {}\n  \
             {url}/docs\n",
            sample.bookings,
            key.unwrap_or_default(),
            sample.evidence,
        )
    }
}

/// The same address to listen on, with a port that is free now if it names none: links and webhooks name the server's address, so
/// its port must be known before it listens.
///
/// # Errors
/// [`Failure::Unexpected`] if it cannot be listened on.
fn known_port(listen: &str) -> Result<String, Failure> {
    if !listen.ends_with(":0") {
        return Ok(listen.to_owned());
    }
    let bound = std::net::TcpListener::bind(listen).and_then(|listener| listener.local_addr());
    let bound = bound.map_err(|e| Failure::Unexpected(format!("{listen}: {e}")))?;
    Ok(bound.to_string())
}

#[cfg(test)]
mod tests {
    use bookguard_core::key_file::LedgerKeySource;
    use bookguard_server::config::Settings;
    use bookguard_server::config::settings::Faults;

    use super::*;

    #[test]
    fn a_demo_makes_the_database_that_is_named_even_as_by_default() {
        for (db, is_scratch) in [(None, true), (Some("bookguard.db".into()), false)] {
            let typed = Settings {
                db,
                ..Settings::default()
            };
            let config = Config::load(None, typed, Settings::default(), Faults::default()).unwrap();
            let demo = Demo::new(&config).unwrap();
            assert_eq!(demo.scratch.is_some(), is_scratch);
        }
    }

    #[test]
    fn a_demo_shows_what_it_chose() {
        let typed = Settings {
            webhook_allow_http: Some(false),
            ledger_key: Some(LedgerKeySource::File("real.key".into())),
            rate_limit_per_second: Some(7),
            ..Settings::default()
        };
        let config = Config::load(None, typed, Settings::default(), Faults::default()).unwrap();
        let demo = Demo::new(&config).unwrap();
        let adjusted = demo.adjusted(config);
        let of = |name: &str| {
            let found = adjusted.in_force.iter().find(|it| it.name == name).unwrap();
            (found.value.as_str(), found.from.as_str())
        };
        let database = adjusted.db.to_string();
        assert_eq!(of("db"), (database.as_str(), "demo"));
        assert_eq!(of("operator_listen").1, "demo");
        assert_eq!(of("dev"), ("true", "demo"));
        assert_eq!(of("webhook_allow_http"), ("true", "demo"));
        assert_eq!(of("webhook_verification"), ("off", "demo"));
        assert!(of("ledger_key").0.contains("beside the database file"));
        assert_eq!(of("ledger_key").1, "demo");
        assert_eq!(of("listen"), ("127.0.0.1:8080", "default"));
        assert_eq!(of("guard_file").1, "default");
        assert_eq!(of("rate_limit_per_second"), ("7", "flag"));
    }
}
