//! How far a connection is: what has arrived, what is being sent, and by when more must happen.
//!
//! hyper looks neither at the client nor at the time while a request is worked on, and knows nothing of a client that takes its
//! answer byte by byte. So every step is noted here, and the connection ends when it is late. Invariant: nothing here waits or reads
//! a clock.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::limits::{ANSWER_BYTES_PER_S, SCARCE_ANSWER_BYTES_PER_S};
use tokio::time::Instant;

use super::{IDLE, REQUEST};
use crate::answers::AnswerRoom;

/// How far a client may fall behind [`SCARCE_ANSWER_BYTES_PER_S`].
const SCARCE_GRACE: Duration = Duration::from_secs(10);
/// How often to look at a connection that may become late sooner than it was.
const LOOK: Duration = Duration::from_secs(5);

/// The progress of a connection.
pub(super) struct Progress {
    request: RequestProgress,
    answer: Option<AnswerProgress>,
    /// Since when it is idle, unless it has a request or an answer.
    idle_since: Instant,
    idle_until: Instant,
}

/// The request that arrives or is worked on, and when it is late.
enum RequestProgress {
    None,
    Arriving(Instant),
    Engaged(Instant),
}

/// The answer that is sent.
struct AnswerProgress {
    began: Instant,
    /// When it is late if its client takes nothing more.
    by: Instant,
    /// The time that its client had left when all that was produced had been sent.
    left: Option<Duration>,
    sent: u64,
    /// Whether nothing more of it will be produced.
    is_whole: bool,
    room: Option<Arc<AnswerRoom>>,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            request: RequestProgress::None,
            answer: None,
            idle_since: now,
            idle_until: now + REQUEST,
        }
    }

    /// Bytes arrived.
    pub(super) fn received(&mut self, now: Instant) {
        if matches!(self.request, RequestProgress::None) {
            self.request = RequestProgress::Arriving(now + REQUEST);
        }
    }

    /// The head of a request has arrived, perhaps together with the one before.
    pub(super) fn engage(&mut self, now: Instant) {
        let by = match self.request {
            RequestProgress::Arriving(by) => by,
            _ => now + REQUEST,
        };
        self.request = RequestProgress::Engaged(by);
    }

    /// The request has an answer, which keeps this room until it is sent.
    pub(super) fn answer(&mut self, room: Option<Arc<AnswerRoom>>, now: Instant) {
        self.request = RequestProgress::None;
        self.answer = Some(AnswerProgress {
            began: now,
            by: now + IDLE,
            left: None,
            sent: 0,
            is_whole: false,
            room,
        });
    }

    /// All of the answer was produced.
    pub(super) fn produced(&mut self) {
        if let Some(answer) = &mut self.answer {
            answer.is_whole = true;
        }
    }

    /// The client's side took this many bytes. Those before an answer are "100 Continue", for which a request has no more time.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        let Some(answer) = &mut self.answer else {
            return;
        };
        if let Some(left) = answer.left.take() {
            answer.by = now + left;
        }
        let bytes = bytes as u64;
        answer.sent += bytes;
        answer.by += time_of(bytes, ANSWER_BYTES_PER_S);
        answer.by = answer.by.min(now + IDLE);
    }

    /// All that was produced so far was sent.
    pub(super) fn flushed(&mut self, now: Instant) {
        let Some(answer) = &mut self.answer else {
            return;
        };
        if !answer.is_whole {
            // The client does not pay for what it waits for.
            let left = answer.by.saturating_duration_since(now);
            answer.left.get_or_insert(left);
            answer.by = now + IDLE;
            return;
        }
        self.answer = None;
        (self.idle_since, self.idle_until) = (now, now + IDLE);
        // The next one had to wait.
        if let RequestProgress::Arriving(by) | RequestProgress::Engaged(by) = &mut self.request {
            *by = now + REQUEST;
        }
    }

    /// Whether a request is in progress, or an answer is still being produced.
    pub(super) fn is_busy(&self) -> bool {
        let is_whole = self.answer.as_ref().is_none_or(|answer| answer.is_whole);
        matches!(self.request, RequestProgress::Engaged(_)) || !is_whole
    }

    /// Since when it is idle: no request is in progress and no answer is being sent.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let is_engaged = matches!(self.request, RequestProgress::Engaged(_));
        (!is_engaged && self.answer.is_none()).then_some(self.idle_since)
    }

    /// Whether what it waits for should have happened. Where memory for answers is scarce, those that take it must be read fast.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        let is_too_slow = |answer: &AnswerProgress| {
            let due = SCARCE_GRACE + time_of(answer.sent, SCARCE_ANSWER_BYTES_PER_S);
            let room = answer.room.as_ref();
            now - answer.began > due && room.is_some_and(|room| room.is_scarce())
        };
        now >= self.deadline() || self.answer.as_ref().is_some_and(is_too_slow)
    }

    /// When to ask next whether it is late.
    pub(super) fn look_at(&self, now: Instant) -> Instant {
        let sooner = match (&self.answer, &self.request) {
            (Some(_), _) => LOOK,
            // A request that begins meanwhile is not late before.
            (None, RequestProgress::None) => REQUEST,
            (None, _) => IDLE,
        };
        self.deadline().min(now + sooner)
    }

    fn deadline(&self) -> Instant {
        match (&self.answer, &self.request) {
            (Some(answer), _) => answer.by,
            (None, RequestProgress::Arriving(by) | RequestProgress::Engaged(by)) => *by,
            (None, RequestProgress::None) => self.idle_until,
        }
    }
}

/// The time that this many bytes take at `per_second` bytes a second.
fn time_of(bytes: u64, per_second: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / per_second as f64)
}

#[cfg(test)]
mod tests {
    use bookguard_core::limits::ANSWER_BYTES;

    use super::*;
    use crate::answers::Answers;
    use crate::payer::Payer;

    const S: Duration = Duration::from_secs(1);

    fn begun() -> (Progress, Instant) {
        let now = Instant::now();
        (Progress::new(now), now)
    }

    /// The seconds from `now` after which it is late.
    fn late_after(progress: &Progress, now: Instant) -> u64 {
        let mut seconds = 0..1_000;
        let late = seconds.find(|after| progress.is_late(now + *after as u32 * S));
        late.expect("everything has an end")
    }

    #[test]
    fn a_request_has_its_time_from_its_first_byte_whatever_happens() {
        let (mut progress, now) = begun();
        assert_eq!(late_after(&progress, now), 45);
        progress.received(now + 10 * S);
        progress.received(now + 30 * S);
        progress.engage(now + 40 * S);
        progress.sent(25, now + 41 * S);
        progress.flushed(now + 41 * S);
        progress.received(now + 42 * S);
        assert_eq!(late_after(&progress, now), 55);
        assert!(progress.is_busy() && progress.idle_since().is_none());
    }

    #[test]
    fn an_idle_connection_is_noticed_when_a_request_that_begins_then_is_late() {
        let (mut progress, now) = begun();
        progress.answer(None, now);
        progress.produced();
        progress.sent(9, now);
        progress.flushed(now);
        assert_eq!(progress.idle_since(), Some(now));
        assert_eq!(late_after(&progress, now), 60);
        let look = progress.look_at(now);
        progress.received(now + S / 1000);
        progress.engage(now + S / 1000);
        assert!(look <= progress.look_at(now));
    }

    #[test]
    fn a_request_that_came_with_the_one_before_has_its_own_time() {
        let (mut progress, now) = begun();
        progress.received(now);
        progress.engage(now);
        progress.answer(None, now + 40 * S);
        progress.produced();
        // Its head was read before the answer was sent.
        progress.engage(now + 41 * S);
        assert!(progress.idle_since().is_none());
        progress.sent(9, now + 50 * S);
        progress.flushed(now + 50 * S);
        assert_eq!(late_after(&progress, now), 95);
        assert!(progress.is_busy());
        // Of this one, only the answer was sent.
        progress.answer(None, now + 60 * S);
        progress.produced();
        progress.flushed(now + 60 * S);
        progress.engage(now + 61 * S);
        assert_eq!(late_after(&progress, now), 106);
    }

    #[test]
    fn a_client_must_take_its_answer_at_the_least_rate() {
        for (each, late) in [
            (0, 60),
            (1, 61),
            (ANSWER_BYTES_PER_S / 2, 119),
            (ANSWER_BYTES_PER_S, 999),
        ] {
            let (mut progress, now) = begun();
            progress.answer(None, now);
            let seconds = (1..1_000).find(|after| {
                let at = now + *after * S;
                let is_late = progress.is_late(at);
                // More bytes of requests change nothing.
                progress.received(at);
                progress.sent(usize::try_from(each).unwrap(), at);
                is_late
            });
            assert_eq!(seconds.unwrap_or(999), late, "{each} bytes a second");
        }
    }

    #[test]
    fn what_is_produced_in_parts_must_be_taken_at_the_same_rate() {
        let (mut progress, now) = begun();
        progress.answer(None, now);
        let mut at = now;
        // Each part waits for its producer for 20 s and for its client for 30 s.
        for part in 0..10 {
            progress.sent(1, at);
            at += 30 * S;
            if progress.is_late(at) {
                assert_eq!(part, 2);
                return;
            }
            progress.flushed(at);
            at += 20 * S;
            assert!(!progress.is_late(at));
        }
        panic!("a client that takes a byte every 30 s is late");
    }

    #[test]
    fn answers_that_take_scarce_memory_must_be_read_fast() {
        let answers = Arc::new(Answers::default());
        let room = answers.hold(Payer::Operator, 1024).unwrap();
        let (mut progress, now) = begun();
        progress.answer(Some(Arc::new(room)), now);
        progress.produced();
        progress.sent(1024 * 1024, now);
        assert_eq!(late_after(&progress, now), 60);
        let others = answers.fill(ANSWER_BYTES / 2 + 1);
        assert_eq!(late_after(&progress, now), 15);
        drop(others);
        assert_eq!(late_after(&progress, now), 60);
        // Its room is free as soon as it is sent.
        progress.flushed(now);
        assert!(answers.is_empty());
    }
}
