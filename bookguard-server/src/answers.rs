//! Bounds the memory of answers that their clients have not read yet.
//!
//! hyper holds an answer until its client has taken it, so whoever asks for much and reads nothing would use up the memory of the
//! node. Small answers need no room: there are only so many connections. Each caller has a share of the rest, and the more others
//! hold, the smaller it is, so that a few callers cannot take it all; those that are known by their network only, of which somebody
//! may have many, have a quarter together. Once half of it is held, whoever reads too slowly is disconnected; once half of that
//! quarter is, whoever reads too slowly and is known by its network only. Invariant: an answer that finds no room is dropped at
//! once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bookguard_core::engine::outbox::partner_share;
use bookguard_core::error::{Error, Kind};
use bookguard_core::limits::{ANSWER_BYTES, FREE_ANSWER_BYTES};
use poem::Response;

use crate::payer::Payer;

/// The most bytes of callers that are known by their network only.
const NETWORKS_BYTES: usize = ANSWER_BYTES / 4;
/// When to try again: most answers are read within a second.
const AGAIN_S: u32 = 2;

/// The answers of a listener that are not read yet.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Unread>);

/// Bytes, in all, of networks, and by caller.
#[derive(Default)]
struct Unread {
    all: usize,
    networks: usize,
    by: HashMap<Payer, usize>,
}

/// The room of one answer, freed on drop.
pub(crate) struct AnswerRoom {
    answers: Arc<Answers>,
    payer: Payer,
    bytes: usize,
}

/// Beside a response: the bytes that it keeps in memory until it is sent, where its body does not show it.
#[derive(Clone, Copy)]
pub(crate) struct InMemory(pub usize);

impl Answers {
    /// Gives an answer its room beside it, to be kept until the answer is sent. Returns the answer that is to be sent.
    ///
    /// # Errors
    /// `too_many_unread_answers`.
    pub(crate) fn admit(
        self: &Arc<Self>,
        response: Response,
        payer: impl FnOnce() -> Payer,
    ) -> Result<Response, Error> {
        // A refusal must say what it says, and none is large.
        if !response.status().is_success() {
            return Ok(response);
        }
        let (mut head, body) = response.into_parts();
        // Only hyper's form of a response shows how long it is, and the way back from it would forget that.
        let body = hyper::Response::from(Response::from(body)).into_body();
        let whole = http_body::Body::size_hint(&body).exact();
        let bytes = match head.extensions.remove::<InMemory>() {
            Some(InMemory(bytes)) => bytes,
            None => whole.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        };
        if bytes > FREE_ANSWER_BYTES {
            let room = self.hold(payer(), bytes)?;
            head.extensions.insert(Arc::new(room));
        }
        Ok(Response::from_parts(head, body.into()))
    }

    pub(crate) fn hold(self: &Arc<Self>, payer: Payer, bytes: usize) -> Result<AnswerRoom, Error> {
        let mut unread = self.unread();
        let own = unread.by.get(&payer).copied().unwrap_or_default();
        let all = unread.all.saturating_add(bytes);
        let networks = unread.networks.saturating_add(of_network(payer, bytes));
        let share = match payer {
            Payer::Network(_) => partner_share(NETWORKS_BYTES, networks),
            Payer::Partner(_) | Payer::Operator => partner_share(ANSWER_BYTES, all),
        };
        // Whoever holds nothing may have one answer, whatever its share is.
        let fits = own == 0 || own.saturating_add(bytes) <= share;
        if all > ANSWER_BYTES || networks > NETWORKS_BYTES || !fits {
            return Err(unread_answers(own));
        }
        (unread.all, unread.networks) = (all, networks);
        unread.by.insert(payer, own + bytes);
        Ok(AnswerRoom {
            answers: Arc::clone(self),
            payer,
            bytes,
        })
    }

    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerRoom {
    /// Whether so much is held, by all or by callers of this kind, that whoever reads this slowly must go.
    pub(crate) fn is_scarce(&self) -> bool {
        let unread = self.answers.unread();
        unread.all > ANSWER_BYTES / 2
            || of_network(self.payer, unread.networks) > NETWORKS_BYTES / 2
    }
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        let mut unread = self.answers.unread();
        unread.all -= self.bytes;
        unread.networks -= of_network(self.payer, self.bytes);
        if let Some(own) = unread.by.get_mut(&self.payer) {
            *own -= self.bytes;
            if *own == 0 {
                unread.by.remove(&self.payer);
            }
        }
    }
}

/// The bytes, if this caller is known by its network only.
fn of_network(payer: Payer, bytes: usize) -> usize {
    match payer {
        Payer::Network(_) => bytes,
        Payer::Partner(_) | Payer::Operator => 0,
    }
}

fn unread_answers(own: usize) -> Error {
    let why = match own {
        0 => "The service has no memory for another answer until others are read.".to_owned(),
        own => format!(
            "Earlier answers that you have not read take {own} bytes of memory, and the service has no more for you. Read them, or close \
             their connections."
        ),
    };
    let message = format!(
        "{why} What you asked for was done; to get the answer, repeat the request in {AGAIN_S} s, a write with its Idempotency-Key."
    );
    Error {
        retry_after_s: Some(AGAIN_S),
        ..Error::new(Kind::Unavailable, "too_many_unread_answers", message)
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::model::PartnerId;

    use super::*;

    impl Answers {
        /// Lets other callers hold at least this many bytes.
        pub(crate) fn fill(self: &Arc<Self>, bytes: usize) -> Vec<AnswerRoom> {
            let pieces = 1_000..1_000 + bytes.div_ceil(PACKET);
            pieces
                .map(|n| self.hold(partner(n), PACKET).ok().unwrap())
                .collect()
        }

        pub(crate) fn is_empty(&self) -> bool {
            let unread = self.unread();
            unread.all == 0 && unread.networks == 0 && unread.by.is_empty()
        }
    }

    const PACKET: usize = 4 * 1024 * 1024;

    fn partner(n: usize) -> Payer {
        Payer::Partner(PartnerId::from_bytes((n as u128).to_be_bytes()))
    }

    /// As many answers of this size as this caller is given.
    fn all(answers: &Arc<Answers>, payer: Payer, bytes: usize) -> Vec<AnswerRoom> {
        std::iter::from_fn(|| answers.hold(payer, bytes).ok()).collect()
    }

    #[test]
    fn whoever_reads_nothing_gets_a_share_and_leaves_the_rest_to_others() {
        let answers = Arc::new(Answers::default());
        let first = all(&answers, partner(0), PACKET);
        assert_eq!(first.len() * PACKET, ANSWER_BYTES / 6 / PACKET * PACKET);
        let greedy: Vec<_> = (1..8)
            .flat_map(|n| all(&answers, partner(n), PACKET))
            .collect();
        assert!(answers.unread().all <= ANSWER_BYTES / 2 + PACKET);
        let others: Vec<_> = (8..32)
            .map(|n| answers.hold(partner(n), PACKET).ok().unwrap())
            .collect();
        let refused = answers.hold(partner(0), PACKET).err();
        let refused = refused.map(|error| (error.code.to_string(), error.retry_after_s));
        let expected = ("too_many_unread_answers".to_owned(), Some(AGAIN_S));
        assert_eq!(refused, Some(expected));
        drop((first, greedy, others));
        assert!(answers.is_empty());
    }

    #[test]
    fn somebody_with_many_networks_takes_a_quarter() {
        let answers = Arc::new(Answers::default());
        let network = |n: u32| Payer::at(Some(std::net::Ipv4Addr::from(n).into()));
        // One of them has a sixth of the quarter.
        let mut held = all(&answers, network(0), PACKET);
        assert_eq!(held.len(), NETWORKS_BYTES / 6 / PACKET);
        assert!(!held[0].is_scarce());
        held.extend((1..1_000).filter_map(|n| answers.hold(network(n), PACKET).ok()));
        assert_eq!(held.len(), NETWORKS_BYTES / PACKET);
        let other = answers.hold(partner(1), PACKET).ok().unwrap();
        assert!(held[0].is_scarce() && !other.is_scarce());
        drop((held, other));
        assert!(answers.is_empty() && answers.hold(network(1), PACKET).is_ok());
    }

    #[test]
    fn only_large_answers_take_room_and_what_is_shared_takes_none() {
        let answers = Arc::new(Answers::default());
        let asked = |bytes: usize, held: Option<usize>| {
            let mut response = Response::from(vec![b'x'; bytes]);
            if let Some(held) = held {
                response.extensions_mut().insert(InMemory(held));
            }
            let response = answers.admit(response, || partner(1)).ok().unwrap();
            let response = hyper::Response::from(response);
            let length = http_body::Body::size_hint(response.body()).exact();
            assert_eq!(length, Some(bytes as u64));
            (answers.unread().all, response)
        };
        for (bytes, held, expected) in [
            (FREE_ANSWER_BYTES, None, 0),
            (FREE_ANSWER_BYTES + 1, None, FREE_ANSWER_BYTES + 1),
            (PACKET, Some(0), 0),
            (1, Some(PACKET), PACKET),
        ] {
            assert_eq!(asked(bytes, held).0, expected);
            assert!(answers.is_empty());
        }
    }
}
