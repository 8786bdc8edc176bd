//! What commands work on: a database or a server.

use std::path::Path;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Arguments, CommandLine, Ran, Serving, bookguard};
use serde_json::{Value, json};

/// A database or a server, and the partner or key that commands use there.
pub(crate) enum Target<'d> {
    /// A database, and the partner once one is registered.
    Local(&'d TestDatabase, Option<String>),
    /// A server's address, and the key once there is one.
    Remote(String, Option<String>),
}

impl Target<'_> {
    pub(crate) fn command(&self, args: impl Arguments) -> CommandLine {
        match self {
            Self::Local(database, partner) => {
                let line = database.command(args).arg("--dev");
                match partner {
                    Some(id) => line.arg("--partner").arg(id),
                    None => line,
                }
            }
            Self::Remote(url, key) => {
                let line = bookguard(args).env("BOOKGUARD_URL", url);
                match key {
                    Some(key) => line.env("BOOKGUARD_API_KEY", key),
                    None => line,
                }
            }
        }
    }

    pub(crate) async fn run(&self, args: impl Arguments) -> Ran {
        self.command(args).run().await
    }

    /// Runs a command and returns its JSON.
    pub(crate) async fn json(&self, args: impl Arguments) -> Value {
        self.run(args).await.json()
    }

    /// Runs a command with table output and returns it; it must contain these words.
    pub(crate) async fn table(&self, args: impl Arguments, words: &[&str]) -> String {
        let ran = self.command(args).args("--output table").run().await;
        ran.ended(0, &[]);
        for word in words {
            assert!(ran.stdout.contains(word), "{word:?} in {ran:?}");
        }
        ran.stdout
    }

    /// Asserts that a command fails with this exit code and error code, and returns the error.
    pub(crate) async fn refused(&self, args: impl Arguments, exit: i32, code: &str) -> Value {
        let ran = self.command(args).args("--output json").run().await;
        ran.refused(exit, &[]);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["code"], code, "{error}");
        error
    }

    /// Registers a partner and acts as it from then on.
    pub(crate) async fn register(&mut self) -> Value {
        let registered = self.json(
            "partners register --name Acme --business-type venue --contact-email ops@example.com",
        );
        let registered = registered.await;
        assert_eq!(registered["status"], "active");
        match self {
            Self::Local(_, partner) => *partner = Some(registered.text("partnerId").to_owned()),
            Self::Remote(_, key) => *key = Some(registered.text("apiKey").to_owned()),
        }
        registered
    }

    /// Records a booking under `firm` and returns its id.
    pub(crate) async fn book(&self) -> String {
        let booking = json!({
            "talent": {"id": "t", "name": "T"}, "organizer": {"id": "o", "name": "O"}, "eventType": "concert",
            "eventDate": "2031-06-20T19:00:00-04:00", "bookingValue": 1250.5, "policyId": "firm"
        });
        let line = self.command("bookings create --json -");
        let made = line.input(booking.to_string()).run().await;
        made.string("bookingId")
    }

    /// Returns the log's verifier key.
    pub(crate) async fn vkey(&self) -> String {
        let key = self.run("ledger key").await.stdout;
        key.trim().to_owned()
    }
}

/// Runs the same commands on a database and on a server, with a partner for each; each run makes this many bookings.
pub(crate) async fn on_database_and_server(bookings: usize, body: impl AsyncFn(Target<'_>, &Path)) {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let mut target = Target::Local(&database, None);
        target.register().await;
        body(target, database.folder()).await;
        database.verify(bookings).await;
        let server = Serving::start(&database, &["--dev"]).await;
        let mut target = Target::Remote(server.url().to_owned(), None);
        target.register().await;
        body(target, database.folder()).await;
        server.stop().await;
        database.verify(2 * bookings).await;
    })
    .await;
}

/// Stores a packet in a file of this name, verifies it offline, and returns the outcome.
pub(crate) async fn verify_packet(folder: &Path, name: &str, packet: &str, vkey: &str) -> Ran {
    std::fs::write(folder.join(name), packet).unwrap();
    let verify = bookguard(format!("evidence verify {name} --key {vkey}"));
    verify.in_folder(folder).run().await
}
