//! Reads a public log, from a server, from a mirror's folder, or as a database would publish it.
//!
//! Core decides what to read and whether to believe it; this file fetches. Invariants: no answer is read further than a tile
//! can be long; nobody is waited for without a limit; redirects are not followed; what may be just being written is read twice before
//! it counts against the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::features::ledger;
use bookguard_core::ledger::note::MAX_NOTE_BYTES;
use bookguard_core::ledger::tile::{TILE_WIDTH, TileKind, encode_bundle, parse_bundle};
use bookguard_core::ledger::trust::TrustPolicy;
use bookguard_core::ledger::walk::most_bytes;
use bookguard_core::ledger::{TilePath, VerifierKey};
use bookguard_core::limits::CLOCK_SKEW_MS;
use bookguard_core::model::Timestamp;
use bookguard_core::service::Service;
use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::sleep;
use url::Url;

use crate::failure::Failure;
use crate::http;

/// The time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// The time without a byte of an answer.
const SILENCE: Duration = Duration::from_secs(10);
/// The time for a complete answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Tiles on their way at a time.
const AT_ONCE: usize = 8;
/// Attempts to read a tile from a server that is busy.
const ATTEMPTS: u32 = 6;
/// The longest wait that a busy server may ask for, in seconds.
const WAIT: u64 = 60;
/// The time after which a file that was just being written is whole.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// The log holds no file of this name.
struct Absent;

/// The result of a fetch: bytes, an absent file, or no answer.
type Fetched = Result<Result<Vec<u8>, Absent>, Failure>;

/// Where a log is read from.
pub(super) enum Source {
    Server { client: Client, prefix: Url },
    Folder(PathBuf),
    Database(Arc<Service>),
}

/// A tile that is on its way. It is given up when nobody waits for it any more: a log that is slow and wrong would fill the memory.
struct Coming(JoinHandle<Fetched>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Fetches these tiles and hands each to `take`, in order, while the next ones are on their way. The inner error says why the
/// log cannot be relied on.
pub(super) async fn fetch<E: From<String>>(
    source: &Arc<Source>,
    mut paths: impl Iterator<Item = TilePath>,
    mut take: impl FnMut(&TilePath, &[u8]) -> Result<Result<(), E>, Failure>,
) -> Result<Result<(), E>, Failure> {
    let mut coming = VecDeque::with_capacity(AT_ONCE);
    loop {
        while coming.len() < AT_ONCE {
            let Some(path) = paths.next() else { break };
            let source = Arc::clone(source);
            let fetch = async move { source.tile(&path).await };
            coming.push_back((path, Coming(tokio::spawn(fetch))));
        }
        let Some((path, mut fetch)) = coming.pop_front() else {
            return Ok(Ok(()));
        };
        let fetched = (&mut fetch.0)
            .await
            .map_err(|e| Failure::Unexpected(format!("a tile could not be fetched: {e}")))?;
        let Ok(bytes) = fetched? else {
            return Ok(Err(absent(&path).into()));
        };
        if let Err(why) = take(&path, &bytes)? {
            return Ok(Err(why));
        }
    }
}

fn absent(path: &TilePath) -> String {
    format!(
        "The log cannot be relied on: it does not hold {path}, which its checkpoint covers. A copy may be incomplete."
    )
}

/// Where our server shows the newest checkpoint that its witnesses have cosigned; the newest of all often is not yet.
const COSIGNED: &str = "cosigned-checkpoint";

/// The checkpoint of an open log that the policy's witnesses have cosigned: the newest one, or that which the log shows beside it. The
/// inner error, [`Failure::NotVerified`], says that there is none. `key` is the log's.
///
/// # Errors
/// Those of the log if it does not say.
pub(super) async fn cosigned(
    place: &str,
    (source, newest): (&Source, &str),
    key: &VerifierKey,
    policy: &TrustPolicy,
) -> Result<Result<String, Failure>, Failure> {
    let Err(why) = policy.check_known(newest) else {
        return Ok(Ok(newest.to_owned()));
    };
    let read = || source.get(COSIGNED, MAX_NOTE_BYTES);
    let is_whole =
        |read: &Result<Vec<u8>, Absent>| read.as_ref().map_or(true, |bytes| is_signed(bytes, key));
    let other = settled(read, is_whole).await?.ok();
    let other = other.and_then(|bytes| String::from_utf8(bytes).ok());
    let cosigned = other.filter(|note| policy.check_known(note).is_ok());
    Ok(cosigned.ok_or_else(|| {
        Failure::NotVerified(format!(
            "The log at {place} is not cosigned as the trust policy demands: {why}. If its witnesses were only away for a while, look \
             again later."
        ))
    }))
}

/// How long ago witnesses may have cosigned a checkpoint, and how that was typed.
pub(super) struct Lately {
    pub time: Duration,
    pub typed: String,
}

/// Fails if too few witnesses have cosigned this checkpoint lately for the policy. A log at rest is shown to witnesses again and again,
/// so it has stopped, or what is newer is withheld: a checkpoint stays cosigned for ever. That it is the newest which the log shows
/// proves nothing, because whoever withholds what is newer shows it as that.
///
/// # Errors
/// [`Failure::NotVerified`].
pub(super) fn require_recent(
    place: &str,
    note: &str,
    (policy, lately): (&TrustPolicy, &Lately),
    now: Timestamp,
) -> Result<(), Failure> {
    let seconds = |ms| u64::try_from(now.plus_ms(ms).unix_seconds()).unwrap_or_default();
    // A time that has not come yet would stay recent for as long as somebody likes.
    let recent = seconds(0).saturating_sub(lately.time.as_secs())..=seconds(CLOCK_SKEW_MS);
    let cosigned = policy.check_known(note).unwrap_or_default();
    let is_reached = policy.is_reached_by(|witness| {
        let mut times = cosigned.iter().filter(|(name, _)| *name == witness.name);
        times.any(|(_, at)| recent.contains(at))
    });
    match is_reached {
        true => Ok(()),
        false => Err(Failure::NotVerified(format!(
            "The log at {place} shows no checkpoint that enough of its witnesses have cosigned within {}. Newer ones are withheld from you, or \
             the log or its witnesses have stopped: ask their operators, and compare what others see. If its program does not have a log at \
             rest cosigned again, give --cosigned-within more time.",
            lately.typed
        ))),
    }
}

/// Whether a log could be there.
///
/// # Errors
/// [`Failure::Usage`] if the address is not valid.
pub(super) fn check(place: &str) -> Result<(), Failure> {
    Source::new(place).map(drop)
}

/// Finds the log at an address or in a folder.
///
/// # Errors
/// As for [`open`].
pub(super) async fn find(place: &str) -> Result<Source, Failure> {
    located(place).await.map(|(source, _)| source)
}

/// Finds the log at an address or in a folder, and reads its checkpoint. The caller checks that `key` has signed it.
///
/// # Errors
/// [`Failure::Usage`] if the address is not valid or the folder holds no log; those of the server.
pub(super) async fn open(place: &str, key: &VerifierKey) -> Result<(Source, String), Failure> {
    let is_whole = |(_, note): &(Source, Vec<u8>)| is_signed(note, key);
    let (source, note) = settled(|| located(place), is_whole).await?;
    let note = String::from_utf8(note).map_err(|_| {
        Failure::BadAnswer(format!("the checkpoint of the log at {place} is not text"))
    })?;
    Ok((source, note))
}

/// Whether the log's key has signed a checkpoint. While one is being written, its signature may be missing, cut, or of the one before.
fn is_signed(note: &[u8], key: &VerifierKey) -> bool {
    str::from_utf8(note).is_ok_and(|note| key.open(note).is_ok())
}

/// Reads a part of the log, once more after a moment unless it is whole: it may be just being written. The second reading counts. What is
/// given up has no signature or no form, so it proves nothing against the log.
async fn settled<T, F: Future<Output = Result<T, Failure>>>(
    read: impl Fn() -> F,
    is_whole: impl Fn(&T) -> bool,
) -> Result<T, Failure> {
    let first = read().await?;
    if is_whole(&first) {
        return Ok(first);
    }
    drop(first);
    sleep(WRITTEN_WITHIN).await;
    read().await
}

/// The log at an address or in a folder, and the bytes of its checkpoint.
async fn located(place: &str) -> Result<(Source, Vec<u8>), Failure> {
    let mut source = Source::new(place)?;
    for below in ["", "v1/ledger/"] {
        source = source.below(below);
        if let Ok(bytes) = source.get("checkpoint", MAX_NOTE_BYTES).await? {
            return Ok((source, bytes));
        }
    }
    let why = format!(
        "there is no log at {place}: it holds neither checkpoint nor v1/ledger/checkpoint. Give the address of the service, \
         of its log, or the folder of a mirror"
    );
    Err(match source {
        Source::Server { .. } => Failure::BadAnswer(why),
        Source::Folder(_) | Source::Database(_) => Failure::Usage(why),
    })
}

/// The log of an open database, and its checkpoint.
///
/// # Errors
/// Those of the store.
pub(super) fn of_database(service: &Arc<Service>) -> Result<(Source, String), Failure> {
    let note = block_in_place(|| ledger::checkpoint(service))?;
    Ok((Source::Database(Arc::clone(service)), note))
}

impl Source {
    fn new(place: &str) -> Result<Self, Failure> {
        if !place.starts_with("http://") && !place.starts_with("https://") {
            return Ok(Self::Folder(PathBuf::from(place)));
        }
        let mut prefix = http::base_url(place)?;
        if !prefix.path().ends_with('/') {
            let path = format!("{}/", prefix.path());
            prefix.set_path(&path);
        }
        let client = http::client(http::on_this_machine(&prefix), |client| {
            let client = client.connect_timeout(CONNECT);
            client.timeout(ANSWER).read_timeout(SILENCE)
        })?;
        Ok(Self::Server { client, prefix })
    }

    fn below(self, path: &str) -> Self {
        match self {
            Self::Server { client, mut prefix } => {
                let path = format!("{}{path}", prefix.path());
                prefix.set_path(&path);
                Self::Server { client, prefix }
            }
            Self::Folder(folder) => Self::Folder(folder.join(path)),
            Self::Database(service) => Self::Database(service),
        }
    }

    /// Reads a tile.
    async fn tile(&self, path: &TilePath) -> Fetched {
        // A database shows whole rows.
        let is_whole = |read: &Result<Vec<u8>, Absent>| {
            let has_form = read.as_ref().map_or(true, |bytes| has_form(path, bytes));
            has_form || matches!(self, Self::Database(_))
        };
        settled(|| self.tile_or_full(path), is_whole).await
    }

    /// Reads a tile. A log may delete a partial one once it holds the full one (C2SP tlog-tiles), of which it is the beginning.
    async fn tile_or_full(&self, path: &TilePath) -> Fetched {
        let got = self.get(&path.to_string(), most_bytes(path)).await?;
        let full = TilePath::new(path.kind(), path.index(), TILE_WIDTH);
        match (got, full) {
            (Err(Absent), Ok(full)) if path.is_partial() => {
                let got = self.get(&full.to_string(), most_bytes(&full)).await?;
                Ok(got.map(|bytes| beginning(path, bytes)))
            }
            (got, _) => Ok(got),
        }
    }

    /// Reads a file of the log, and no more than one byte beyond the most it can have, so that its length shows that it is
    /// wrong.
    async fn get(&self, path: &str, most: usize) -> Fetched {
        match self {
            Self::Server { client, prefix } => download(client, prefix, path, most).await,
            Self::Database(service) => {
                Ok(block_in_place(|| ledger::tile(service, path))?.ok_or(Absent))
            }
            Self::Folder(folder) => {
                let file = folder.join(path);
                let mut bytes = Vec::new();
                let read = File::open(&file)
                    .and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes));
                match read {
                    Ok(_) => Ok(Ok(bytes)),
                    Err(e) if e.kind() == ErrorKind::NotFound => Ok(Err(Absent)),
                    Err(e) => Err(Failure::Usage(format!(
                        "{} cannot be read: {e}",
                        file.display()
                    ))),
                }
            }
        }
    }
}

/// Whether these bytes are as long as the tile, or an entry bundle of its width.
fn has_form(path: &TilePath, bytes: &[u8]) -> bool {
    match path.kind() {
        TileKind::Hashes(_) => bytes.len() == most_bytes(path),
        TileKind::Entries => parse_bundle(bytes, path.width()).is_ok(),
    }
}

/// Cuts a partial tile from the full one. Bytes that are not a full tile are returned unchanged; whoever checks them refuses them.
fn beginning(path: &TilePath, full: Vec<u8>) -> Vec<u8> {
    let cut = match path.kind() {
        TileKind::Hashes(_) => path.cut(&full).map(<[u8]>::to_vec),
        TileKind::Entries => parse_bundle(&full, TILE_WIDTH).ok().and_then(|entries| {
            let entries = entries.into_iter().take(path.width());
            encode_bundle(entries).ok()
        }),
    };
    cut.unwrap_or(full)
}

async fn download(client: &Client, prefix: &Url, path: &str, most: usize) -> Fetched {
    let mut address = prefix.clone();
    address.set_path(&format!("{}{path}", prefix.path()));
    for attempt in 1.. {
        let sent = client.get(address.clone()).send().await;
        let response = sent.map_err(|e| unanswered(&address, &e))?;
        let status = response.status();
        match status {
            StatusCode::OK => return body(&address, response, most).await.map(Ok),
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Err(Absent)),
            // Stores of files answer so for one that they do not have. Of a tile, it is no proof that the log lacks it.
            StatusCode::FORBIDDEN if path == COSIGNED => return Ok(Err(Absent)),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                if attempt < ATTEMPTS =>
            {
                let asked = header(&response, RETRY_AFTER.as_str()).and_then(|s| s.parse().ok());
                let wait = asked.unwrap_or(1 << attempt).min(WAIT);
                sleep(Duration::from_secs(wait)).await;
            }
            _ => return Err(refused(&address, &response)),
        }
    }
    unreachable!("the last attempt ends in an answer")
}

async fn body(address: &Url, mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let unread = |e: reqwest::Error| unanswered(address, &e);
    while body.len() <= most
        && let Some(chunk) = response.chunk().await.map_err(unread)?
    {
        let room = most + 1 - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    Ok(body)
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name)?.to_str().ok()
}

fn refused(address: &Url, response: &Response) -> Failure {
    let status = response.status();
    if status.is_redirection() {
        let to =
            header(response, LOCATION.as_str()).map_or_else(String::new, |to| format!(" to {to}"));
        return Failure::BadAnswer(format!(
            "{address} redirects{to}. Give the log's final address"
        ));
    }
    Failure::BadAnswer(format!(
        "{address} answered {status}, so the log cannot be read. Is the address right?"
    ))
}

fn unanswered(address: &Url, error: &reqwest::Error) -> Failure {
    let why = if error.is_timeout() {
        "it did not answer in time".to_owned()
    } else {
        http::cause(error)
    };
    Failure::Unreachable(format!("the log at {address} cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use bookguard_core::ledger::cosignature::Cosigner;
    use bookguard_core::ledger::hash::EMPTY_ROOT;
    use bookguard_core::ledger::{Checkpoint, Signer};

    use super::*;

    /// The head of a request.
    fn head(mut socket: &TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        String::from_utf8(head).unwrap()
    }

    fn signer() -> Signer {
        Signer::from_seed("log.example", &[7; 32]).unwrap()
    }

    /// The address of a server that gives these answers, one after the other, and then no more.
    fn answering(answers: [Vec<u8>; 2]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for answer in answers {
                let mut socket = listener.accept().unwrap().0;
                head(&socket);
                let length = answer.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                socket
                    .write_all(&[head.as_bytes(), answer.as_slice()].concat())
                    .unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn a_checkpoint_that_is_just_being_written_is_read_again() {
        let note = Checkpoint::sign(&signer(), 0, EMPTY_ROOT);
        let other = Signer::from_seed("witness.example", &[7; 32]).unwrap();
        let unsigned = Checkpoint::sign(&other, 0, EMPTY_ROOT);
        let (text, signed) = note.split_once("\n\n").unwrap();
        let overwritten = format!("log.example\n1\n{}\n\n{signed}", EMPTY_ROOT.to_base64());
        let torn = [
            String::new(),
            text.to_owned(),
            format!("{text}\n\n"),
            note[..note.len() - 9].to_owned(),
            unsigned.clone(),
            overwritten,
        ];
        let reads = torn.map(|torn| {
            let at = answering([torn.into_bytes(), note.clone().into_bytes()]);
            tokio::spawn(async move { open(&at, signer().verifier()).await })
        });
        for read in reads {
            let (_, read) = read.await.unwrap().unwrap_or_else(|e| panic!("{e:?}"));
            assert_eq!(read, note);
        }
        // What stays so is shown to whoever judges it.
        let at = answering([text.as_bytes().to_vec(), unsigned.clone().into_bytes()]);
        let (_, read) = open(&at, signer().verifier())
            .await
            .unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(read, unsigned);
    }

    #[tokio::test]
    async fn a_tile_that_is_just_being_written_is_read_again() {
        let entries = encode_bundle([b"one".as_slice(), b"two".as_slice()]).unwrap();
        let tiles = [
            (TileKind::Entries, 2, entries),
            (TileKind::Hashes(0), 2, vec![7; 64]),
        ];
        let reads = tiles.map(|(kind, width, whole)| {
            let at = answering([whole[..whole.len() - 1].to_vec(), whole.clone()]);
            let path = TilePath::new(kind, 0, width).unwrap();
            let source = Source::new(&at).unwrap_or_else(|why| panic!("{}", why.reason()));
            tokio::spawn(async move { (source.tile(&path).await, whole) })
        });
        for read in reads {
            let (read, whole) = read.await.unwrap();
            assert!(matches!(read, Ok(Ok(bytes)) if bytes == whole));
        }
    }

    #[tokio::test]
    async fn tiles_that_are_on_their_way_are_given_up_when_one_before_them_is_wrong() {
        let path = |index| TilePath::new(TileKind::Entries, index, TILE_WIDTH).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = Source::new(&format!("http://{}", listener.local_addr().unwrap()));
        let source = Arc::new(source.unwrap_or_else(|why| panic!("{}", why.reason())));
        let first = format!("GET /{} ", path(0));
        let server = std::thread::spawn(move || {
            let accepted = (0..AT_ONCE).map(|_| listener.accept().unwrap().0);
            let mut asked: Vec<_> = accepted.map(|socket| (head(&socket), socket)).collect();
            let at = asked.iter().position(|(head, _)| head.starts_with(&first));
            let (_, mut socket) = asked.swap_remove(at.unwrap());
            let absent = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
            socket.write_all(absent).unwrap();
            // Nothing answers the others.
            let is_closed = |(_, mut socket): (String, TcpStream)| {
                socket.set_read_timeout(Some(SILENCE / 2)).unwrap();
                socket.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
            };
            asked.into_iter().map(is_closed).collect::<Vec<_>>()
        });
        let fetched = fetch::<String>(&source, (0..20).map(path), |_, _| Ok(Ok(()))).await;
        assert!(matches!(fetched, Ok(Err(_))));
        let closed = tokio::task::spawn_blocking(move || server.join().unwrap()).await;
        assert_eq!(closed.unwrap(), [true; AT_ONCE - 1]);
    }

    #[tokio::test]
    async fn a_cosigned_checkpoint_that_was_not_sent_is_not_one_that_is_missing() {
        let key = Cosigner::from_seed("witness.example.com/w", &[3; 32]);
        let key = key.unwrap().verifier();
        let policy = TrustPolicy::parse(&format!("witness w {key}\nquorum w\n")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = Source::new(&format!("http://{}", listener.local_addr().unwrap()));
        let source = source.unwrap_or_else(|why| panic!("{}", why.reason()));
        let server = std::thread::spawn(move || {
            for status in [
                "500 Internal Server Error",
                "404 Not Found",
                "403 Forbidden",
            ] {
                let mut socket = listener.accept().unwrap().0;
                assert!(head(&socket).starts_with("GET /cosigned-checkpoint "));
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                socket.write_all(answer.as_bytes()).unwrap();
            }
        });
        let log = signer();
        let read = || cosigned("here", (&source, "a newer one"), log.verifier(), &policy);
        let failed = read().await;
        assert!(matches!(failed, Err(Failure::BadAnswer(_))));
        for _ in 0..2 {
            let missing = read().await;
            assert!(matches!(missing, Ok(Err(Failure::NotVerified(_)))));
        }
        server.join().unwrap();
    }
}
