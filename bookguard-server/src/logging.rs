//! Writes the lines that this process logs to standard error.
//!
//! A command writes its lines as sentences for the person who called it. A server (`begin`) writes them as text or as JSON
//! through a queue and a thread of its own, so that whoever logs never waits: if nobody reads standard error, lines are lost,
//! and their number is told as soon as there is room. No crate does this: `tracing-appender` drops lines without telling the reader.
//! Invariant: each line is one line, whatever its values hold.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::limits::{LOG_LINES, LOG_TEXT_BYTES};
use bookguard_core::lines::{LEVELS, Line, LineSubscriber, Threshold};
use serde_json::Value;
use tracing::Level;

use crate::observer;

/// How long the end of a server may wait for its last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How often to tell of lost lines while more and more are lost.
const LOSS_TOLD: Duration = Duration::from_secs(1);

/// The form of a server's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

impl LogFormat {
    /// The words for the forms. `auto` is text on a terminal.
    pub(crate) fn words() -> [(&'static str, Self); 3] {
        let auto = match io::stderr().is_terminal() {
            true => Self::Text,
            false => Self::Json,
        };
        [("auto", auto), ("text", Self::Text), ("json", Self::Json)]
    }

    /// The bytes of a line logged at this time.
    fn write(self, at: &str, line: &Line) -> Vec<u8> {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = match self {
            Self::Text => {
                let level = line.level.to_uppercase();
                write!(text, "{at} {level:<5} {}", one_line(&line.message))
            }
            Self::Json => {
                let message = Value::from(short(&line.message));
                let level = line.level;
                write!(
                    text,
                    r#"{{"timestamp":"{at}","level":"{level}","message":{message}"#
                )
            }
        };
        for (name, value) in &line.fields {
            let value = match value {
                Value::String(value) => &Value::from(short(value)),
                value => value,
            };
            let _ = match (self, value) {
                (Self::Json, value) => write!(text, r#","{name}":{value}"#),
                (Self::Text, Value::String(word)) if is_plain(word) => {
                    write!(text, " {name}={word}")
                }
                (Self::Text, value) => write!(text, " {name}={}", one_line(&value.to_string())),
            };
        }
        text.push_str(match self {
            Self::Text => "\n",
            Self::Json => "}\n",
        });
        text.into_bytes()
    }
}

/// Whether a value needs no quotation marks in a text line.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

/// A text cut to what one line may hold of it.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOG_TEXT_BYTES)]
}

/// A text without characters that would end the line or move a terminal's cursor.
fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in short(text).chars() {
        match character.is_control() {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

/// The queue of a server. Until there is one, lines go to standard error as sentences.
static QUEUE: OnceLock<(LogFormat, Queue)> = OnceLock::new();
static THRESHOLD: OnceLock<Threshold> = OnceLock::new();

/// Whether lines are dropped.
static IS_HUSHED: AtomicBool = AtomicBool::new(false);

/// Lines on their way to a writer that may block.
struct Queue {
    sender: SyncSender<Job>,
    lost: Arc<AtomicU64>,
}

enum Job {
    Write(Vec<u8>),
    /// Everything before this is written.
    Flushed(Sender<()>),
}

/// Listens to what this process logs. Call this at its start; later calls do nothing.
pub fn listen() {
    let threshold = THRESHOLD.get_or_init(|| Threshold::new(Level::INFO));
    let subscriber = LineSubscriber::new(threshold.clone(), write);
    // An embedding program may have a subscriber of its own.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Drops every line from now on, for a command that breaks what it runs on purpose and says itself what came of it.
pub fn hush() {
    IS_HUSHED.store(true, Ordering::Relaxed);
}

/// Drops every line that is no warning from now on, for a command that tells its own story.
pub fn only_warnings() {
    set_level(Level::WARN);
}

fn write(mut line: Line) {
    if IS_HUSHED.load(Ordering::Relaxed) {
        return;
    }
    let Some((format, queue)) = QUEUE.get() else {
        // A failure is ignored: nobody is listening.
        let _ = writeln!(io::stderr(), "bookguard: {}", line.message);
        return;
    };
    if let Some(observed) = observer::current() {
        line.fields.extend(observed.fields());
    }
    queue.add(format.write(&now(), &line));
}

fn now() -> String {
    Clock::System.now().to_string()
}

/// From now on, lines are those of a server, in this form and from this level on. They are written out, as far as possible, when
/// the result is dropped. Later calls change only the level.
pub fn begin(format: LogFormat, level: Level) -> Flush {
    set_level(level);
    QUEUE.get_or_init(|| {
        let (queue, jobs) = Queue::new(LOG_LINES);
        let lost = Arc::clone(&queue.lost);
        let work = move || keep_writing(&jobs, &mut io::stderr(), format, &lost);
        // Without its thread, the queue fills up and its lines are lost; the server works all the same.
        let _ = std::thread::Builder::new().name("log".into()).spawn(work);
        // The usual hook would wait for whoever reads standard error.
        if THRESHOLD.get().is_some() {
            std::panic::set_hook(Box::new(|panic| {
                let place = panic
                    .location()
                    .map_or_else(String::new, ToString::to_string);
                let said = panic.payload_as_str().unwrap_or_default();
                tracing::error!("panicked at {place}, which is a fault in Bookguard: {said}");
            }));
        }
        (format, queue)
    });
    Flush
}

/// Changes the least important level that is logged.
pub(crate) fn set_level(level: Level) {
    if let Some(threshold) = THRESHOLD.get() {
        threshold.set(level);
    }
}

impl Queue {
    fn new(most: usize) -> (Self, Receiver<Job>) {
        let (sender, jobs) = sync_channel(most);
        let lost = Arc::default();
        (Self { sender, lost }, jobs)
    }

    /// Adds a line, or counts it as lost if there is no room. Never waits.
    fn add(&self, line: Vec<u8>) {
        if self.sender.try_send(Job::Write(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes lines until there are no senders. A failed write is ignored: nobody is listening.
fn keep_writing(
    jobs: &Receiver<Job>,
    out: &mut impl io::Write,
    format: LogFormat,
    lost: &AtomicU64,
) {
    let mut told = Instant::now();
    let mut next = jobs.recv().ok();
    while let Some(job) = next {
        match job {
            Job::Write(line) => drop(out.write_all(&line)),
            Job::Flushed(done) => drop(done.send(())),
        }
        next = jobs.try_recv().ok();
        if next.is_none() || told.elapsed() > LOSS_TOLD {
            let lost = lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let _ = out.write_all(&format.write(&now(), &loss(lost)));
                told = Instant::now();
            }
        }
        next = next.or_else(|| jobs.recv().ok());
    }
}

fn loss(lost: u64) -> Line {
    Line {
        level: LEVELS[1].0,
        message: format!(
            "{lost} lines of the log were lost: standard error was not read fast enough"
        ),
        fields: vec![("lost", lost.into())],
    }
}

/// Waits for the last lines when it is dropped.
#[must_use]
pub struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        let Some((_, queue)) = QUEUE.get() else {
            return;
        };
        let until = Instant::now() + LAST_LINES;
        let (done, flushed) = channel();
        let mut job = Job::Flushed(done);
        while let Err(TrySendError::Full(back)) = queue.sender.try_send(job) {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
            job = back;
        }
        let _ = flushed.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, fields: &[(&'static str, Value)]) -> Line {
        Line {
            level: "warn",
            message: message.to_owned(),
            fields: fields.to_vec(),
        }
    }

    fn written(format: LogFormat, line: &Line) -> String {
        String::from_utf8(format.write("2026-01-02T03:04:05.006Z", line)).unwrap()
    }

    #[test]
    fn a_line_is_one_line_whatever_it_holds() {
        let wild = "a\"b\n\u{1b}[2J\u{85}\u{2028}é";
        let fields = [("n", 3.into()), ("text", wild.into()), ("id", "x-1".into())];
        let wild = line(wild, &fields);
        let text = written(LogFormat::Text, &wild);
        assert!(text.starts_with("2026-01-02T03:04:05.006Z WARN  a\"b\\n\\u{1b}[2J"));
        assert!(text.ends_with(" id=x-1\n") && text.contains(" n=3 text=\""));
        let json = written(LogFormat::Json, &wild);
        for line in [&text, &json] {
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.contains('\u{1b}'), "{line}");
        }
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["level"], &read["n"]), (&"warn".into(), &3.into()));
        assert_eq!(read["text"], read["message"]);
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = "é".repeat(LOG_TEXT_BYTES);
        for format in [LogFormat::Text, LogFormat::Json] {
            let written = written(format, &line(&long, &[("cause", long.as_str().into())]));
            assert!(written.len() < 2 * LOG_TEXT_BYTES + 200);
        }
    }

    #[test]
    fn what_a_full_queue_loses_is_counted_and_told_when_there_is_room() {
        let (queue, jobs) = Queue::new(2);
        for number in 0..5 {
            queue.add(format!("{number}\n").into_bytes());
        }
        let lost = Arc::clone(&queue.lost);
        drop(queue);
        let mut out = Vec::new();
        keep_writing(&jobs, &mut out, LogFormat::Json, &lost);
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("0\n1\n{"), "{out}");
        assert!(out.ends_with(",\"lost\":3}\n"), "{out}");
    }
}
