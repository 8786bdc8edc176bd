//! A runtime for tests that count threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs work on this thread, and returns how many other threads the runtime started for it. A thread of tokio's blocking pool
/// may start late, so they are counted when all have ended.
pub(crate) fn threads_started_by(work: impl Future<Output = ()>) -> usize {
    let threads = Arc::new(AtomicUsize::new(0));
    let started = Arc::clone(&threads);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .on_thread_start(move || {
            started.fetch_add(1, Ordering::AcqRel);
        })
        .build()
        .unwrap();
    runtime.block_on(work);
    drop(runtime);
    threads.load(Ordering::Acquire)
}
