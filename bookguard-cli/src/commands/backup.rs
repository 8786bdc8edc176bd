//! `backup`: copies a database file into another file while it stays in use, once or again and again.
//!
//! The store copies, verifies and deletes; this file asks for it and shows the result. That is done on a thread of its own, so
//! that a signal ends the command at once; drafts are removed.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bookguard_core::clock::Clock;
use bookguard_core::key_file::LedgerKeySource;
use bookguard_core::limits::BACKUPS_KEPT;
use bookguard_core::store::backup::{
    self, BackedUp, BackupCheck, BackupError, BackupFolder, KeptBackup, newest,
};
use bookguard_server::config::Config;
use bookguard_server::{Signal, told_to_end};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::declare::{Call, CliCommand, alone};
use crate::args::period_ms;
use crate::failure::Failure;
use crate::files::named;
use crate::output::bar::Bar;
use crate::output::table::{counted, grouped};
use crate::output::{Screen, error_format, say};
use crate::text::plain;

/// How many backups stay if the user does not say.
const KEEP: u32 = 14;
/// How long to wait after a backup that failed.
const AGAIN: Duration = Duration::from_secs(15 * 60);
/// The longest time that a flag may give, in seconds: a year.
const DURATION_MAX: u64 = 366 * 24 * 60 * 60;

#[derive(Debug, Args)]
struct BackupArgs {
    /// The file to make; with --keep or --every, the folder for the files, which are named by their time [default then:
    /// backup_folder]. No backup contains the ledger key
    #[arg(value_name = "FILE|FOLDER", value_parser = named(), required_unless_present_any = ["keep", "every"])]
    to: Option<PathBuf>,
    /// Verify the backup, then delete all but the newest N backups in the folder [default with --every: 14]
    #[arg(long, value_name = "N", value_parser = kept)]
    keep: Option<u32>,
    /// Back up again and again, as often as this, such as 24h, until stopped
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
}

/// How many backups to keep.
fn kept(typed: &str) -> Result<u32, String> {
    let number = typed.parse::<u32>().ok();
    let number = number.filter(|number| (1..=BACKUPS_KEPT).contains(number));
    number.ok_or_else(|| format!("write a whole number from 1 to {BACKUPS_KEPT}, such as {KEEP}"))
}

pub(super) fn command() -> CliCommand {
    let about = "Copy a database into one file, even while a server runs on it";
    alone("backup", about, run).with::<BackupArgs>()
}

/// Makes a backup, or one after another.
///
/// # Errors
/// [`Failure::Usage`] on a server, [`Failure::Refused`] for a file that exists or a database that cannot be copied,
/// [`Failure::NotVerified`] for a copy that does not verify, [`Failure::Unexpected`] for everything that failed.
async fn run(call: Call<'_>) -> Result<(), Failure> {
    let BackupArgs { to, keep, every } = call.args()?;
    let config = call.config()?;
    let every = every.as_deref().map(|time| duration("--every", time));
    let every = every.transpose()?;
    let mut ending = Ending::new()?;
    if let (None, None, Some(file)) = (keep, every, &to) {
        return into_file(&config, file, &mut ending, call.screen).await;
    }
    let folder = to.or_else(|| config.backup_folder.clone()).ok_or_else(|| {
        Failure::Usage("name the folder of the backups, or set backup_folder".to_owned())
    })?;
    let errors = error_format(call.place.output);
    let mut into = IntoFolder {
        check: check_of(&config),
        config,
        unchecked: None,
        keep: keep.unwrap_or(KEEP) as usize,
        ending,
        folder,
    };
    let Some(every) = every else {
        let Some(kept) = into.back_up().await else {
            return Err(stopped());
        };
        let kept = kept?;
        return call.screen.said(&json_of(&kept), |_| told_of(&kept));
    };
    let mut lines = call.screen.lines()?;
    // A folder that cannot be used fails now, not again and again.
    drop(BackupFolder::open(&into.folder)?);
    let mut wait = into.due_in(every);
    while timeout(wait, into.ending.told()).await.is_err() {
        let since = into.unchecked.map(|at| at.elapsed());
        if is_in_vain(since, every, into.check.has_key()) {
            wait = every.min(AGAIN);
            continue;
        }
        match into.back_up().await {
            None => break,
            Some(Ok(kept)) => {
                lines.show(&json_of(&kept), |_| told_of(&kept))?;
                wait = into.due_in(every);
            }
            // Another backup ends soon.
            Some(Err(failure @ Failure::Refused(_))) if !failure.is("backup_running") => {
                return Err(failure);
            }
            Some(Err(failure)) => {
                say(&failure.text(errors).unwrap_or_default());
                wait = every.min(AGAIN);
            }
        }
    }
    Ok(())
}

/// Whether another backup would only be set aside like the last one, for whose check there was no ledger key, this long ago.
fn is_in_vain(since: Option<Duration>, every: Duration, has_key: bool) -> bool {
    !has_key && since.is_some_and(|since| since < every)
}

/// Backups into a folder.
struct IntoFolder {
    config: Config,
    check: BackupCheck,
    folder: PathBuf,
    keep: usize,
    ending: Ending,
    /// When a copy was set aside last, because there was no ledger key for its check.
    unchecked: Option<Instant>,
}

impl IntoFolder {
    /// How long until the next backup is due. The newest one may be another process's.
    fn due_in(&self, every: Duration) -> Duration {
        let now = Clock::System.now();
        let newest = newest(&self.folder, now).ok().flatten();
        let since = newest.map(|newest| now.ms().saturating_sub(newest.ms()));
        let since = since.map_or(every, |ms| {
            Duration::from_millis(ms.try_into().unwrap_or(0))
        });
        every.saturating_sub(since)
    }

    /// Makes one backup; `None` if told to end before it was whole.
    async fn back_up(&mut self) -> Option<Result<KeptBackup, Failure>> {
        let folder = match BackupFolder::open(&self.folder) {
            Ok(folder) => folder,
            Err(error) => return Some(Err(error.into())),
        };
        let db = self.config.db.clone();
        let (check, keep) = (self.check.clone(), self.keep);
        let reserve = self.config.min_free_disk;
        let work = move |progress: Progress<'_>| match folder
            .back_up(&db, &check, keep, reserve, progress)
        {
            Err(BackupError::Unchecked(why)) => Ok(Err(why)),
            made => made.map(Ok),
        };
        let made = self.ending.while_working(work).await?;
        Some(made.and_then(|made| {
            made.map_err(|why| {
                self.unchecked = Some(Instant::now());
                Failure::Unexpected(why)
            })
        }))
    }
}

/// The callback that draws the progress of a backup or a restore.
pub(super) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Waits to be told to end.
pub(super) struct Ending {
    signals: UnboundedReceiver<Signal>,
    is_told: bool,
}

impl Ending {
    /// # Errors
    /// [`Failure::Unexpected`] if signals cannot be watched.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            signals: bookguard_server::signals().map_err(Failure::Unexpected)?,
            is_told: false,
        })
    }

    /// Resolves when the process is told to end, and at once if it was.
    pub(super) async fn told(&mut self) {
        if !self.is_told {
            told_to_end(&mut self.signals, || {}).await;
            self.is_told = true;
        }
    }

    /// Backs up or restores on a thread of its own, and shows the progress; `None` if told to end before that was done. Then
    /// nothing is left of it.
    pub(super) async fn while_working<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Progress<'_>) -> Result<T, BackupError> + Send + 'static,
    ) -> Option<Result<T, Failure>> {
        let (tell, mut done) = oneshot::channel();
        let work = move || {
            let made = Bar::during(work);
            // Nobody waits for it any more if the command ends.
            let _ = tell.send(made.map_err(Failure::from));
        };
        if let Err(error) = thread::Builder::new().spawn(work) {
            let why = format!("a thread cannot be started: {error}");
            return Some(Err(Failure::Unexpected(why)));
        }
        let result = |made: Result<_, _>| {
            made.unwrap_or_else(|_| {
                let why = "the work ended without a result";
                Err(Failure::Unexpected(why.to_owned()))
            })
        };
        tokio::select! {
            made = &mut done => Some(result(made)),
            () = self.told() => match block_in_place(backup::give_up) {
                true => None,
                // The file already had its final name, so the result is reported after all.
                false => Some(result(done.await)).filter(Result::is_ok),
            }
        }
    }
}

/// The check of a backup of this database.
pub(super) fn check_of(config: &Config) -> BackupCheck {
    let (key, guard) = (config.ledger_key.clone(), config.guard_file.clone());
    BackupCheck::new(&config.db, key, guard)
}

fn stopped() -> Failure {
    Failure::Unexpected("stopped before the backup was whole; nothing is left of it".to_owned())
}

/// A time that this flag gives, such as `24h`, from a second to a year.
pub(super) fn duration(flag: &str, text: &str) -> Result<Duration, Failure> {
    let seconds = period_ms(text).and_then(|ms| u64::try_from(ms / 1000).ok());
    seconds
        .filter(|seconds| (1..=DURATION_MAX).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| {
            Failure::Usage(format!(
                "{flag} is \"{}\"; it must be a time such as 24h, 30m or 7d, 366d at most",
                plain(text)
            ))
        })
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Refused(error) => error.into(),
            BackupError::NotVerified(why) => Self::NotVerified(why),
            BackupError::Failed(why) | BackupError::Unchecked(why) => Self::Unexpected(why),
        }
    }
}

async fn into_file(
    config: &Config,
    file: &Path,
    ending: &mut Ending,
    screen: &Screen,
) -> Result<(), Failure> {
    let (db, to) = (config.db.clone(), file.to_owned());
    let reserve = config.min_free_disk;
    let work = move |progress: Progress<'_>| backup::backup(&db, &to, reserve, progress);
    let made = ending.while_working(work).await;
    let made = made.unwrap_or_else(|| Err(stopped()))?;
    let key = check_of(config).ledger_key;
    let mut value = members(&made, file);
    value["ledgerKey"] = json!(key.path());
    screen.said(&value, |_| in_words(&made, file, &key))
}

/// What programs read of a backup.
pub(super) fn members(made: &BackedUp, file: &Path) -> Value {
    json!({
        "file": file,
        "bytes": made.bytes,
        "origin": made.origin,
        "treeSize": made.size,
        "rootHash": made.root,
        "seconds": made.elapsed.as_secs_f64(),
    })
}

/// What people read of it.
pub(super) fn held(made: &BackedUp, file: &Path) -> String {
    format!(
        "{}: {} bytes in {:.2} s.\nThe ledger {} with {} and the root {}.",
        file.display(),
        grouped(made.bytes),
        made.elapsed.as_secs_f64(),
        made.origin,
        counted(made.size, "entry"),
        made.root,
    )
}

fn in_words(made: &BackedUp, file: &Path, key: &LedgerKeySource) -> String {
    let flag = key.path().map_or_else(String::new, |path| {
        format!(" --ledger-key {}", path.display())
    });
    format!(
        "{}\n\
         Keep {key} in another place: it is not in the backup, and the backup is useless without it. To check the backup:\n  \
         bookguard ledger verify --backup --db {}{flag}",
        held(made, file),
        file.display(),
    )
}

fn json_of(kept: &KeptBackup) -> Value {
    let mut value = members(&kept.made, &kept.file);
    value["verified"] = "ledger".into();
    // Every backup that is kept was checked; the member stays for programs that read it.
    value["unchecked"] = Value::Null;
    value["deleted"] = json!(kept.deleted);
    value["warnings"] = json!(kept.warnings);
    value
}

fn told_of(kept: &KeptBackup) -> String {
    let mut lines = vec![held(&kept.made, &kept.file)];
    lines.push("Verified: the ledger and every row agree.".to_owned());
    let deleted = kept.deleted.iter();
    lines.extend(deleted.map(|file| format!("Deleted {}.", file.display())));
    let warnings = kept.warnings.iter();
    lines.extend(warnings.map(|warning| format!("warning: {}", plain(warning))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_key_no_more_copies_are_made_than_with_it() {
        let [every, hour] = [24, 1].map(|hours| Duration::from_secs(hours * 60 * 60));
        for (since, has_key, expected) in [
            (None, false, false),
            (Some(hour), false, true),
            (Some(hour), true, false),
            (Some(every), false, false),
        ] {
            assert_eq!(is_in_vain(since, every, has_key), expected, "{since:?}");
        }
    }

    #[test]
    fn a_time_has_a_unit_and_bounds() {
        for (text, seconds) in [
            ("1s", Some(1)),
            ("30m", Some(1_800)),
            ("24h", Some(86_400)),
            ("366d", Some(DURATION_MAX)),
            ("367d", None),
            ("0h", None),
            ("24", None),
            ("h", None),
            ("-1h", None),
            ("+1h", None),
            ("1.5h", None),
            ("24H", None),
            ("99999999999999999999d", None),
            ("9999999999999999d", None),
        ] {
            let read = duration("--every", text).ok().map(|time| time.as_secs());
            assert_eq!(read, seconds, "{text}");
        }
    }
}
