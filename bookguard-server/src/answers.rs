//! Bounds the memory of answers that their clients have not read yet.
//!
//! hyper holds an answer until its client has taken it, so whoever asks for much and reads nothing would use up the memory of the
//! node. Small answers need no room: there are only so many connections. Each caller has a share of the rest, and the more others
//! hold, the smaller it is, so that a few callers cannot take it all. Invariant: an answer that finds no room is dropped at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bookguard_core::engine::outbox::partner_share;
use bookguard_core::error::{Error, Kind};
use bookguard_core::limits::{ANSWER_BYTES, FREE_ANSWER_BYTES};
use poem::Response;

use crate::payer::Payer;

/// When to try again: an answer that is read at all is read within seconds.
const AGAIN_S: u32 = 2;

/// The answers of a listener that are not read yet.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Unread>);

/// Bytes, in all and by caller.
#[derive(Default)]
struct Unread {
    all: usize,
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
        let mut response = hyper::Response::from(response);
        let whole = http_body::Body::size_hint(response.body()).exact();
        let bytes = match response.extensions_mut().remove::<InMemory>() {
            Some(InMemory(bytes)) => bytes,
            None => whole.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        };
        if bytes > FREE_ANSWER_BYTES {
            let room = self.hold(payer(), bytes)?;
            response.extensions_mut().insert(Arc::new(room));
        }
        Ok(Response::from(response))
    }

    fn hold(self: &Arc<Self>, payer: Payer, bytes: usize) -> Result<AnswerRoom, Error> {
        let mut unread = self.unread();
        let own = unread.by.get(&payer).copied().unwrap_or_default();
        let all = unread.all.saturating_add(bytes);
        // Whoever holds nothing may always have one answer.
        let fits = own == 0 || own.saturating_add(bytes) <= partner_share(ANSWER_BYTES, all);
        if all > ANSWER_BYTES || !fits {
            return Err(unread_answers(own));
        }
        unread.all = all;
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

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        let mut unread = self.answers.unread();
        unread.all -= self.bytes;
        if let Some(own) = unread.by.get_mut(&self.payer) {
            *own -= self.bytes;
            if *own == 0 {
                unread.by.remove(&self.payer);
            }
        }
    }
}

fn unread_answers(own: usize) -> Error {
    let why = match own {
        0 => "The service has no memory for another answer until others are read.".to_owned(),
        own => format!(
            "You have not read {own} bytes of earlier answers, and the service has no memory for more of yours. Read them, or close their \
             connections."
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
        for n in 8..38 {
            assert!(answers.hold(partner(n), PACKET).is_ok(), "{n}");
        }
        let refused = answers.hold(partner(0), PACKET).err();
        let refused = refused.map(|error| (error.code.to_string(), error.retry_after_s));
        let expected = ("too_many_unread_answers".to_owned(), Some(AGAIN_S));
        assert_eq!(refused, Some(expected));
        drop((first, greedy));
        assert_eq!(answers.unread().all, 0);
        assert!(answers.unread().by.is_empty());
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
            (answers.unread().all, response)
        };
        for (bytes, held, expected) in [
            (FREE_ANSWER_BYTES, None, 0),
            (FREE_ANSWER_BYTES + 1, None, FREE_ANSWER_BYTES + 1),
            (PACKET, Some(0), 0),
            (1, Some(PACKET), PACKET),
        ] {
            assert_eq!(asked(bytes, held).0, expected);
            assert_eq!(answers.unread().all, 0);
        }
    }
}
