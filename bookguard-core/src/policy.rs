//! Cancellation policies: the documents, the terms frozen for a booking, and the cost of a cancellation.
//!
//! ```
//! use bookguard_core::model::{Amount, BookingId, Currency, Timestamp};
//! use bookguard_core::policy::*;
//!
//! let at = |text| Timestamp::parse(text).unwrap();
//! let booked = Booked {
//!     event_date: EventDate::parse("2026-06-20T19:00:00").unwrap(),
//!     time_zone: Some("America/New_York"),
//!     partner_time_zone: None,
//!     value: Amount::parse("1000.00", Currency::USD).unwrap(),
//!     paid: None,
//!     created_at: at("2026-01-10T15:00:00Z"),
//! };
//! let firm = Policy::template("firm").unwrap().clone();
//! let terms = Terms::freeze(Some((firm, PolicySource::Named)), &booked, MissingZone::Refuse)?;
//! let booking_id = BookingId::parse("bkg_0198f2a4c8d07e3fa1b2c3d4e5f60718").unwrap();
//! let booking = Subject { booking_id, terms: &terms, standing: Standing::Protected, reschedules: &[] };
//! let question = Question {
//!     mode: Mode::Evaluate,
//!     actor: Actor::Organizer,
//!     reason: None,
//!     at: None,
//!     received_at: at("2026-06-01T00:00:00Z"),
//!     evidence: 0,
//!     agreed_refund: None,
//! };
//! let evaluation = evaluate(&booking, &question)?;
//! assert_eq!(evaluation.resolution_path, ResolutionPath::PartialRefund);
//! assert_eq!(evaluation.refund.unwrap().to_string(), "USD 500.00");
//! # Ok::<(), bookguard_core::error::Error>(())
//! ```
//!
//! Everything here is a pure function, without clock or network and in whole minor units, so anyone can recompute a result
//! from the evidence. A policy is resolved, normalised and hashed when the booking is created; later versions never affect
//! it. The service never moves money.

mod alternatives;
mod cancellation;
mod disclosure;
mod document;
mod duration;
mod editions;
mod english;
mod evaluate;
mod evaluation;
mod event_date;
mod explain;
mod lint;
mod matrix;
#[cfg(feature = "openapi")]
mod openapi;
mod outcome;
#[cfg(feature = "internals")]
mod policy_set;
mod question;
mod read;
mod reschedule;
mod resolution;
mod rule;
mod schedule;
mod schema;
mod settlement;
mod templates;
mod terms;
mod words;
mod zone;

#[cfg(test)]
mod tests;

pub use cancellation::{Cancellation, NamedDocument};
pub use disclosure::{
    DISCLOSURE_VERSION, DisclosureWording, TermsDisclosure, disclose, disclose_in,
};
pub use document::{
    Deposit, DepositSize, Document, Floor, ForceMajeure, Grace, OrganizerRules, PartnerRules,
    Policy, Reschedule, TalentRules, Tier,
};
pub use duration::{Duration, TimeOfDay};
pub(crate) use evaluate::evaluate_as_first;
pub use evaluate::{ENGINE_VERSION, evaluate, evaluate_now};
pub use evaluation::{Alternative, EvaluatedPolicy, Evaluation, Explanation, NextChange};
pub(crate) use event_date::has_shape;
pub use event_date::{EVENT_DATE_PATTERN, EventDate};
pub(crate) use explain::{clock, distance, why_a_person};
pub use matrix::{MatrixRow, matrix};
pub use outcome::{Basis, Charge, FixedAmount, Outcome, Rounding, Split, share};
#[cfg(feature = "store")]
pub(crate) use policy_set::fix_for;
#[cfg(feature = "internals")]
pub use policy_set::{PolicySet, PolicySetVersion};
pub use question::{Mode, Question, Recorded, Standing, Subject};
#[cfg(feature = "store")]
pub(crate) use read::{POLICY_ID_FIX, duration as read_duration, time_zone as read_time_zone};
pub use read::{POLICY_ID_PATTERN, is_policy_id};
pub use reschedule::{PastReschedule, effective_schedule};
pub use resolution::{Resolution, ResolutionDecision};
pub use rule::Rule;
pub use schedule::Segment;
pub use schema::{POLICY_SCHEMA, SCHEMA};
#[cfg(feature = "internals")]
pub use templates::EVERY_EVENT_TYPE;
pub use templates::normalise_event_type;
pub use terms::{Adopted, Booked, MissingZone, Terms};
pub use words::{
    Actor, Assumption, EvaluationStatus, EvidenceGrade, PolicySource, Reason, ResolutionPath,
    ResolutionStatus, ReviewReason,
};
pub(crate) use zone::ZONE_CHANGE_MS;
pub use zone::Zone;
