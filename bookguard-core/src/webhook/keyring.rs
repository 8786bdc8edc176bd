//! Which of several secrets sign, and when. A secret takes over from another so that a receiver that knows only one of them
//! never refuses a delivery.
//!
//! Pure: the caller brings the clock. Invariant: from the first secret on, there is always one in force.

use super::Secret;
use crate::model::Timestamp;

/// When a secret was made, and when it takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretTerm {
    /// When it was made; from then on its signature is in `webhook-signature`. Unique among the secrets of one owner.
    pub made: Timestamp,
    /// When it takes over. A time not after `made` means at once, even if another node's clock differs.
    pub from: Timestamp,
}

impl SecretTerm {
    /// The term of a secret that has no predecessor, or replaces it at once.
    pub fn at_once(made: Timestamp) -> Self {
        Self { made, from: made }
    }

    /// Whether it has taken over by `at`.
    fn is_in_force(self, at: Timestamp) -> bool {
        self.from <= self.made || self.from <= at
    }
}

/// A secret and its term.
#[derive(Debug, Clone)]
pub struct DatedSecret {
    /// Its term.
    pub term: SecretTerm,
    /// The secret.
    pub secret: Secret,
}

/// The index of the first secret that signs at `at`, in `terms` ordered by when they were made: the last that has taken
/// over. Those after it sign too, and take over later. `None` if none has taken over.
pub fn first_valid(terms: &[SecretTerm], at: Timestamp) -> Option<usize> {
    terms.iter().rposition(|term| term.is_in_force(at))
}

/// The secrets of a partner, and those of one of its endpoints, in any order.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    partners: Vec<DatedSecret>,
    endpoints: Vec<DatedSecret>,
}

impl Keyring {
    /// Makes a keyring. An endpoint without secrets of its own uses its partner's.
    pub fn new(mut partners: Vec<DatedSecret>, mut endpoints: Vec<DatedSecret>) -> Self {
        partners.sort_by_key(|dated| dated.term);
        endpoints.sort_by_key(|dated| dated.term);
        Self {
            partners,
            endpoints,
        }
    }

    /// The secrets that sign at `at`: first the one in force, which alone makes `x-service-signature`, then those that will
    /// take over.
    pub fn signing(&self, at: Timestamp) -> Vec<&Secret> {
        let signing: Vec<&DatedSecret> = match valid(&self.endpoints, at) {
            Some(first) => self.endpoints[first..].iter().collect(),
            // The partner's secrets, until the endpoint's first one takes over.
            None => {
                let first = valid(&self.partners, at).unwrap_or(0);
                self.partners[first..]
                    .iter()
                    .chain(&self.endpoints)
                    .collect()
            }
        };
        signing.into_iter().map(|dated| &dated.secret).collect()
    }
}

fn valid(secrets: &[DatedSecret], at: Timestamp) -> Option<usize> {
    let terms: Vec<SecretTerm> = secrets.iter().map(|dated| dated.term).collect();
    first_valid(&terms, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(name: &str, made: i64, from: i64) -> DatedSecret {
        DatedSecret {
            term: SecretTerm {
                made: Timestamp::from_ms(made),
                from: Timestamp::from_ms(from),
            },
            secret: Secret::new(name),
        }
    }

    fn signing(keyring: &Keyring, at: i64) -> String {
        let signing = keyring.signing(Timestamp::from_ms(at));
        let names: Vec<&str> = signing.iter().map(|secret| secret.reveal()).collect();
        names.join(" ")
    }

    #[test]
    fn the_old_secret_signs_first_until_the_new_one_takes_over() {
        let keyring = Keyring::new(vec![dated("new", 100, 500), dated("old", 0, 0)], vec![]);
        for (at, expected) in [
            (100, "old new"),
            (499, "old new"),
            (500, "new"),
            (9_999, "new"),
        ] {
            assert_eq!(signing(&keyring, at), expected, "at {at}");
        }
    }

    #[test]
    fn each_rotation_takes_over_in_time_and_an_immediate_one_ends_them_all() {
        let first = vec![dated("a", 0, 0), dated("b", 100, 500), dated("c", 200, 700)];
        let keyring = Keyring::new(first.clone(), vec![]);
        for (at, expected) in [(200, "a b c"), (500, "b c"), (700, "c")] {
            assert_eq!(signing(&keyring, at), expected, "at {at}");
        }
        let ended = Keyring::new([first, vec![dated("d", 300, 300)]].concat(), vec![]);
        // A node whose clock is behind signs with it too.
        for at in [0, 299, 300, 800] {
            assert_eq!(signing(&ended, at), "d", "at {at}");
        }
    }

    #[test]
    fn an_endpoints_own_secret_takes_over_from_the_partners() {
        let partners = vec![dated("p", 0, 0), dated("q", 50, 5_000)];
        let changed = Keyring::new(partners.clone(), vec![dated("e", 100, 500)]);
        assert_eq!(signing(&changed, 499), "p q e");
        assert_eq!(signing(&changed, 500), "e");
        let born = Keyring::new(partners.clone(), vec![dated("e", 100, 100)]);
        assert_eq!(signing(&born, 0), "e");
        assert_eq!(signing(&Keyring::new(partners, vec![]), 500), "p q");
    }

    #[test]
    fn with_a_secret_there_is_always_one_that_signs() {
        assert_eq!(signing(&Keyring::default(), 0), "");
        let future = Keyring::new(vec![dated("p", 100, 500)], vec![]);
        assert_eq!(signing(&future, 0), "p");
    }
}
