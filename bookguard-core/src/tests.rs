//! Helpers shared by the tests of several modules.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Whether everything is to be tried, which takes minutes (`.ci/nightly`), or what stands for the rest.
pub(crate) fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}

/// Processes all items on as many threads as there are cores; a free thread takes the next item. Each thread begins with
/// its own state; these states are returned.
///
/// Panics when one of them does.
pub(crate) fn shared_out<I: Sync, S: Send>(
    items: &[I],
    begin: impl Fn() -> S + Sync,
    each: impl Fn(&mut S, &I) + Sync,
) -> Vec<S> {
    let next = AtomicUsize::new(0);
    let go = || {
        let mut state = begin();
        while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
            each(&mut state, item);
        }
        state
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(go)).collect();
        started.into_iter().map(|t| t.join().unwrap()).collect()
    })
}
