//! `doctor`: each fault of an installation is found, alone and with its way out, and nothing is changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bookguard_tests::engine::{Engine, TestDatabase, on_postgres};
use bookguard_tests::forward_proxy::{ForwardProxy, Way};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use serde_json::Value;
use tokio::net::TcpListener;

use super::backup_folder::names;

/// A sound installation on a database file, whose server was stopped.
struct Installed {
    database: TestDatabase,
    config: PathBuf,
    backups: PathBuf,
}

impl Installed {
    async fn soundly() -> Self {
        let database = TestDatabase::new(Engine::Sqlite);
        let (config, backups) = (
            database.folder().join("b.toml"),
            database.folder().join("backups"),
        );
        fs::create_dir(&backups).unwrap();
        let it = Self {
            database,
            config,
            backups,
        };
        it.chmod(&it.backups, 0o700);
        it.write("");
        let server = Serving::start(&it.database, &[]).await;
        let acme = server.partner("Acme").await;
        let made = it.database.command("backup --keep 1").arg(&it.backups);
        made.run().await.json();
        acme.protect(&acme.book().await).await;
        server.stop().await;
        it
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
        self.chmod(&self.config, 0o600);
    }

    fn chmod(&self, file: &Path, mode: u32) {
        fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
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
    let said: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
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
    let listen = server.url().strip_prefix("http://").unwrap().to_owned();
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

/// A name, how the fault is planted and the command changed, and the check and its state.
type Fault = (
    &'static str,
    fn(&Installed, CommandLine) -> CommandLine,
    &'static str,
    &'static str,
);

const FAULTS: [Fault; 31] = [
    (
        "an invalid setting",
        |it, line| {
            it.write("listen = 5");
            line
        },
        "configuration",
        "problem",
    ),
    (
        "a missing file",
        |it, line| {
            fs::remove_file(&it.config).unwrap();
            line
        },
        "configuration",
        "problem",
    ),
    (
        "others may write the file",
        |it, line| {
            it.chmod(&it.config, 0o622);
            line
        },
        "configuration",
        "problem",
    ),
    (
        "others may read a password",
        |it, line| {
            it.write("webhook_proxy = \"http://u:hunter2@localhost:3128\"");
            it.chmod(&it.config, 0o644);
            line
        },
        "configuration",
        "warning",
    ),
    (
        "a misspelt variable",
        |_, line| line.env("BOOKGUARD_TRUSTED_PROXY", "10.0.0.1"),
        "configuration",
        "warning",
    ),
    (
        "no database",
        |_, line| line.args("--db /nowhere/b.db"),
        "database",
        "problem",
    ),
    (
        "an unreachable server",
        |_, line| line.env("BOOKGUARD_DB", "postgres://u:hunter2@127.0.0.1:1/b"),
        "database",
        "problem",
    ),
    (
        "another program's file",
        |it, line| {
            fs::write(it.database.file(), "text".repeat(999)).unwrap();
            line
        },
        "database",
        "problem",
    ),
    (
        "a newer schema",
        |it, line| {
            it.database
                .tamper("INSERT INTO schema_version (version) VALUES (1000000)");
            line
        },
        "database",
        "problem",
    ),
    (
        "a moved ledger",
        |it, line| {
            it.database.tamper("UPDATE head SET moved_to = 'x'");
            line
        },
        "database",
        "problem",
    ),
    (
        "others may read the database",
        |it, line| {
            it.chmod(it.database.file(), 0o644);
            line
        },
        "permissions",
        "warning",
    ),
    (
        "others may replace the file that is the database by a link",
        |it, line| {
            let disk = it.database.folder().join("disk");
            fs::create_dir(&disk).unwrap();
            it.chmod(&disk, 0o777);
            fs::rename(it.database.file(), disk.join("b.db")).unwrap();
            std::os::unix::fs::symlink("disk/b.db", it.database.file()).unwrap();
            line
        },
        "permissions",
        "warning",
    ),
    (
        "no key",
        |it, line| {
            fs::remove_file(it.beside("db.key")).unwrap();
            line
        },
        "ledger_key",
        "problem",
    ),
    (
        "a damaged key",
        |it, line| {
            fs::write(it.beside("db.key"), "x").unwrap();
            line
        },
        "ledger_key",
        "problem",
    ),
    (
        "others may read the key",
        |it, line| {
            it.chmod(&it.beside("db.key"), 0o640);
            line
        },
        "ledger_key",
        "problem",
    ),
    (
        "no guard",
        |it, line| {
            fs::remove_file(it.beside("db.key.seen")).unwrap();
            line
        },
        "guard",
        "warning",
    ),
    (
        "a damaged guard",
        |it, line| {
            fs::write(it.beside("db.key.seen"), "x").unwrap();
            line
        },
        "guard",
        "problem",
    ),
    (
        "entries were lost",
        |it, line| {
            fs::copy(it.backup(), it.database.file()).unwrap();
            line
        },
        "guard",
        "problem",
    ),
    (
        "a clock that was ahead",
        |it, line| {
            it.database
                .tamper("UPDATE head SET written_ms = written_ms + 3600000");
            line
        },
        "clock",
        "problem",
    ),
    (
        "a full disk",
        |it, line| {
            it.write("min_free_disk = \"1000TiB\"");
            line
        },
        "disk",
        "problem",
    ),
    (
        "no folder of backups is named",
        |it, line| {
            it.write("backup_folder");
            line
        },
        "backups",
        "warning",
    ),
    (
        "no folder of backups",
        |it, line| {
            it.write("backup_folder = \"/nowhere\"");
            line
        },
        "backups",
        "problem",
    ),
    (
        "no backup",
        |it, line| {
            fs::remove_file(it.backup()).unwrap();
            line
        },
        "backups",
        "problem",
    ),
    (
        "an old backup",
        |it, line| {
            fs::rename(
                it.backup(),
                it.backups.join("bookguard-20200101T000000.000Z.db"),
            )
            .unwrap();
            line
        },
        "backups",
        "problem",
    ),
    (
        "others may look at backups",
        |it, line| {
            it.chmod(&it.backups, 0o755);
            line
        },
        "backups",
        "warning",
    ),
    (
        "nobody stamps the ledger any more",
        |it, line| {
            it.database.tamper(
                "INSERT INTO stamp (idx, size, time_ms, checkpoint, response) VALUES (0, 1, 1577836800000, '', x'')",
            );
            line
        },
        "timestamps",
        "warning",
    ),
    (
        "no public address",
        |it, line| {
            it.write("public_url");
            line
        },
        "public_url",
        "warning",
    ),
    (
        "a public address in clear",
        |it, line| {
            it.write("public_url = \"http://localhost\"");
            line
        },
        "public_url",
        "warning",
    ),
    (
        "a public address of nobody",
        |it, line| {
            it.write("public_url = \"https://nowhere.invalid\"");
            line
        },
        "public_url",
        "problem",
    ),
    (
        "a wall around the server",
        |_, line| line.args("--egress 127.0.0.1:1"),
        "webhooks",
        "problem",
    ),
    (
        "a receiver of no address",
        |_, line| line.args("--egress nowhere.invalid:443"),
        "webhooks",
        "problem",
    ),
];

#[tokio::test]
async fn each_fault_is_found_alone() {
    for (name, plant, check, state) in FAULTS {
        let installed = Installed::soundly().await;
        let line = plant(&installed, installed.doctor());
        let ran = line.run().await;
        let expected = (check.to_owned(), state.to_owned());
        assert_eq!(faults(&ran), [expected], "{name}: {ran:?}");
        assert!(
            !ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"),
            "{name}"
        );
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
