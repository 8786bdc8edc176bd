//! Cancellations in commands: looked at, guarded, made, decided; on a database and on a server.

use std::path::Path;
use std::sync::Arc;

use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use serde_json::{Value, json};

/// Where commands work: a database, or a server and a key.
pub(crate) enum Target<'a> {
    Local(&'a TestDatabase, String),
    Remote(String, String),
}

impl Target<'_> {
    pub(crate) fn command(&self, args: &[&str]) -> CommandLine {
        match self {
            Self::Local(database, partner) => {
                let line = database.command(args.iter().copied());
                line.arg("--partner").arg(partner)
            }
            Self::Remote(url, key) => bookguard(args.iter().copied())
                .env("BOOKGUARD_URL", url)
                .env("BOOKGUARD_API_KEY", key),
        }
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        self.command(args).run().await
    }

    /// Refused with this exit code and this code on standard error, which is JSON.
    pub(crate) async fn refused(&self, args: &[&str], exit: i32, code: &str) -> Value {
        let ran = self.command(args).arg("--output").arg("json").run().await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(exit), ""), "{ran:?}");
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["code"], code, "{error}");
        error
    }

    pub(crate) async fn book(&self) -> String {
        let booking = json!({
            "talent": {"id": "t", "name": "T"}, "organizer": {"id": "o", "name": "O"}, "eventType": "concert",
            "eventDate": "2031-06-20T19:00:00-04:00", "bookingValue": 1250.5, "policyId": "firm"
        });
        let line = self.command(&["bookings", "create", "--json", "-"]);
        line.input(booking.to_string())
            .run()
            .await
            .string("bookingId")
    }
}

async fn tell(target: &Target<'_>, folder: &Path) {
    let id = target.book().await;
    let evaluate = [
        "bookings",
        "evaluate",
        &id,
        "--as-of",
        "2031-06-01T00:00:00Z",
    ];
    looked_at(target, &evaluate).await;

    let cancel = ["bookings", "cancel", &id, "--canceled-by", "organizer"];
    let with = |more: &[&'static str]| -> Vec<String> {
        let all = cancel.iter().chain(more);
        all.map(|arg| (*arg).to_owned()).collect()
    };
    let run = async |more: &[&'static str]| {
        let args = with(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        target.run(&args).await
    };
    let preview = run(&["--dry-run"]).await.json();
    assert_eq!(preview["evaluationStatus"], "provisional");
    // Where nobody can be asked, silence is no, and what would happen is said.
    let unasked = run(&[]).await;
    assert_eq!(unasked.code, Some(2), "{unasked:?}");
    for words in ["full_refund", "1,250.50", "for good", "--yes"] {
        assert!(unasked.stderr.contains(words), "{words}: {unasked:?}");
    }
    let both = run(&["--dry-run", "--yes"]).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    let args = with(&["--yes", "--expect-refund", "1"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let error = target.refused(&args, 5, "quote_changed").await;
    assert_eq!(error["evaluation"]["refund"]["minorUnits"], 125_050);
    let shown = target.run(&["bookings", "get", &id]).await.json();
    assert_eq!(shown["status"], "created");

    let mail = folder.join("mail.eml");
    std::fs::write(&mail, "abc").unwrap();
    let mail = format!("notice={}", mail.display());
    let mut args = args[..5].to_vec();
    args.extend([
        "--reason",
        "illness",
        "--note",
        "fever",
        "--evidence",
        &mail,
    ]);
    args.extend(["--expect-refund", "125050", "--yes"]);
    let resolution = target.run(&args).await.json();
    assert_eq!(resolution["status"], "final");
    let resolution_id = resolution["resolutionId"].as_str().unwrap();
    let got = target.run(&["resolutions", "get", resolution_id]).await;
    assert_eq!(got.json(), resolution);
    let table = target.command(&["resolutions", "get", resolution_id, "--output", "table"]);
    let table = table.run().await.stdout;
    for words in [
        resolution_id,
        "full_refund",
        "USD 1,250.50",
        "record_only",
        "illness",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let other = [
        "bookings",
        "cancel",
        &id,
        "--canceled-by",
        "talent",
        "--yes",
    ];
    let error = target.refused(&other, 5, "booking_already_canceled").await;
    assert_eq!(error["resolutionId"], resolution_id);
    // Nothing is asked about what has happened already.
    target
        .refused(&other[..5], 5, "booking_already_canceled")
        .await;
    let evaluated = target.run(&evaluate).await.json();
    assert_eq!(evaluated, resolution["evaluation"]);
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    verified(target, &id, digest, folder).await;
    decided(target).await;
    let nobody = "res_00000000000000000000000000000000";
    target
        .refused(&["resolutions", "get", nobody], 3, "not_found")
        .await;
}

/// The schedule with the step at the instant marked, and every actor.
async fn looked_at(target: &Target<'_>, evaluate: &[&str]) {
    let line = target.command(evaluate).arg("--matrix");
    let table = line.clone().arg("--output").arg("table").run().await.stdout;
    let marked: Vec<&str> = table.lines().filter(|line| line.contains("->")).collect();
    assert_eq!(marked.len(), 1, "{table}");
    assert!(
        marked[0].contains("organizer.tiers[1]") && marked[0].contains("USD 625.25"),
        "{table}"
    );
    for words in [
        "Whoever cancels:",
        "mutual_agreement",
        "talent.cancel",
        "open",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let answer = line.run().await.json();
    assert_eq!(answer["matrix"].as_array().unwrap().len(), 4);
    let mutual = ["--canceled-by", "mutual", "--agreed-refund", "10.50"];
    let agreed = mutual
        .iter()
        .fold(target.command(evaluate), |line, arg| line.arg(*arg));
    assert_eq!(agreed.run().await.json()["refund"]["minorUnits"], 1_050);
}

/// What was left to a person is decided once.
async fn decided(target: &Target<'_>) {
    let id = target.book().await;
    let cancel = [
        "bookings",
        "cancel",
        &id,
        "--canceled-by",
        "talent",
        "--reason",
        "force_majeure",
        "--yes",
    ];
    let table = target
        .command(&cancel)
        .arg("--output")
        .arg("table")
        .run()
        .await
        .stdout;
    for words in [
        "pending_review",
        "to be decided",
        "A person decides between:",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let pending = target
        .run(&["bookings", "get", &id])
        .await
        .string("resolutionId");
    // Nor is anything asked about what only waits for its decision.
    let other = ["bookings", "cancel", &id, "--canceled-by", "talent"];
    let error = target.refused(&other, 5, "booking_already_canceled").await;
    assert_eq!(error["resolutionId"], pending);
    let decide = |refund: &'static str| {
        let args = [
            "resolutions",
            "decide",
            &pending,
            "--refund",
            refund,
            "--decided-by",
            "ops",
            "--rationale",
            "why",
        ];
        args.map(str::to_owned)
    };
    let made = decide("1000.25");
    let args: Vec<&str> = made.iter().map(String::as_str).collect();
    let resolution = target.run(&args).await.json();
    assert_eq!(
        (&resolution["status"], &resolution["supersedes"]),
        (&json!("decided"), &json!(pending))
    );
    for (refund, exit, code) in [("1", 5, "resolution_already_decided"), ("much", 2, "usage")] {
        let args = decide(refund);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        target.refused(&args, exit, code).await;
    }
}

/// The packet recomputes; one whose amounts were edited does not.
async fn verified(target: &Target<'_>, id: &str, digest: &str, folder: &Path) {
    let key = target.run(&["ledger", "key"]).await.stdout;
    let packet = target.run(&["evidence", "get", id]).await.stdout;
    assert!(
        packet.contains(digest),
        "the evidence's digest is in the packet"
    );
    for (name, packet, exit) in [
        ("packet.json", packet.clone(), 0),
        (
            "edited.json",
            packet.replace("\"minorUnits\":125050", "\"minorUnits\":125051"),
            6,
        ),
    ] {
        std::fs::write(folder.join(name), packet).unwrap();
        let verify = bookguard(["evidence", "verify", name, "--key", key.trim()]);
        let ran = verify.in_folder(folder).run().await;
        assert_eq!(ran.code, Some(exit), "{ran:?}");
    }
}

pub(crate) async fn register(database: &TestDatabase) -> Value {
    let register = database.command([
        "partners",
        "register",
        "--name",
        "Acme",
        "--business-type",
        "venue",
        "--contact-email",
        "ops@example.com",
    ]);
    register.run().await.json()
}

#[tokio::test]
async fn on_a_database() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let partner = register(&database).await["partnerId"]
            .as_str()
            .unwrap()
            .to_owned();
        tell(&Target::Local(&database, partner), database.folder()).await;
        database.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn on_a_server() {
    on_every_engine(async |engine| {
        let database = Arc::new(TestDatabase::new(engine));
        let key = register(&database).await["apiKey"]
            .as_str()
            .unwrap()
            .to_owned();
        let server = Serving::start(&database, &["--dev"]).await;
        tell(
            &Target::Remote(server.url().to_owned(), key),
            database.folder(),
        )
        .await;
        let (code, said) = server.terminate().await;
        assert_eq!(code, Some(0), "{said}");
        database.verify(2).await;
    })
    .await;
}
