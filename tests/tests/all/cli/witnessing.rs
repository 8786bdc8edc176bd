//! `witness`, `ledger mirror` and `ledger monitor`: logs that grow, logs that are forked, and witnesses that are killed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bookguard_core::clock::Clock;
use bookguard_core::ledger::cosignature::{Cosigner, CosignerKey};
use bookguard_core::ledger::proof::prove_consistency;
use bookguard_core::ledger::tile::{TILE_WIDTH, TileKind, encode_bundle};
use bookguard_core::ledger::witness::AddCheckpoint;
use bookguard_core::ledger::{Checkpoint, Hash, Signer, TilePath, Tree, leaf_hash};
use bookguard_core::limits::DAY_MS;
use bookguard_tests::caller::Caller;
use bookguard_tests::disk_faults::{DiskFaults, ENOSPC};
use bookguard_tests::engine::{TestDatabase, on_every_engine};
use bookguard_tests::files::names;
use bookguard_tests::is_long;
use bookguard_tests::load::at_once;
use bookguard_tests::mirror::Mirror;
use bookguard_tests::program::{CommandLine, Ran, Serving, bookguard};
use bookguard_tests::waiting::{BOUND, until_within};
use serde_json::Value;
use tempfile::TempDir;

/// A log in memory. Logs that are forked have the same first entries.
pub(super) struct Log {
    signer: Signer,
    pub leaves: Vec<Vec<u8>>,
    tiles: BTreeMap<(u8, u64), Vec<u8>>,
    roots: Vec<Hash>,
}

impl Log {
    fn new(name: &str, size: u64, forked_at: u64) -> Self {
        let leaf = |at| match at < forked_at {
            true => format!("entry {at}").into_bytes(),
            false => format!("other entry {at}").into_bytes(),
        };
        Self::of(name, (0..size).map(leaf))
    }

    /// The log of these entries.
    pub fn of(name: &str, leaves: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut tree = Tree::empty();
        let mut log = Self {
            signer: Signer::from_seed(name, &[7; 32]).unwrap(),
            leaves: Vec::new(),
            tiles: BTreeMap::new(),
            roots: vec![tree.root()],
        };
        for leaf in leaves {
            for tile in tree.append([leaf_hash(&leaf)]) {
                log.tiles.insert((tile.level, tile.index), tile.bytes);
            }
            log.leaves.push(leaf);
            log.roots.push(tree.root());
        }
        log
    }

    pub fn key(&self) -> String {
        self.signer.verifier().to_string()
    }

    pub fn note(&self, size: u64) -> String {
        Checkpoint::sign(&self.signer, size, self.roots[size as usize])
    }

    pub fn request(&self, old: u64, size: u64) -> String {
        let read = |level, index| Ok::<_, Infallible>(self.tiles.get(&(level, index)).cloned());
        let proof = prove_consistency(old, size, read).unwrap();
        let note = self.note(size);
        AddCheckpoint { old, proof, note }.to_string()
    }

    /// Writes what a server of the log's first entries would serve.
    pub fn publish(&self, size: u64, folder: &Path) {
        let put = |path: &str, bytes: &[u8]| {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        };
        for (&(level, index), tile) in &self.tiles {
            let hashes = (size >> (8 * level)).saturating_sub(index * 256).min(256) as usize;
            if hashes > 0 {
                let path = TilePath::new(TileKind::Hashes(level), index, hashes).unwrap();
                put(&path.to_string(), &tile[..hashes * 32]);
            }
        }
        for (index, leaves) in (0..).zip(self.leaves[..size as usize].chunks(TILE_WIDTH)) {
            let path = TilePath::new(TileKind::Entries, index, leaves.len()).unwrap();
            let bundle = encode_bundle(leaves.iter().map(Vec::as_slice)).unwrap();
            put(&path.to_string(), &bundle);
        }
        put("checkpoint", self.note(size).as_bytes());
    }
}

/// A witness of these logs, in a folder.
async fn witness(folder: &Path, logs: &[&Log]) -> CosignerKey {
    let line = bookguard("witness init w --name witness.example.com/w1").in_folder(folder);
    let line = (logs.iter()).fold(line, |line, log| line.arg("--log").arg(log.key()));
    let made = line.run().await;
    made.ended(0, &[]);
    let key: CosignerKey = made.string("key").parse().unwrap();
    assert_eq!(key.name(), "witness.example.com/w1");
    key
}

pub(super) fn serving(folder: &Path) -> CommandLine {
    bookguard("witness serve w --listen 127.0.0.1:0").in_folder(folder)
}

/// What a witness keeps against logs, in files of this kind, by their names.
pub(super) fn kept(folder: &Path, kind: &str) -> BTreeMap<String, String> {
    let forks = folder.join("w/forks");
    let mut names = names(&forks);
    names.retain(|name| name.starts_with(kind));
    let read = |name: String| (name.clone(), fs::read_to_string(forks.join(name)).unwrap());
    names.into_iter().map(read).collect()
}

/// A witness's answer; the interface document is the service's.
pub(super) struct Answer {
    pub status: u16,
    pub media_type: String,
    pub text: String,
    /// Whether it says when to ask again.
    pub again: bool,
}

/// Sends a request to a witness; `None` if it is gone.
pub(super) async fn ask(caller: &Caller, method: &str, path: &str, body: String) -> Option<Answer> {
    let sent = caller.request(method, path).body(body).send().await.ok()?;
    let media_type = sent.headers().get("content-type");
    Some(Answer {
        status: sent.status().as_u16(),
        media_type: media_type.map_or("", |it| it.to_str().unwrap()).to_owned(),
        again: sent.headers().contains_key("retry-after"),
        text: sent.text().await.ok()?,
    })
}

impl Answer {
    /// Asserts that it has this status.
    #[track_caller]
    pub fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

pub(super) async fn add(caller: &Caller, body: String) -> Answer {
    ask(caller, "POST", "/add-checkpoint", body).await.unwrap()
}

pub(super) async fn get(caller: &Caller, path: &str) -> Answer {
    ask(caller, "GET", path, String::new()).await.unwrap()
}

#[tokio::test]
async fn a_log_is_cosigned_as_it_grows_and_a_fork_is_refused_and_kept() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let [log, fork] = [99, 10].map(|forked_at| Log::new("log.example", 40, forked_at));
    let stranger = Log::new("stranger.example", 9, 99);
    let key = witness(folder, &[&log]).await;
    let monitored = format!("/{}/checkpoint", Hash::of(b"log.example"));
    let mut size = 0;
    for (at, next) in [1, 12, 12, 37].into_iter().enumerate() {
        // What was cosigned outlives the process.
        let server = Serving::of(serving(folder)).await;
        let caller = server.caller();
        let status = if size == 0 { 404 } else { 200 };
        assert_eq!(get(&caller, &monitored).await.status, status);
        let cosigned = add(&caller, log.request(size, next)).await;
        cosigned.is(200);
        assert_eq!(cosigned.media_type, "text/plain; charset=utf-8");
        let note = log.note(next) + &cosigned.text;
        assert!(key.verify(&note).unwrap() > 1_700_000_000);
        assert_eq!(get(&caller, &monitored).await.text, note);
        size = next;
        let conflict = add(&caller, log.request(0, 40)).await;
        assert_eq!(conflict.is(409).text, format!("{size}\n"));
        assert_eq!(conflict.media_type, "text/x.tlog.size");
        let forged = log.request(size, 40);
        let forged = forged.replacen("log.example\n40", "log.example\n41", 1);
        for (body, status) in [
            (stranger.request(0, 9), 404),
            (log.request(size, 40).replacen("old", "new", 1), 400),
            (forged, 403),
            ("\u{0}".repeat(400_000), 413),
        ] {
            add(&caller, body).await.is(status);
        }
        if size >= 12 {
            for body in [fork.request(size, 40), fork.request(size, size)] {
                add(&caller, body).await.is(422);
            }
            // One file for each checkpoint, however often it comes.
            let forks = kept(folder, "fork-");
            assert_eq!(forks.len(), if size == 12 { 2 } else { 3 });
            assert_eq!(kept(folder, "unproven-"), BTreeMap::new());
            let both = [fork.note(size), log.note(size)];
            let proves = |text: &String| both.iter().all(|note| text.contains(note));
            assert!(forks.values().any(proves), "{at}");
        }
        server.stop().await;
    }
    let shown = bookguard("witness key w").in_folder(folder).run().await;
    assert_eq!(shown.ended(0, &[]).string("key"), key.to_string());
}

/// Genuine checkpoints with a wrong proof, which anybody can send, take no room from a fork, nor from what comes after them.
#[tokio::test]
async fn a_fork_is_kept_whatever_number_of_wrong_proofs_comes() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let [log, fork] = [99, 10].map(|forked_at| Log::new("log.example", 40, forked_at));
    witness(folder, &[&log]).await;
    let disk = DiskFaults::new();
    let line = match &disk {
        Some(disk) => disk.under(serving(folder)),
        None => serving(folder),
    };
    let server = Serving::of(line).await;
    let caller = server.caller();
    add(&caller, log.request(0, 12)).await.is(200);
    let kept = |kind: &str| kept(folder, kind);
    add(&caller, fork.request(12, 40)).await.is(422);
    let wrong = |size| {
        let mut request = AddCheckpoint::parse(&log.request(12, size)).unwrap();
        request.proof.pop();
        request.to_string()
    };
    // One that came while the disk was full is kept when it comes again.
    if let Some(disk) = &disk {
        disk.fail(&[("write", "/unproven-*", ENOSPC)]);
        add(&caller, wrong(13)).await.is(422);
        assert_eq!(kept("unproven-").len(), 0);
        disk.mend();
    }
    for size in 13..=32 {
        add(&caller, wrong(size)).await.is(422);
        assert_eq!(kept("unproven-").len() as u64, (size - 12).min(16));
    }
    let mut unproven = AddCheckpoint::parse(&fork.request(12, 39)).unwrap();
    unproven.proof.clear();
    add(&caller, unproven.to_string()).await.is(422);
    for (kind, count, size) in [("unproven-", 16, 39), ("fork-", 1, 40)] {
        let kept = kept(kind);
        assert_eq!(kept.len(), count, "{kind}");
        assert!(kept.values().any(|text| text.contains(&fork.note(size))));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_witness_that_forgot_does_not_start() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let log = Log::new("log.example", 4, 99);
    witness(folder, &[&log]).await;
    let again = bookguard("witness init w --name other").in_folder(folder);
    again.run().await.refused(2, &["w exists"]);
    let line = bookguard("witness init other --name").arg("two words");
    let named = line.in_folder(folder).run().await;
    named.refused(2, &["a key name has 1 to 255 bytes"]);
    assert!(!folder.join("other").exists());
    let server = Serving::of(serving(folder)).await;
    add(&server.caller(), log.request(0, 3)).await.is(200);
    let second = serving(folder).run().await;
    second.refused(1, &["another process is the witness of w"]);
    server.stop().await;
    let state = folder.join("w/cosigned");
    let kept = fs::read_to_string(&state).unwrap();
    for changed in [
        String::new(),
        kept.replace("\\n3\\n", "\\n2\\n"),
        kept.replacen("log.example", "log.exemple", 1),
    ] {
        fs::write(&state, changed).unwrap();
        let damaged = serving(folder).run().await;
        damaged.refused(1, &["w/cosigned is damaged"]);
    }
    fs::remove_file(&state).unwrap();
    let missing = serving(folder).run().await;
    missing.refused(1, &["w/cosigned is missing"]);
    fs::write(&state, kept).unwrap();
    fs::write(folder.join("w/logs"), "# none\nnot a key\n").unwrap();
    let damaged = serving(folder).run().await;
    damaged.refused(1, &["w/logs, line 2: "]);
    let nowhere = bookguard("witness serve nowhere").in_folder(folder);
    let nowhere = nowhere.run().await;
    nowhere.refused(1, &["nowhere holds no witness"]);
}

/// Clients race to add larger and smaller checkpoints of one log, until the witness is killed, again and again.
#[tokio::test]
async fn racing_clients_and_kills_never_shrink_what_is_cosigned() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let log = Arc::new(Log::new("log.example", 2_000, 9_999));
    let key = witness(folder, &[&log]).await;
    let mut least = 0;
    let (clients, answers) = if is_long() {
        (100_u64, 1_500)
    } else {
        (50, 200)
    };
    for round in 0..4_u64 {
        let server = Serving::of(serving(folder)).await;
        let (caller, answered) = (server.caller(), Arc::new(AtomicUsize::new(0)));
        let racing = (0..clients).map(|client| {
            let (caller, log, answered) = (caller.clone(), log.clone(), answered.clone());
            async move {
                let mut cosigned = Vec::new();
                let mut old = 0;
                for step in 0.. {
                    let size = (old + 1 + (client * 7 + step * 3 + round) % 5).min(2_000);
                    let asked = log.request(old, size);
                    // It may be killed at any moment.
                    let Some(reply) = ask(&caller, "POST", "/add-checkpoint", asked).await else {
                        break;
                    };
                    answered.fetch_add(1, Ordering::AcqRel);
                    match reply.status {
                        200 => {
                            cosigned.push((size, log.note(size) + &reply.text));
                            old = size;
                        }
                        409 => old = reply.text.trim().parse().unwrap(),
                        other => panic!("{other}: {}", reply.text),
                    }
                }
                cosigned
            }
        });
        let killing = async {
            until_within(BOUND * 3, "clients that race", async || {
                (answered.load(Ordering::Acquire) >= answers).then_some(())
            })
            .await;
            server.kill().await;
        };
        let (notes, ()) = tokio::join!(at_once(racing), killing);
        let notes: Vec<_> = notes.into_iter().flatten().collect();
        let sizes = notes.iter().map(|(size, _)| *size);
        let (smallest, largest) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
        for (_, note) in &notes {
            key.verify(note).unwrap();
        }
        assert!(smallest >= least);
        let server = Serving::of(serving(folder)).await;
        let conflict = add(&server.caller(), log.request(0, 1)).await;
        least = conflict.is(409).text.trim().parse().unwrap();
        assert!(least >= largest, "{least} is less than {largest}");
        server.kill().await;
    }
}

fn following(command: &str, log: &Path, folder: &Path, key: Option<&str>) -> CommandLine {
    let line = bookguard(["ledger", command]).arg(log).arg(folder);
    match key {
        Some(key) => line.args(["--key", key]),
        None => line,
    }
}

/// Follows a log once.
pub(super) async fn follow(command: &str, log: &Path, folder: &Path, key: Option<&str>) -> Ran {
    following(command, log, folder, key).run().await
}

fn followed(ran: &Ran) -> (Value, Value) {
    let value = ran.ended(0, &[]).json();
    (value["size"].clone(), value["added"].clone())
}

#[tokio::test]
async fn a_log_is_followed_from_where_it_was_left_and_a_fork_is_kept() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::new("log.example", 900, 999);
    let mut before = 0;
    for (size, next) in [(1, 0), (256, 0), (300, 0), (300, 0), (600, 0), (900, 1)] {
        log.publish(size, &at("log"));
        for command in ["mirror", "monitor"] {
            let key = (before == 0).then(|| log.key());
            let ran = follow(command, &at("log"), &at(command), key.as_deref()).await;
            assert_eq!(
                followed(&ran),
                (size.into(), (size - before).into()),
                "{command}"
            );
        }
        before = size;
        // What was copied is a log itself.
        let copy = at(&format!("copy-{size}-{next}"));
        let ran = follow("mirror", &at("mirror"), &copy, Some(&log.key())).await;
        assert_eq!(followed(&ran).0, size);
    }
    for file in [
        "tile/0/000",
        "tile/0/002",
        "tile/0/003.p/132",
        "tile/1/000.p/3",
        "tile/entries/003.p/132",
    ] {
        let (copy, original) = (
            fs::read(at("mirror").join(file)),
            fs::read(at("log").join(file)),
        );
        assert_eq!(copy.unwrap(), original.unwrap(), "{file}");
    }
    assert!(!at("monitor").join("tile").exists());
    // What grew to its full width is there only as that.
    let files = |folder: &str| {
        let mut files = Vec::new();
        let mut folders = vec![at(folder).join("tile")];
        while let Some(folder) = folders.pop() {
            for file in fs::read_dir(folder).unwrap() {
                match file.unwrap().path() {
                    folder if folder.is_dir() => folders.push(folder),
                    file => files.push(file.strip_prefix(at("")).unwrap().to_owned()),
                }
            }
        }
        files
    };
    let is_outgrown = |file: &&PathBuf| {
        let full = file.parent().unwrap().with_extension("");
        file.to_string_lossy().contains(".p/") && at("").join(full).is_file()
    };
    let mirrored = files("mirror");
    assert!(mirrored.iter().any(|file| file.ends_with("003.p/132")));
    assert_eq!(mirrored.iter().find(is_outgrown), None);

    let fork = Log::new("log.example", 950, 899);
    fork.publish(950, &at("fork"));
    fork.publish(900, &at("same size"));
    // The signed checkpoint is enough: this log does not show its tiles.
    fs::remove_dir_all(at("same size").join("tile")).unwrap();
    log.publish(400, &at("older"));
    for (place, words) in [
        ("fork", "the log is forked: its first 900 entries"),
        ("same size", "the log is forked: its first 900 entries"),
        (
            "older",
            "the log has 400 entries, but 900 were signed before",
        ),
    ] {
        for command in ["mirror", "monitor"] {
            let before = fs::read(at(command).join("checkpoint")).unwrap();
            let ran = follow(command, &at(place), &at(command), None).await;
            let said: &[&str] = match place {
                "older" => &[words],
                _ => &[words, "together with"],
            };
            ran.ended(6, said);
            assert_eq!(fs::read(at(command).join("checkpoint")).unwrap(), before);
            let kept = fs::read(at(command).join("contradiction")).unwrap();
            let is_kept = kept == fs::read(at(place).join("checkpoint")).unwrap();
            assert_eq!(is_kept, place != "older");
        }
    }
}

/// The cosigned checkpoint lags behind the log, and here also behind the one that its follower knows; but never for long.
#[tokio::test]
async fn a_cosigned_checkpoint_older_than_the_known_one_is_nothing_new() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::new("log.example", 40, 99);
    let fork = Log::new("log.example", 40, 10);
    let witness = Cosigner::from_seed("witness.example.com/w", &[3; 32]).unwrap();
    let policy = format!("witness w {}\nquorum w\n", witness.verifier());
    fs::write(at("policy"), policy).unwrap();
    let now = Clock::System.now();
    let cosigned_before = |size, days: i64| {
        let note = log.note(size);
        let (text, _) = note.split_once("\n\n").unwrap();
        let time = now.plus_ms(-days * DAY_MS).unix_seconds();
        let line = witness.cosign(&format!("{text}\n"), time.cast_unsigned());
        note + &line
    };
    let cosigned = |size| cosigned_before(size, 6);
    let key = log.key();
    let line = || {
        let line = following("monitor", &at("log"), &at("m"), Some(&key));
        line.arg("--witness-policy").arg(at("policy"))
    };
    let look = async || line().run().await;
    log.publish(30, &at("log"));
    fs::write(at("log").join("checkpoint"), cosigned(30)).unwrap();
    assert_eq!(followed(&look().await), (30.into(), 30.into()));
    // It is the known one, and nobody vouches any more that there is none after it, nor can vouch today for tomorrow.
    for days in [8, -1] {
        fs::write(at("log").join("checkpoint"), cosigned_before(30, days)).unwrap();
        let old = "enough of its witnesses have cosigned within 7d";
        let ran = look().await;
        ran.ended(6, &[old]);
        let looked = ran.printed();
        assert_eq!(looked["size"], 30);
    }
    // Whoever knows that nobody cosigns it while it rests allows more time; but tomorrow is not yet.
    let more = line().args("--cosigned-within 9d").run().await;
    more.ended(6, &["within 9d"]);
    fs::write(at("log").join("checkpoint"), cosigned_before(30, 8)).unwrap();
    for (time, code, said) in [
        ("9d", 0, ""),
        ("8h", 6, "within 8h"),
        ("9", 2, "it must be a time such as"),
    ] {
        let ran = line().args(["--cosigned-within", time]).run().await;
        ran.ended(code, &[said]);
    }
    // Whoever follows it goes on.
    let mut following = line().args("--every 1s --output json").start();
    for _ in 0..2 {
        let looked: Value = serde_json::from_str(&following.line().await).unwrap();
        assert_eq!(looked["size"], 30);
    }
    assert_eq!(following.terminate().await, Some(0));
    fs::write(at("log").join("checkpoint"), cosigned(30)).unwrap();
    assert_eq!(followed(&look().await), (30.into(), 0.into()));
    fs::write(at("log").join("cosigned-checkpoint"), cosigned(20)).unwrap();
    for size in [30, 40] {
        log.publish(size, &at("log"));
        assert_eq!(followed(&look().await), (30.into(), 0.into()), "{size}");
    }
    log.publish(25, &at("log"));
    let words = "the log has 25 entries, but 30 were signed before";
    look().await.ended(6, &[words]);
    fork.publish(30, &at("log"));
    // Also beside a cosigned checkpoint that is the known one.
    for size in [20, 30] {
        fs::write(at("log").join("cosigned-checkpoint"), cosigned(size)).unwrap();
        let forked = ["the log is forked", "together with"];
        look().await.ended(6, &forked);
    }
    let kept = fs::read_to_string(at("m").join("checkpoint")).unwrap();
    assert_eq!(kept, cosigned(30));
}

/// Whoever follows a log for good is told, goes on, and notices a fork also while nothing is cosigned.
#[tokio::test]
async fn a_log_without_a_quorum_is_followed_again_once_it_has_one() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::new("log.example", 40, 99);
    let witness = Cosigner::from_seed("witness.example.com/w", &[3; 32]).unwrap();
    let policy = format!("witness w {}\nquorum w\n", witness.verifier());
    fs::write(at("policy"), policy).unwrap();
    let line = |key: &str| {
        let line = following("monitor", &at("log"), &at("m"), Some(key));
        line.arg("--witness-policy").arg(at("policy"))
    };
    let key = log.key();
    let without = "is not cosigned as the trust policy demands";
    log.publish(30, &at("log"));
    line(&key).run().await.refused(6, &[without]);
    // Of another log, waiting does not help.
    let other = Log::new("other.example", 1, 99).key();
    let ran = line(&other).args("--every 1s").run().await;
    ran.refused(6, &["cannot be relied on"]);
    let mut following = line(&key).args("--every 1s --output json").start();
    for _ in 0..2 {
        let said = following.complaint().await;
        assert!(said.contains(without), "{said}");
    }
    let note = log.note(30);
    let (text, _) = note.split_once("\n\n").unwrap();
    let now = Clock::System.now().unix_seconds().cast_unsigned();
    let cosigned = format!("{note}{}", witness.cosign(&format!("{text}\n"), now));
    // Not whole at once: the follower may find half a checkpoint, which is no other log's.
    fs::write(at("log").join("checkpoint"), cosigned).unwrap();
    let looked: Value = serde_json::from_str(&following.line().await).unwrap();
    assert_eq!(looked["size"], 30);
    assert_eq!(looked["added"], 30);
    assert_eq!(following.terminate().await, Some(0));
    Log::new("log.example", 40, 10).publish(30, &at("log"));
    let ran = line(&key).args("--every 1s").run().await;
    ran.refused(6, &["the log is forked"]);
}

/// A fork that shows its signed checkpoint, and no entries, may never be proven; what it signed is kept.
#[tokio::test]
async fn a_checkpoint_whose_entries_cannot_be_read_is_kept() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::new("log.example", 40, 99);
    log.publish(30, &at("log"));
    for command in ["mirror", "monitor"] {
        let ran = follow(command, &at("log"), &at(command), Some(&log.key())).await;
        assert_eq!(followed(&ran).0, 30);
    }
    log.publish(40, &at("log"));
    let entries = at("log").join("tile/entries/000.p/40");
    fs::remove_file(&entries).unwrap();
    fs::create_dir(&entries).unwrap();
    for command in ["mirror", "monitor"] {
        let ran = follow(command, &at("log"), &at(command), None).await;
        ran.ended(2, &["tile/entries/000.p/40 cannot be read"]);
        let kept = |name| fs::read_to_string(at(command).join(name)).unwrap();
        assert_eq!(kept("unread"), log.note(40));
        assert_eq!(kept("checkpoint"), log.note(30));
    }
}

/// A log may delete a partial tile once it holds the full one, also while somebody reads it under an older checkpoint.
#[tokio::test]
async fn a_partial_tile_is_cut_from_the_full_one_if_it_is_gone() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::new("log.example", 600, 999);
    for (size, place) in [(600, "log"), (300, "log"), (300, "old")] {
        log.publish(size, &at(place));
    }
    for outgrown in ["tile/0/001.p", "tile/entries/001.p"] {
        fs::remove_dir_all(at("log").join(outgrown)).unwrap();
    }
    let ran = follow("mirror", &at("log"), &at("m"), Some(&log.key())).await;
    assert_eq!(followed(&ran).0, 300);
    for file in ["tile/0/001.p/44", "tile/entries/001.p/44"] {
        let (cut, served) = (fs::read(at("m").join(file)), fs::read(at("old").join(file)));
        assert_eq!(cut.unwrap(), served.unwrap(), "{file}");
    }
    // A full tile that is not the log's is refused, like any other.
    let entries = at("log").join("tile/entries/001");
    fs::write(&entries, b"no bundle").unwrap();
    let ran = follow("mirror", &at("log"), &at("n"), Some(&log.key())).await;
    ran.ended(6, &["tile/entries/001.p/44 cannot be read"]);
}

#[tokio::test]
async fn what_is_not_the_log_is_not_followed() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = Log::new("log.example", 700, 999);
    log.publish(700, &at("log"));
    let without = follow("mirror", &at("log"), &at("m"), None).await;
    without.ended(2, &["the log's verifier key is needed"]);
    assert!(!at("m").exists());
    let other = Log::new("other.example", 1, 9);
    let ran = follow("mirror", &at("log"), &at("m"), Some(&other.key())).await;
    ran.ended(
        6,
        &[
            "cannot be relied on",
            "not signed by the expected key other.example",
        ],
    );
    // The folder still belongs to no log.
    for (key, expected) in [(log.key(), 0), (other.key(), 2)] {
        let ran = follow("mirror", &at("log"), &at("m"), Some(&key)).await;
        let words: &[&str] = match expected {
            0 => &[],
            _ => &["follows the log with the key log.example"],
        };
        ran.ended(expected, words);
    }
    for (file, byte) in [
        ("tile/0/001", None),
        ("tile/entries/000", Some(9)),
        ("tile/0/002.p/188", Some(40)),
    ] {
        let damaged = at("log").join(file);
        let bytes = fs::read(&damaged).unwrap();
        if let Some(byte) = byte {
            let mut changed = bytes.clone();
            changed[byte] ^= 1;
            fs::write(&damaged, changed).unwrap();
            let ran = follow("mirror", &at("log"), &at("d"), Some(&log.key())).await;
            ran.ended(6, &["cannot be relied on"]);
            assert!(!at("d").join("checkpoint").exists());
            fs::write(&damaged, bytes).unwrap();
        } else {
            // A walk computes it.
            fs::remove_file(&damaged).unwrap();
            let ran = follow("mirror", &at("log"), &at("e"), Some(&log.key())).await;
            assert_eq!(followed(&ran).0, 700);
            assert_eq!(fs::read(at("e").join(file)).unwrap(), bytes);
            fs::write(&damaged, bytes).unwrap();
        }
    }
    let ran = follow("mirror", &at("log"), &at("d"), None).await;
    assert_eq!(followed(&ran).0, 700);
    fs::write(
        at("d").join("checkpoint"),
        log.note(700).replace("\n700\n", "\n70\n"),
    )
    .unwrap();
    let ran = follow("mirror", &at("log"), &at("d"), None).await;
    ran.ended(6, &["is not what this command wrote"]);
}

/// The real service, mirrored while it writes, and judged by another program's tlog library.
#[tokio::test]
async fn a_running_service_is_mirrored() {
    on_every_engine(async |engine| {
        let database = TestDatabase::new(engine);
        let (server, acme) = Serving::with_partner(&database, &["--dev"]).await;
        let vkey = server.caller().get("/v1/ledger/key").await.text();
        let key = vkey.trim();
        let copy = database.folder().join("mirror");
        let mirroring = bookguard(["ledger", "mirror", server.url()]).arg(&copy);
        let mirroring = mirroring.args(["--key", key, "--every", "1s"]);
        let mut mirroring = mirroring.args("--output json").start();
        // More than a tile holds.
        for _ in 0..TILE_WIDTH + 4 {
            acme.book().await;
        }
        let mirror = Mirror::download(&acme, key).await;
        let size = mirror.entries().len() as u64;
        loop {
            let looked: Value = serde_json::from_str(&mirroring.line().await).unwrap();
            if looked["size"].as_u64() >= Some(size) {
                break;
            }
        }
        assert_eq!(mirroring.terminate().await, Some(0));
        let monitor = database.folder().join("monitor");
        let ran = follow("monitor", &copy, &monitor, Some(key)).await;
        assert!(followed(&ran).0.as_u64() >= Some(size));
        server.stop().await;
    })
    .await;
}
