//! How many of something each caller has under way at a time, and the most that it may have.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are under way, by caller.
#[derive(Debug)]
pub(crate) struct UnderWay<K> {
    /// The most of one caller.
    each: usize,
    /// The most of all callers together.
    all: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// One thing that is under way. Dropping it lets the next begin.
#[derive(Debug)]
pub(crate) struct OneUnderWay<K: Copy + Eq + Hash> {
    among: Arc<UnderWay<K>>,
    whose: K,
}

/// Why nothing more begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The caller has as many as it may.
    Own,
    /// All together have as many as they may.
    All,
}

impl<K: Copy + Eq + Hash> UnderWay<K> {
    pub(crate) fn new(each: usize, all: usize) -> Arc<Self> {
        Arc::new(Self {
            each,
            all,
            counts: Mutex::default(),
        })
    }

    /// Begins one more of this caller.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn begin(self: &Arc<Self>, whose: K) -> Result<OneUnderWay<K>, Full> {
        let mut counts = self.counts();
        let own = counts.get(&whose).copied().unwrap_or_default();
        if own >= self.each {
            return Err(Full::Own);
        }
        if self.are_all(&counts) {
            return Err(Full::All);
        }
        counts.insert(whose, own + 1);
        Ok(OneUnderWay {
            among: Arc::clone(self),
            whose,
        })
    }

    /// Whether all together have as many as they may.
    pub(crate) fn is_full(&self) -> bool {
        self.are_all(&self.counts())
    }

    fn are_all(&self, counts: &HashMap<K, usize>) -> bool {
        counts.values().sum::<usize>() >= self.all
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash> Drop for OneUnderWay<K> {
    fn drop(&mut self) {
        let mut counts = self.among.counts();
        if let Some(own) = counts.get_mut(&self.whose) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_share_and_all_together_have_theirs() {
        let under_way = UnderWay::new(2, 3);
        let mut begun: Vec<OneUnderWay<char>> = Vec::new();
        for whose in ['a', 'a', 'b'] {
            begun.push(under_way.begin(whose).unwrap());
        }
        assert_eq!(under_way.begin('a').map(drop), Err(Full::Own));
        assert_eq!(under_way.begin('b').map(drop), Err(Full::All));
        assert!(under_way.is_full());
        begun.pop();
        begun.push(under_way.begin('c').unwrap());
        begun.clear();
        assert!(under_way.counts().is_empty(), "nobody is remembered");
    }
}
