//! `doctor`: each fault of an installation is found, alone and with its way out, and nothing is changed.

use std::fs;
use std::path::PathBuf;

use bookguard_tests::engine::{Engine, TestDatabase, on_postgres};
use bookguard_tests::files::{allow, names};
use bookguard_tests::forward_proxy::{ForwardProxy, Way};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use tokio::net::TcpListener;

use Fault::{Damaged, Env, Flags, Gone, Line, Mode, Planted, Sql};

/// A sound installation on a database file, whose server was stopped.
struct Installed {
    database: TestDatabase,
    config: PathBuf,
    backups: PathBuf,
}

impl Installed {
    /// A place for one.
    fn nowhere() -> Self {
        let database = TestDatabase::new(Engine::Sqlite);
        let [config, backups] = ["b.toml", "backups"].map(|name| database.folder().join(name));
        fs::create_dir(&backups).unwrap();
        let it = Self {
            database,
            config,
            backups,
        };
        allow(&it.backups, 0o700);
        it.write("");
        it
    }

    async fn soundly() -> Self {
        let it = Self::nowhere();
        let (server, acme) = Serving::with_partner(&it.database, &[]).await;
        let made = it.database.command("backup --keep 1").arg(&it.backups);
        made.run().await.json();
        acme.protect(&acme.book().await).await;
        server.stop().await;
        it
    }

    /// The same in another place.
    fn copied(&self) -> Self {
        let copy = Self::nowhere();
        for (from, to) in [
            (self.database.folder(), copy.database.folder()),
            (self.backups.as_path(), copy.backups.as_path()),
        ] {
            for name in names(from) {
                // The configuration names the place.
                if from.join(&name).is_file() && name != "b.toml" {
                    fs::copy(from.join(&name), to.join(&name)).unwrap();
                }
            }
        }
        copy
    }

    /// Writes the configuration, with these lines in place of those for the same settings.
    fn write(&self, lines: &str) {
        let sound = [
            format!("db = {:?}", self.database.file()),
            format!("backup_folder = {:?}", self.backups),
            "public_url = \"https://localhost\"".to_owned(),
            "min_free_disk = \"1MiB\"".to_owned(),
        ];
        let name = |line: &str| line.split(" = ").next().map(str::to_owned);
        let changed: Vec<_> = lines.lines().map(name).collect();
        let kept = sound.iter().filter(|line| !changed.contains(&name(line)));
        let text: String = kept.map(|line| format!("{line}\n")).collect();
        let lines = lines.lines().filter(|line| line.contains(" = "));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        fs::write(&self.config, text + &lines).unwrap();
        allow(&self.config, 0o600);
    }

    fn beside(&self, end: &str) -> PathBuf {
        self.database.file().with_extension(end)
    }

    fn backup(&self) -> PathBuf {
        let name = names(&self.backups).pop_first().unwrap();
        self.backups.join(name)
    }

    fn doctor(&self) -> CommandLine {
        bookguard("doctor --config").arg(&self.config)
    }
}

/// The checks that did not end well, each with its state.
fn faults(ran: &Ran) -> Vec<(String, String)> {
    let said = ran.printed();
    let mut faults = Vec::new();
    for one in said.list("checks") {
        let state = one.text("state");
        assert_eq!(
            one["fix"].is_null(),
            ["ok", "skipped"].contains(&state),
            "{one}"
        );
        if !one["fix"].is_null() {
            faults.push((one.text("check").to_owned(), state.to_owned()));
        }
    }
    let problems = faults.iter().any(|(_, state)| state == "problem");
    assert_eq!(ran.code, Some(i32::from(problems)), "{ran:?}");
    faults
}

#[tokio::test]
async fn a_sound_installation_has_no_faults_and_is_left_as_it_is() {
    let installed = Installed::soundly().await;
    let folder = installed.database.folder();
    let state = || (names(folder), fs::read(installed.database.file()).unwrap());
    let before = state();
    let ran = installed.doctor().run().await;
    assert_eq!(faults(&ran), []);
    assert!(state() == before, "{:?}", state().0);
    let table = installed.doctor().args("--output table").run().await;
    table.said(&[
        "ok       database",
        "skipped  server",
        "backup_folder",
        "default",
    ]);
    // Beside a server, and with somebody to deliver to.
    let server = Serving::start(&installed.database, &[]).await;
    let listen = server.address().to_owned();
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ran = installed.doctor().arg("--egress");
    let ran = ran.arg(receiver.local_addr().unwrap().to_string());
    let ran = ran.env("BOOKGUARD_LISTEN", listen.as_str()).run().await;
    assert_eq!(faults(&ran), []);
    let said = ran.json();
    let checks = said.list("checks").iter();
    let skipped = checks.filter(|one| one["state"] != "ok");
    let skipped: Vec<_> = skipped.map(|one| one.text("check")).collect();
    // Nobody has to have the ledger stamped.
    assert_eq!(skipped, ["timestamps"]);
    let of = |name: &str| {
        let found = said.list("settings").iter().find(|one| one["name"] == name);
        let found = found.unwrap();
        (
            found.text("value").to_owned(),
            found.text("from").to_owned(),
        )
    };
    assert_eq!(of("listen"), (listen, "environment".to_owned()));
    assert_eq!(of("min_free_disk"), ("1MiB".to_owned(), "file".to_owned()));
    assert_eq!(
        of("retention_days"),
        ("90".to_owned(), "default".to_owned())
    );
    server.stop().await;
    // Webhooks go through the proxy if one is set.
    let proxy = ForwardProxy::start().await;
    let through = async |receiver: &TcpListener| {
        let line = installed.doctor().arg("--egress");
        let line = line.arg(receiver.local_addr().unwrap().to_string());
        let line = line.env("BOOKGUARD_WEBHOOK_PROXY", proxy.url("u:hunter2@"));
        line.run().await
    };
    assert_eq!(faults(&through(&receiver).await), []);
    let (asked, _) = proxy.asked().remove(0);
    let address = receiver.local_addr().unwrap();
    assert_eq!(asked, format!("CONNECT {address} HTTP/1.1"));
    proxy.way(Way::Says("HTTP/1.1 403 Forbidden\r\n\r\n"));
    let ran = through(&receiver).await;
    let expected = ("webhooks".to_owned(), "problem".to_owned());
    assert_eq!(faults(&ran), [expected]);
    assert!(
        ran.stdout.contains("(403)") && !ran.stdout.contains("hunter2"),
        "{ran:?}"
    );
}

/// A fault of an installation, or of a command.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// This line in the configuration; a name alone takes its line away.
    Line(&'static str),
    /// This file is gone.
    Gone(&'static str),
    /// This file holds something else.
    Damaged(&'static str),
    /// Others may do this with a file.
    Mode(&'static str, u32),
    /// This was done to the database.
    Sql(&'static str),
    /// The command has these flags.
    Flags(&'static str),
    /// The command has this variable.
    Env(&'static str, &'static str),
    /// Anything else, by its name.
    Planted(&'static str, fn(&Installed)),
}

impl Fault {
    /// Plants it, and returns the command that must find it.
    fn plant(self, it: &Installed) -> CommandLine {
        let at = |name: &str| it.database.folder().join(name);
        match self {
            Line(line) => it.write(line),
            Gone(file) => fs::remove_file(at(file)).unwrap(),
            Damaged(file) => fs::write(at(file), "x").unwrap(),
            Mode(file, mode) => allow(&at(file), mode),
            Sql(sql) => it.database.tamper(sql),
            Flags(flags) => return it.doctor().args(flags),
            Env(name, value) => return it.doctor().env(name, value),
            Planted(name, plant) => {
                println!("{name}:");
                plant(it);
            }
        }
        it.doctor()
    }
}

/// A check and its state, and the faults that end so.
type Found = (&'static str, &'static str, &'static [Fault]);

const FAULTS: [Found; 15] = [
    (
        "configuration",
        "problem",
        &[Line("listen = 5"), Gone("b.toml"), Mode("b.toml", 0o622)],
    ),
    (
        "configuration",
        "warning",
        &[
            Planted("others may read a password", |it| {
                it.write("webhook_proxy = \"http://u:hunter2@localhost:3128\"");
                allow(&it.config, 0o644);
            }),
            // Misspelt.
            Env("BOOKGUARD_TRUSTED_PROXY", "10.0.0.1"),
        ],
    ),
    (
        "database",
        "problem",
        &[
            Flags("--db /nowhere/b.db"),
            Env("BOOKGUARD_DB", "postgres://u:hunter2@127.0.0.1:1/b"),
            Planted("another program's file", |it| {
                fs::write(it.database.file(), "text".repeat(999)).unwrap();
            }),
            Sql("INSERT INTO schema_version (version) VALUES (1000000)"),
            Sql("UPDATE head SET moved_to = 'x'"),
        ],
    ),
    (
        "permissions",
        "warning",
        &[
            Mode("bookguard.db", 0o644),
            Planted("others may replace the file by a link", |it| {
                let disk = it.database.folder().join("disk");
                fs::create_dir(&disk).unwrap();
                allow(&disk, 0o777);
                fs::rename(it.database.file(), disk.join("b.db")).unwrap();
                std::os::unix::fs::symlink("disk/b.db", it.database.file()).unwrap();
            }),
        ],
    ),
    (
        "ledger_key",
        "problem",
        &[
            Gone("bookguard.db.key"),
            Damaged("bookguard.db.key"),
            Mode("bookguard.db.key", 0o640),
        ],
    ),
    ("guard", "warning", &[Gone("bookguard.db.key.seen")]),
    (
        "guard",
        "problem",
        &[
            Damaged("bookguard.db.key.seen"),
            Planted("entries were lost", |it| {
                fs::copy(it.backup(), it.database.file()).unwrap();
            }),
        ],
    ),
    (
        "clock",
        "problem",
        // It was ahead.
        &[Sql("UPDATE head SET written_ms = written_ms + 3600000")],
    ),
    ("disk", "problem", &[Line("min_free_disk = \"1000TiB\"")]),
    (
        "backups",
        "warning",
        &[Line("backup_folder"), Mode("backups", 0o755)],
    ),
    (
        "backups",
        "problem",
        &[
            Line("backup_folder = \"/nowhere\""),
            Planted("no backup", |it| fs::remove_file(it.backup()).unwrap()),
            Planted("an old backup", |it| {
                let old = it.backups.join("bookguard-20200101T000000.000Z.db");
                fs::rename(it.backup(), old).unwrap();
            }),
        ],
    ),
    (
        "timestamps",
        "warning",
        // Nobody stamps the ledger any more.
        &[Sql(
            "INSERT INTO stamp (idx, size, time_ms, checkpoint, response) VALUES (0, 1, 1577836800000, '', x'')",
        )],
    ),
    (
        "public_url",
        "warning",
        &[
            Line("public_url"),
            Line("public_url = \"http://localhost\""),
        ],
    ),
    (
        "public_url",
        "problem",
        &[Line("public_url = \"https://nowhere.invalid\"")],
    ),
    (
        "webhooks",
        "problem",
        &[
            Flags("--egress 127.0.0.1:1"),
            Flags("--egress nowhere.invalid:443"),
        ],
    ),
];

#[tokio::test]
async fn each_fault_is_found_alone() {
    let sound = Installed::soundly().await;
    for (check, state, planted) in FAULTS {
        for fault in planted {
            let installed = sound.copied();
            let ran = fault.plant(&installed).run().await;
            let expected = (check.to_owned(), state.to_owned());
            assert_eq!(faults(&ran), [expected], "{fault:?}: {ran:?}");
            let told = [&ran.stdout, &ran.stderr];
            let shows = told.iter().any(|told| told.contains("hunter2"));
            assert!(!shows, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn each_way_not_to_read_a_database_has_its_own_way_out() {
    let sound = Installed::soundly().await;
    let ways: [fn(&Installed); 3] = [
        |it| {
            it.database
                .tamper("INSERT INTO schema_version (version) VALUES (99)")
        },
        |it| fs::write(it.database.file(), "a shopping list".repeat(300)).unwrap(),
        |it| fs::remove_file(it.database.file()).unwrap(),
    ];
    let fixes = [
        "Install the newer bookguard",
        "restore a backup: `bookguard restore`",
        "Check the address (db)",
    ];
    for (spoil, fix) in ways.into_iter().zip(fixes) {
        let installed = sound.copied();
        spoil(&installed);
        let ran = installed.doctor().run().await;
        let told = ran.printed();
        let database = told
            .list("checks")
            .iter()
            .find(|it| it["check"] == "database");
        let told = database.unwrap().text("fix");
        assert!(told.contains(fix), "{fix}: {ran:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_found() {
    let installed = Installed::soundly().await;
    let lock = fs::File::open(installed.beside("db.lock")).unwrap();
    lock.lock().unwrap();
    let line = installed.doctor().env("BOOKGUARD_LISTEN", "127.0.0.1:1");
    let ran = line.run().await;
    assert_eq!(faults(&ran), [("server".to_owned(), "problem".to_owned())]);
    assert!(
        ran.stderr.contains("problems_found") && ran.stderr.contains("run `doctor` again"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_database_on_postgresql_is_looked_at_too() {
    on_postgres(async |engine| {
        let database = TestDatabase::new(engine);
        let doctor = || {
            database
                .command("doctor")
                .env("BOOKGUARD_PUBLIC_URL", "https://localhost")
        };
        let listen = |line: CommandLine| line.env("BOOKGUARD_LISTEN", "127.0.0.1:1");
        let empty = listen(doctor()).run().await;
        assert_eq!(
            faults(&empty),
            [("database".to_owned(), "problem".to_owned())]
        );
        assert_eq!(database.tables(), [""; 0], "nothing was created");
        Serving::start(&database, &[]).await.stop().await;
        let ran = listen(doctor()).run().await;
        assert_eq!(faults(&ran), [], "{ran:?}");
        // A server whose clock is a minute behind.
        database.tamper(
            "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
             'SELECT pg_catalog.clock_timestamp() - interval ''1 minute'''; \
             DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$",
        );
        let ran = listen(doctor()).run().await;
        assert_eq!(faults(&ran), [("clock".to_owned(), "problem".to_owned())]);
        let ran = bookguard("doctor --url http://127.0.0.1:9").run().await;
        ran.refused(2, &["--db"]);
    })
    .await;
}
