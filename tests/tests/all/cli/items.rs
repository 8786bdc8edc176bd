//! What a partner adds to a booking's evidence, from the command line: on a database and on a server.

use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Serving, bookguard};

/// Adds an item with its file, one without, and fetches the file again.
async fn story(command: impl Fn(&str) -> CommandLine, booking: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("contract.pdf");
    let bytes = [b"%PDF-1.7\n".as_slice(), &[7; 1_500_000]].concat();
    std::fs::write(&file, &bytes).unwrap();
    let add = format!("evidence items add {booking} --kind contract --title Contract");
    let ran = command(&add).arg("--file").arg(&file).run().await;
    let added = ran.json();
    assert!(ran.stderr.contains("sending 1464 KiB"), "{ran:?}");
    added["file"].get("bytes").expect("the file is stored");
    assert_eq!(added["file"]["mediaType"], "application/pdf");
    assert!(added["receipt"]["leafHash"].is_string(), "{added}");
    let refund = format!(
        "evidence items add {booking} --kind refund --title Refund --amount 300.5 --reference re_1 --party partner"
    );
    let refund = command(&refund).run().await.json();
    assert_eq!(refund["amount"]["minorUnits"], 30_050);
    let list = command(&format!("evidence items list {booking}")).run();
    assert_eq!(list.await.json().list("items").len(), 2);
    let rows = format!("evidence items list {booking} --output csv --fields title,kind");
    let rows = command(&rows).run().await;
    let csv = "title,kind\nContract,contract\nRefund,refund\n";
    assert_eq!((rows.stdout.as_str(), rows.stderr.as_str()), (csv, ""));

    let item = added.text("itemId");
    let out = folder.path().join("out.pdf");
    let fetch = format!("evidence items file {booking} {item}");
    command(&fetch).arg("--out").arg(&out).run().await.json();
    assert_eq!(std::fs::read(&out).unwrap(), bytes);
    // Sending it again is harmless; another file is refused.
    let send = format!("evidence items send {booking} {item}");
    let sent = command(&send).arg("--file").arg(&file).run().await.json();
    assert_eq!(sent["file"], added["file"]);
    std::fs::write(&file, "another").unwrap();
    let refused = command(&send).arg("--file").arg(&file).run().await;
    refused.refused(5, &["file_digest_mismatch"]);

    let delete = format!("evidence items delete-file {booking} {item}");
    let unasked = command(&delete).run().await;
    unasked.refused(2, &["(\"Contract\") will be deleted", "a copy", "--yes"]);
    let unknown = format!("evidence items delete-file {booking} itm_1");
    let unknown = command(&unknown).run().await;
    unknown.refused(3, &["(not_found)"]);
    command(&fetch).arg("--out").arg(&out).run().await.json();
    let delete = format!("{delete} --yes");
    for _ in 0..2 {
        let deleted = command(&delete).run().await.json();
        assert_eq!(deleted["sha256"], added["sha256"]);
    }
    let told = command(&delete).arg("--output=table").run().await;
    told.said(&["not stored any more", "The records stay."]);
    command(&fetch).run().await.refused(3, &["not_found"]);
    std::fs::write(&file, &bytes).unwrap();
    command(&send).arg("--file").arg(&file).run().await.json();
}

/// What a newcomer gets wrong: nothing is recorded, and the answer names the flag or the file.
async fn mistakes(command: impl Fn(&str) -> CommandLine, booking: &str) {
    let folder = tempfile::tempdir().unwrap();
    let add = format!("evidence items add {booking} --title T --kind ");
    let large = folder.path().join("large");
    std::fs::write(&large, vec![0; 11 * 1024 * 1024]).unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let absent = folder.path().join("absent");
    let listed = format!("evidence items list {booking}");
    let before = command(&listed).run().await.json();
    for (file, words) in [
        (&large, ["10 MiB", "--sha256"]),
        (&empty, ["is empty", "right file"]),
        (&absent, ["absent cannot be read", "no such file"]),
        (&folder.path().to_owned(), ["cannot be read", "is a folder"]),
    ] {
        let add = command(&format!("{add}contract")).arg("--file").arg(file);
        add.run().await.refused(2, &words);
    }
    for (more, flag) in [
        ("contrct", "--kind: \"contrct\""),
        ("other --sha256 abc", "--sha256: \"abc\""),
        ("other --at soon", "--at: \"soon\""),
        ("other --currency USD", "--currency: "),
    ] {
        let add = command(&format!("{add}{more}"));
        add.run().await.refused(5, &[&format!("error: {flag}")]);
    }
    assert_eq!(command(&listed).run().await.json(), before);

    let archive = format!("evidence archive {booking}");
    let folder = folder.path();
    for (out, words) in [
        (folder.join("none/all.zip"), "folder does not exist"),
        (folder.join("empty/all.zip"), "folder does not exist"),
        (folder.to_owned(), "is a folder"),
    ] {
        let ran = command(&archive).arg("--out").arg(&out).run().await;
        ran.refused(2, &[&format!("{} cannot be written", out.display()), words]);
    }
    // The folder in the way is named, not the file.
    std::fs::create_dir(folder.join("all.zip.bookguard-part")).unwrap();
    let out = folder.join("all.zip");
    let ran = command(&archive).arg("--out").arg(&out).run().await;
    ran.refused(2, &["all.zip.bookguard-part is a folder"]);
    let share = format!("evidence share {booking} --expires-in ");
    let refused = command(&format!("{share}P1Y")).run().await;
    refused.refused(5, &["--expires-in: \"P1Y\""]);
    let refused = command(&format!("{share}90s")).run().await;
    refused.refused(2, &["--expires-in is \"90s\"", "30d", "P30D"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_and_files_are_added_on_a_server_and_on_a_database_and_a_backup_holds_them() {
    let database = TestDatabase::new(Engine::Sqlite);
    let (server, acme) = Serving::with_partner(&database, &[]).await;
    let booking = acme.book().await;
    story(|line| acme.command(line), &booking).await;
    mistakes(|line| acme.command(line), &booking).await;
    for (name, what) in [
        ("db", "a database"),
        ("db.key", "a ledger key"),
        ("db.key.seen", "a guard"),
    ] {
        let out = database.file().with_extension(name);
        let before = std::fs::read(&out).unwrap();
        let archive = format!("evidence archive {booking} --out");
        let ran = acme.command(&archive).arg(&out).run().await;
        ran.refused(2, &[what, "must not replace", "Name another"]);
        assert!(std::fs::read(&out).unwrap() == before, "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    database.command("backup").arg(&copy).run().await.json();
    server.stop().await;
    let local = |line: &str| database.command(line).args(["--partner", &acme.id]);
    let line = "bookings create --talent-id t --talent-name T --organizer-id o --organizer-name O --event-type concert \
                --event-date 2031-06-20T19:00:00Z --value 100 --currency USD";
    let other = local(line).run().await.string("bookingId");
    story(local, &other).await;
    mistakes(local, &other).await;
    database.verify(2).await;

    let key = database.key_file();
    let line = bookguard("serve --listen 127.0.0.1:0 --db").arg(&copy);
    let server = Serving::of(line.arg("--ledger-key").arg(&key)).await;
    let acme = acme.on(server.url());
    let items = format!("/v1/bookings/{booking}/evidence/items");
    let listed = acme.get(&items).await.ok(200);
    let item = listed["items"][0].text("itemId");
    let file = acme.get(&format!("{items}/{item}/file")).await;
    assert_eq!((file.status, file.body.len()), (200, 1_500_009));
    server.stop().await;
}
