//! Where commands work: on a database, or on a server.

use std::path::Path;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{Arguments, CommandLine, Ran, Serving, bookguard};
use serde_json::{Value, json};

/// A database or a server, and as whom commands work there.
pub(crate) enum Target<'d> {
    /// On a database, for this partner once there is one.
    Local(&'d TestDatabase, Option<String>),
    /// On a server, with this key once there is one.
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

    /// What a command answers.
    pub(crate) async fn json(&self, args: impl Arguments) -> Value {
        self.run(args).await.json()
    }

    /// What it shows to people, with these words in it.
    pub(crate) async fn table(&self, args: impl Arguments, words: &[&str]) -> String {
        let ran = self.command(args).args("--output table").run().await;
        ran.ended(0, &[]);
        for word in words {
            assert!(ran.stdout.contains(word), "{word:?} in {ran:?}");
        }
        ran.stdout
    }

    /// Refused with this exit code, and this code in the JSON on standard error.
    pub(crate) async fn refused(&self, args: impl Arguments, exit: i32, code: &str) -> Value {
        let ran = self.command(args).args("--output json").run().await;
        ran.refused(exit, &[]);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["code"], code, "{error}");
        error
    }

    /// Registers a partner, and goes on as it.
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

    /// Records a booking under `firm`; its id.
    pub(crate) async fn book(&self) -> String {
        let booking = json!({
            "talent": {"id": "t", "name": "T"}, "organizer": {"id": "o", "name": "O"}, "eventType": "concert",
            "eventDate": "2031-06-20T19:00:00-04:00", "bookingValue": 1250.5, "policyId": "firm"
        });
        let line = self.command("bookings create --json -");
        let made = line.input(booking.to_string()).run().await;
        made.string("bookingId")
    }

    /// The log's public key.
    pub(crate) async fn vkey(&self) -> String {
        let key = self.run("ledger key").await.stdout;
        key.trim().to_owned()
    }
}

/// The same commands on a database, and on a server, for each a partner; each makes so many bookings.
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

/// Verifies a packet offline, kept in a file of this name: how it ends, and what it says.
pub(crate) async fn verify_packet(folder: &Path, name: &str, packet: &str, vkey: &str) -> Ran {
    std::fs::write(folder.join(name), packet).unwrap();
    let verify = bookguard(format!("evidence verify {name} --key {vkey}"));
    verify.in_folder(folder).run().await
}
