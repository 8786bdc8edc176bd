//! The order in which a booking's facts can follow each other, defined once for all readers.
//!
//! ```text
//! created → (protected | rescheduled | accepted)* → (canceled → resolved → decided?)?
//!            at most once
//! ```
//!
//! How the delivery of an event ended may stand anywhere after the first, except between a cancellation and what it came to.
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
    /// Deliveries of its events ended, oldest first.
    pub settled: Vec<SettledFact<T>>,
    /// It was canceled.
    pub ending: Option<Ending<T>>,
}

/// The end of a delivery, and what had been recorded before it for an event to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledFact<T> {
    /// The fact.
    pub fact: T,
    /// Whether the booking had been protected.
    pub protected: bool,
    /// How many resolutions it had.
    pub resolutions: usize,
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
    /// # Errors
    /// The first fact that cannot stand where it does, or what is missing, in a sentence.
    pub fn of(facts: impl IntoIterator<Item = (LeafKind, T)>) -> Result<Self, String> {
        let mut facts = facts.into_iter();
        let created = match facts.next() {
            Some((LeafKind::BookingCreated, fact)) => fact,
            Some((kind, _)) => {
                return Err(format!("The first entry is {kind}, not booking.created."));
            }
            None => return Err("There are no entries.".to_owned()),
        };
        let mut so_far = SoFar {
            history: Self {
                created,
                protected: None,
                rescheduled: Vec::new(),
                accepted: Vec::new(),
                settled: Vec::new(),
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
            settled,
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
            (LeafKind::WebhookSettled, None, ending) => {
                settled.push(SettledFact {
                    fact,
                    protected: protected.is_some(),
                    resolutions: ending.iter().flat_map(|e| e.resolutions()).count(),
                });
                // What may follow is what might have followed without it.
                return Ok(());
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
        ResolutionCreated as R, TermsAccepted as A, WebhookSettled as W,
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
                settled: Vec::new(),
                ending: end,
            };
            assert_eq!(history(kinds), Ok(expected), "{kinds:?}");
        }
    }

    #[test]
    fn deliveries_end_at_any_time_and_change_nothing_else() {
        let all = [C, W, P, W, W, M, W, A, W, X, R, W, R, W];
        let bare: Vec<LeafKind> = all.into_iter().filter(|kind| *kind != W).collect();
        let found = history(&all).unwrap();
        let ended: Vec<_> = found
            .settled
            .iter()
            .map(|settled| (settled.fact, settled.protected, settled.resolutions))
            .collect();
        let expected = [
            (1, false, 0),
            (3, true, 0),
            (4, true, 0),
            (6, true, 0),
            (8, true, 0),
            (11, true, 1),
            (13, true, 2),
        ];
        assert_eq!(ended, expected);
        let kinds = |history: History<LeafKind>| History {
            settled: Vec::new(),
            ..history
        };
        let of = |list: &[LeafKind]| History::of(list.iter().map(|kind| (*kind, *kind))).unwrap();
        assert_eq!(kinds(of(&all)), kinds(of(&bare)));
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
            &[W],
            &[C, X, W],
            &[C, X, W, R],
            &[C, P, W, P],
            &[C, W, C],
        ] {
            assert!(history(kinds).is_err(), "{kinds:?}");
        }
        for kind in LeafKind::ALL {
            let known = matches!(kind, P | M | A | X | W);
            let follows = history(&[C, kind]).is_ok() || history(&[C, kind, R]).is_ok();
            assert_eq!(follows, known, "{kind}");
        }
    }
}
