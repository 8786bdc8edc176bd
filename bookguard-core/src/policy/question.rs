//! The question for an evaluation: which booking, by whom, for what reason, at which instant.

use serde::{Deserialize, Serialize};

use super::evaluation::Evaluation;
use super::reschedule::PastReschedule;
use super::terms::Terms;
use super::words::{Actor, Reason};
use crate::model::{Amount, BookingId, Timestamp};

/// A booking as far as evaluation cares.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its id.
    pub booking_id: BookingId,
    /// Its frozen terms.
    pub terms: &'a Terms,
    /// Where it stands.
    pub standing: Standing<'a>,
    /// Its changes of date, oldest first; the terms hold the current date.
    pub reschedules: &'a [PastReschedule],
}

/// Where a booking stands.
#[derive(Debug, Clone, Copy)]
pub enum Standing<'a> {
    /// Recorded, not protected.
    Created,
    /// Its terms are in the ledger.
    Protected,
    /// Canceled, with what was recorded.
    Canceled(&'a Recorded),
}

impl<'a> Standing<'a> {
    /// Where a booking stands that is or is not protected, with its recorded cancellation if there is one.
    pub fn of(protected: bool, recorded: Option<&'a Recorded>) -> Self {
        match (recorded, protected) {
            (Some(recorded), _) => Self::Canceled(recorded),
            (None, true) => Self::Protected,
            (None, false) => Self::Created,
        }
    }
}

/// A recorded cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// Who canceled.
    pub canceled_by: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The `effectiveAt` that was asked for, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_at: Option<Timestamp>,
    /// How it was evaluated.
    pub evaluation: Evaluation,
}

/// Whether a question is asked or a booking canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What would be if: changes nothing, any instant from the booking's creation on.
    Evaluate,
    /// The cancellation itself.
    Cancel,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Asked or done.
    pub mode: Mode,
    /// Who cancels.
    pub actor: Actor,
    /// Why, when it is known.
    pub reason: Option<Reason>,
    /// The instant to judge (`asOf` or `effectiveAt`); the instant of receipt when not said.
    pub at: Option<Timestamp>,
    /// The present instant.
    pub received_at: Timestamp,
    /// How many pieces of evidence come with it.
    pub evidence: usize,
    /// The refund both sides agreed on, in the booking's currency.
    pub agreed_refund: Option<Amount>,
}
