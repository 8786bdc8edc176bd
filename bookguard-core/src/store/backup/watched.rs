//! A folder of backups that may not answer, as a server looks at it again and again.
//!
//! A network file system can hold whoever reads from it for ever. Invariants: one thread at most is held, and nobody else waits longer
//! than the patience.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::newest;
use crate::clock::Clock;
use crate::model::Timestamp;

/// How long to wait for a reading. A folder that answers does so within milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the last answer of a folder counts: longer than a file server takes to restart.
const COUNTS: Duration = Duration::from_secs(600);

type Read = dyn Fn(&Path) -> Option<Timestamp> + Send + Sync;

/// A folder of backups.
pub struct WatchedFolder {
    path: PathBuf,
    read: Arc<Read>,
    known: Arc<LastSeen>,
    patience: Duration,
    counts: Duration,
}

/// What was last seen of the folder.
struct LastSeen {
    state: Mutex<State>,
    /// Is notified when a reading ends.
    ended: Condvar,
}

struct State {
    is_reading: bool,
    newest: Option<Timestamp>,
    /// When the folder last answered; at first, since when it is watched.
    at: Instant,
}

impl WatchedFolder {
    /// Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        // A folder that cannot be read holds no backup that anybody could restore.
        Self::reading(path, |folder| {
            newest(folder, Clock::System.now()).ok().flatten()
        })
    }

    fn reading(
        path: PathBuf,
        read: impl Fn(&Path) -> Option<Timestamp> + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            is_reading: false,
            newest: None,
            at: Instant::now(),
        };
        Self {
            path,
            read: Arc::new(read),
            known: Arc::new(LastSeen {
                state: Mutex::new(state),
                ended: Condvar::new(),
            }),
            patience: PATIENCE,
            counts: COUNTS,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When the newest backup in it was made; `None` if there is none, or the folder cannot be read. If it does not answer within a
    /// second, its last answer counts, for ten minutes.
    pub fn newest(&self) -> Option<Timestamp> {
        let mut state = self.known.lock();
        if !state.is_reading {
            state.is_reading = self.begin();
        }
        let waited = self
            .known
            .ended
            .wait_timeout_while(state, self.patience, |state| state.is_reading);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let counts = state.at.elapsed() <= self.counts;
        state.newest.filter(|_| counts)
    }

    /// Begins a reading; false if the system gives no thread.
    fn begin(&self) -> bool {
        let (path, read) = (self.path.clone(), Arc::clone(&self.read));
        let known = Arc::clone(&self.known);
        let work = move || {
            let newest = read(&path);
            *known.lock() = State {
                is_reading: false,
                newest,
                at: Instant::now(),
            };
            known.ended.notify_all();
        };
        let thread = thread::Builder::new().name("backup-folder".to_owned());
        thread.spawn(work).is_ok()
    }
}

impl LastSeen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_folder_that_does_not_answer_holds_one_thread_and_nobody_else() {
        let (answer, answers) = mpsc::channel::<Option<Timestamp>>();
        let answers = Mutex::new(answers);
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let mut folder = WatchedFolder::reading(PathBuf::new(), move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            answers.lock().unwrap().recv().ok().flatten()
        });
        let [first, second] = ["2027-07-04T03:00:00Z", "2027-07-05T03:00:00Z"]
            .map(|text| Timestamp::parse(text).unwrap());
        folder.patience = Duration::from_secs(60);
        answer.send(Some(first)).unwrap();
        assert_eq!(folder.newest(), Some(first));
        folder.patience = Duration::from_millis(50);
        assert_eq!(folder.newest(), Some(first), "its last answer counts");
        assert_eq!(folder.newest(), Some(first));
        while begun.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        folder.counts = Duration::ZERO;
        assert_eq!(folder.newest(), None, "it did not answer for too long");
        assert_eq!(begun.load(Ordering::Relaxed), 2);
        folder.counts = COUNTS;
        answer.send(Some(second)).unwrap();
        let began = Instant::now();
        while folder.newest() != Some(second) {
            assert!(began.elapsed() < Duration::from_secs(60));
        }
    }
}
