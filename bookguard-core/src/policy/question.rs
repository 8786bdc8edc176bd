//! The question of an evaluation: which booking, who cancels, why and when.

use serde::{Deserialize, Serialize};

use super::evaluation::Evaluation;
use super::reschedule::PastReschedule;
use super::terms::Terms;
use super::words::{Actor, Reason};
use crate::model::{Amount, BookingId, Timestamp};

/// A booking as evaluation sees it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its id.
    pub booking_id: BookingId,
    /// Its frozen terms.
    pub terms: &'a Terms,
    /// Its state.
    pub standing: Standing<'a>,
    /// Its changes of date, oldest first; the terms hold the current date.
    pub reschedules: &'a [PastReschedule],
}

/// The state of a booking.
#[derive(Debug, Clone, Copy)]
pub enum Standing<'a> {
    /// Recorded, not protected.
    Created,
    /// Its terms are in the ledger.
    Protected,
    /// Canceled, with the recorded cancellation.
    Canceled(&'a Recorded),
}

impl<'a> Standing<'a> {
    /// The state of a booking, from its protection and its recorded cancellation, if there is one.
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

/// Whether the caller only asks or cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Mode {
    /// A hypothetical question: changes nothing; any instant from the booking's creation on.
    Evaluate,
    /// The cancellation itself.
    Cancel,
}

/// The question.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Whether the caller asks or cancels.
    pub mode: Mode,
    /// Who cancels.
    pub actor: Actor,
    /// Why, when it is known.
    pub reason: Option<Reason>,
    /// The instant to judge (`asOf` or `effectiveAt`); the instant of receipt if absent.
    pub at: Option<Timestamp>,
    /// The current instant.
    pub received_at: Timestamp,
    /// How many pieces of evidence come with it.
    pub evidence: usize,
    /// The refund both sides agreed on, in the booking's currency.
    pub agreed_refund: Option<Amount>,
}
