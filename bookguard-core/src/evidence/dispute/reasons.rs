//! The reasons for a dispute as Stripe names them: what the cardholder claims, what answers it, and what the partner must add.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::erasure::Erasable;
use super::super::item::ItemKind;
use super::super::packet::Packet;
use super::{MissingEvidence, is_erased, items, organizer, outcome, platform, talent};
use crate::model::vocabulary;
use crate::policy::{Actor, Reason};

vocabulary! {
    /// What the cardholder claims, in Stripe's words.
    DisputeReason {
        /// A refund is owed.
        CreditNotProcessed = "credit_not_processed",
        /// The same thing was charged twice.
        Duplicate = "duplicate",
        /// The cardholder did not pay.
        Fraudulent = "fraudulent",
        /// None of the others.
        General = "general",
        /// What was booked was not provided.
        ProductNotReceived = "product_not_received",
        /// What was provided was not what was booked.
        ProductUnacceptable = "product_unacceptable",
        /// A subscription was charged after it was canceled.
        SubscriptionCanceled = "subscription_canceled",
        /// The cardholder does not recognize the payment.
        Unrecognized = "unrecognized",
    }
}

impl DisputeReason {
    /// The claim in a sentence.
    pub(super) fn claim(self) -> &'static str {
        match self {
            Self::CreditNotProcessed => {
                "the cardholder says that a refund is owed and was not paid."
            }
            Self::Duplicate => {
                "the cardholder says that the same booking was charged more than once."
            }
            Self::Fraudulent => "the cardholder says that somebody else made the payment.",
            Self::General => "the bank names no particular reason.",
            Self::ProductNotReceived => {
                "the cardholder says that what was booked was not provided."
            }
            Self::ProductUnacceptable => {
                "the cardholder says that what was provided was not what was booked."
            }
            Self::SubscriptionCanceled => {
                "the cardholder says that a subscription was charged after it was canceled."
            }
            Self::Unrecognized => "the cardholder does not recognize the payment.",
        }
    }

    /// Stripe's fields that take the PDF's file id.
    pub(super) fn files(self) -> &'static [&'static str] {
        match self {
            Self::CreditNotProcessed | Self::SubscriptionCanceled => {
                &["cancellation_policy", "refund_policy"]
            }
            Self::ProductNotReceived | Self::ProductUnacceptable => {
                &["service_documentation", "cancellation_policy"]
            }
            Self::Duplicate | Self::Fraudulent | Self::General | Self::Unrecognized => {
                &["uncategorized_file"]
            }
        }
    }
}

/// The answer to the claim, as far as the packet goes.
pub(super) fn answer(reason: DisputeReason, packet: &Packet) -> String {
    use DisputeReason as R;
    let (organizer, talent, platform) = (organizer(packet), talent(packet), platform(packet));
    let own = match reason {
        R::CreditNotProcessed if packet.policy.is_some() => {
            "what is owed follows from the terms that were fixed before.".to_owned()
        }
        R::Duplicate => format!(
            "this evidence is about one booking, {}. What another charge is for, if there is one, is for {platform} to show.",
            packet.booking.booking_id
        ),
        R::Fraudulent | R::Unrecognized => format!(
            "{platform} recorded the booking described here for {organizer} as the organizer, with {talent}. What the payment \
             was for is for {platform} to show."
        ),
        R::CreditNotProcessed | R::General => "the booking, its terms and what happened are set out below.".to_owned(),
        R::ProductNotReceived => format!(
            "what was booked is {talent} on the event's date. {}",
            Standing::of(packet).told(&platform)
        ),
        R::ProductUnacceptable => "what was booked, and under which terms, is set out below, with the time of each record.".to_owned(),
        R::SubscriptionCanceled => "what was recorded is a single booking with one price, not a subscription.".to_owned(),
    };
    let shown: &[ItemKind] = match reason {
        R::Duplicate | R::Fraudulent | R::Unrecognized => {
            &[ItemKind::Payment, ItemKind::Contract, ItemKind::Message]
        }
        R::ProductNotReceived | R::ProductUnacceptable => {
            &[ItemKind::CheckIn, ItemKind::Photo, ItemKind::Message]
        }
        R::CreditNotProcessed | R::SubscriptionCanceled | R::General => &[ItemKind::Message],
    };
    format!("{own}{} {}", items::cited(packet, shown), outcome(packet))
}

/// Whether the event can have taken place, as far as the record goes.
#[derive(Clone, Copy)]
enum Standing {
    /// It was still ahead.
    Ahead,
    /// It was canceled before.
    CanceledBefore,
    /// It was canceled before if the platform's word for the time is true.
    SaidCanceledBefore,
    /// The organizer is reported not to have come.
    OrganizerMissing,
    /// The talent is reported not to have come.
    TalentMissing,
    /// It was canceled when it was to have started.
    CanceledAfter,
    /// It was to take place, and nobody canceled.
    Due,
}

impl Standing {
    fn of(packet: &Packet) -> Self {
        let start = packet.booking.event_date;
        let Some(resolution) = &packet.resolution else {
            return match packet.created_at < start {
                true => Self::Ahead,
                false => Self::Due,
            };
        };
        match (resolution.reason, resolution.canceled_by) {
            (Some(Reason::NoShow), Actor::Organizer) => Self::OrganizerMissing,
            (Some(Reason::NoShow), Actor::Talent) => Self::TalentMissing,
            _ if resolution.canceled_at < start => Self::CanceledBefore,
            _ if resolution.evaluation.as_of < start => Self::SaidCanceledBefore,
            _ => Self::CanceledAfter,
        }
    }

    /// Whether it may have taken place, so that the platform may have proof of it.
    fn may_have_been(self) -> bool {
        matches!(
            self,
            Self::OrganizerMissing | Self::CanceledAfter | Self::Due
        )
    }

    fn told(self, platform: &str) -> String {
        let refund = "so the question is not whether the event took place, but which refund is due";
        match self {
            Self::Ahead => {
                "The event's date was still ahead when this evidence was made.".to_owned()
            }
            Self::CanceledBefore => format!("The booking was canceled before the event, {refund}."),
            Self::SaidCanceledBefore => {
                format!(
                    "According to {platform}, the booking was canceled before the event, {refund}."
                )
            }
            Self::OrganizerMissing => format!(
                "{platform} reported that the organizer did not come. Whether the talent was there is for {platform} to show."
            ),
            Self::TalentMissing => {
                format!("{platform} reported that the talent did not come, {refund}.")
            }
            Self::CanceledAfter => format!(
                "The booking was canceled only after the time at which the event counts as started. Whether the event took place is \
                 for {platform} to show."
            ),
            Self::Due => format!(
                "Whether the event took place is for {platform} to show; this record shows what was agreed and whether it was canceled."
            ),
        }
    }
}

/// What only the partner can add.
pub(super) fn missing(reason: DisputeReason, packet: &Packet) -> Vec<MissingEvidence> {
    use DisputeReason as R;
    let mut missing = vec![
        (
            "customer_name",
            match is_erased(packet, Erasable::Organizer) {
                true => "the cardholder's name; the organizer's was erased here",
                false => "check that the cardholder is the organizer named here; Bookguard knows no payments",
            }
            .to_owned(),
        ),
        (
            "customer_email_address",
            "the payer's email address; Bookguard keeps none".to_owned(),
        ),
    ];
    if !items::has_payment(packet) {
        missing.push((
            "receipt",
            "the receipt or invoice, with the payment's own reference".to_owned(),
        ));
    }
    let refund = (packet.resolution.as_ref()).and_then(|resolution| resolution.evaluation.refund);
    if let Some(refund) = refund
        && let Some(rest) = items::unpaid(packet, refund)
    {
        let what = match rest == refund {
            true => format!("the refund of {refund}"),
            false => format!("the remaining {rest} of the refund of {refund}"),
        };
        missing.push((
            "uncategorized_text",
            format!("whether {what} was paid: its date, amount and reference"),
        ));
    }
    match reason {
        R::Fraudulent | R::Unrecognized => {
            missing.push((
                "customer_purchase_ip",
                "the network address that the payment was made from".to_owned(),
            ));
            missing.push((
                "customer_signature",
                "a signed contract, if there is one".to_owned(),
            ));
        }
        R::ProductNotReceived | R::ProductUnacceptable => {
            if Standing::of(packet).may_have_been() {
                missing.push(("service_documentation", "proof that the event took place as booked: check-in, photos, a signed confirmation".to_owned()));
            }
            missing.push((
                "customer_communication",
                "messages with the organizer about the event".to_owned(),
            ));
        }
        R::Duplicate => {
            missing.push((
                "duplicate_charge_id",
                "the other payment, and what it was for".to_owned(),
            ));
            missing.push((
                "duplicate_charge_explanation",
                "how the two payments differ".to_owned(),
            ));
        }
        R::CreditNotProcessed | R::SubscriptionCanceled | R::General => {
            missing.push((
                "customer_communication",
                "messages with the organizer about the cancellation or the refund".to_owned(),
            ));
        }
    }
    let given = |field: &str| match field {
        "customer_signature" => items::has(packet, &[ItemKind::Contract]),
        "customer_communication" => items::has(packet, &[ItemKind::Message]),
        "service_documentation" => items::has(packet, &[ItemKind::CheckIn, ItemKind::Photo]),
        _ => false,
    };
    let missing = missing.into_iter().filter(|(field, _)| !given(field));
    missing
        .map(|(field, what)| MissingEvidence {
            field: field.to_owned(),
            what,
        })
        .collect()
}
