//! The order in which a booking's facts can follow each other, told once for all who read them.
//!
//! ```text
//! created → (protected | rescheduled | accepted)* → (canceled → resolved → decided?)?
//!            at most once
//! ```
//!
//! Only kinds are looked at; what a fact says is for its readers. Invariant: a kind this program does not know, and a
//! known one where it cannot be, is refused and never passed over.

use crate::ledger::LeafKind;

/// A booking's facts by the part they play; `T` is whatever the reader has of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History<T> {
    /// It was recorded.
    pub created: T,
    /// It was protected.
    pub protected: Option<Since<T>>,
    /// Its event was moved, oldest first.
    pub rescheduled: Vec<T>,
    /// Its terms were accepted, oldest first.
    pub accepted: Vec<Since<T>>,
    /// It was canceled.
    pub ending: Option<Ending<T>>,
}

/// A fact that hangs on the terms in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since<T> {
    /// The fact.
    pub fact: T,
    /// How often the event had been moved before it.
    pub moves: usize,
}

/// A cancellation, which never comes without its resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending<T> {
    /// It was canceled.
    pub canceled: T,
    /// What that came to.
    pub resolved: T,
    /// What a person decided, where the first resolution left it open.
    pub decided: Option<T>,
}

impl<T> Ending<T> {
    /// The resolutions, oldest first.
    pub fn resolutions(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.resolved).chain(&self.decided)
    }
}

impl<T> History<T> {
    /// Sorts facts, oldest first.
    ///
    /// Errors: the first fact that cannot stand where it does, or what is missing, in a sentence.
    pub fn of(facts: impl IntoIterator<Item = (LeafKind, T)>) -> Result<Self, String> {
        let mut facts = facts.into_iter();
        let created = match facts.next() {
            Some((LeafKind::BookingCreated, fact)) => fact,
            Some((kind, _)) => {
                return Err(format!("The first entry is {kind}, not booking.created."));
            }
            None => return Err("There is no entry at all.".to_owned()),
        };
        let mut so_far = SoFar {
            history: Self {
                created,
                protected: None,
                rescheduled: Vec::new(),
                accepted: Vec::new(),
                ending: None,
            },
            canceled: None,
            last: LeafKind::BookingCreated,
        };
        for (kind, fact) in facts {
            so_far.take(kind, fact)?;
        }
        if so_far.canceled.is_some() {
            return Err(
                "The booking.canceled entry has no resolution.created after it.".to_owned(),
            );
        }
        Ok(so_far.history)
    }
}

/// A history under way.
struct SoFar<T> {
    history: History<T>,
    /// A cancellation whose resolution is still to come.
    canceled: Option<T>,
    last: LeafKind,
}

impl<T> SoFar<T> {
    fn take(&mut self, kind: LeafKind, fact: T) -> Result<(), String> {
        let History {
            protected,
            rescheduled,
            accepted,
            ending,
            ..
        } = &mut self.history;
        let moves = rescheduled.len();
        match (kind, self.canceled.take(), ending) {
            (LeafKind::BookingProtected, None, None) if protected.is_none() => {
                *protected = Some(Since { fact, moves });
            }
            (LeafKind::BookingRescheduled, None, None) => rescheduled.push(fact),
            (LeafKind::TermsAccepted, None, None) => accepted.push(Since { fact, moves }),
            (LeafKind::BookingCanceled, None, None) => self.canceled = Some(fact),
            (LeafKind::ResolutionCreated, Some(canceled), ending @ None) => {
                *ending = Some(Ending {
                    canceled,
                    resolved: fact,
                    decided: None,
                });
            }
            (LeafKind::ResolutionCreated, None, Some(ending)) if ending.decided.is_none() => {
                ending.decided = Some(fact);
            }
            _ => {
                return Err(format!(
                    "After {} stands {kind}, which cannot follow it or which this version of Bookguard does not know there.",
                    self.last
                ));
            }
        }
        self.last = kind;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LeafKind::{
        BookingCanceled as X, BookingCreated as C, BookingProtected as P, BookingRescheduled as M,
        ResolutionCreated as R, TermsAccepted as A,
    };

    fn history(kinds: &[LeafKind]) -> Result<History<usize>, String> {
        History::of(kinds.iter().copied().zip(0..))
    }

    #[test]
    fn the_orders_that_the_rules_allow_are_read() {
        let ending = |at: usize, decided| {
            Some(Ending {
                canceled: at,
                resolved: at + 1,
                decided,
            })
        };
        let after = |moves, fact| Some(Since { fact, moves });
        let accepted = |list: &[(usize, usize)]| -> Vec<Since<usize>> {
            let since = |&(moves, fact)| Since { fact, moves };
            list.iter().map(since).collect()
        };
        let all = history(&[C, A, P, A, M, A, A, X, R]).unwrap();
        assert_eq!(all.accepted, accepted(&[(0, 1), (0, 3), (1, 5), (1, 6)]));
        for (kinds, protected, rescheduled, end) in [
            (&[C][..], None, &[][..], None),
            (&[C, P], after(0, 1), &[], None),
            (&[C, M], None, &[1], None),
            (&[C, M, P, M], after(1, 2), &[1, 3], None),
            (&[C, P, M, M, X, R], after(0, 1), &[2, 3], ending(4, None)),
            (&[C, X, R], None, &[], ending(1, None)),
            (&[C, X, R, R], None, &[], ending(1, Some(3))),
            (&[C, P, X, R], after(0, 1), &[], ending(2, None)),
            (&[C, P, X, R, R], after(0, 1), &[], ending(2, Some(4))),
        ] {
            let expected = History {
                created: 0,
                protected,
                rescheduled: rescheduled.to_vec(),
                accepted: Vec::new(),
                ending: end,
            };
            assert_eq!(history(kinds), Ok(expected), "{kinds:?}");
        }
    }

    #[test]
    fn every_other_order_is_refused() {
        for kinds in [
            &[][..],
            &[P],
            &[X, R],
            &[C, C],
            &[C, P, P],
            &[C, P, M, P],
            &[M],
            &[C, X, M],
            &[C, X, M, R],
            &[A],
            &[C, X, A],
            &[C, X, A, R],
            &[C, X, R, A],
            &[C, X, R, M],
            &[C, R],
            &[C, P, R],
            &[C, X],
            &[C, P, X],
            &[C, X, X],
            &[C, X, P],
            &[C, X, X, R],
            &[C, X, P, R],
            &[C, X, R, P],
            &[C, X, R, X],
            &[C, X, R, C],
            &[C, X, R, R, R],
            &[C, X, R, X, R],
        ] {
            assert!(history(kinds).is_err(), "{kinds:?}");
        }
        for kind in LeafKind::ALL {
            let known = matches!(kind, P | M | A | X);
            let follows = history(&[C, kind]).is_ok() || history(&[C, kind, R]).is_ok();
            assert_eq!(follows, known, "{kind}");
        }
    }
}
