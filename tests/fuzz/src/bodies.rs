//! Request bodies. The first byte chooses the reader.

use bookguard_core::features::acceptances::AcceptanceRequest;
use bookguard_core::features::api_keys::KeyRequest;
use bookguard_core::features::bookings::BookingRequest;
use bookguard_core::features::cancellations::{CancelRequest, DecisionRequest};
use bookguard_core::features::console::ConsoleLinkRequest;
use bookguard_core::features::items::ItemRequest;
use bookguard_core::features::partners::{NewPartner, PartnerUpdate};
use bookguard_core::features::reschedules::RescheduleRequest;
use bookguard_core::features::shares::ShareRequest;
use bookguard_core::model::{QuotaChanges, Timestamp};
use bookguard_core::policy::PolicySet;
use bookguard_core::{Error, Kind, input, limits};

/// A refusal is the caller's fault, and says why; its faults take no more room than a few bodies.
pub fn read(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    if body.len() > limits::BODY_BYTES {
        return;
    }
    let refused = match choice {
        b'0' => input::read(body, AcceptanceRequest::form).err(),
        b'1' => KeyRequest::read(body, Timestamp::EPOCH).err(),
        b'2' => BookingRequest::read(body, &PolicySet::default()).err(),
        b'3' => CancelRequest::read(body).err(),
        b'4' => input::read(body, DecisionRequest::form).err(),
        b'5' => input::read(body, ConsoleLinkRequest::form).err(),
        b'6' => input::read(body, ItemRequest::form).err(),
        b'7' => input::read(body, NewPartner::form).err(),
        b'8' => input::read(body, PartnerUpdate::form).err(),
        b'9' => input::read(body, QuotaChanges::form).err(),
        b'a' => input::read(body, RescheduleRequest::form).err(),
        b'b' => ShareRequest::read(body).err(),
        _ => None,
    };
    if let Some(Error {
        kind,
        message,
        details,
        ..
    }) = refused
    {
        assert!(
            !matches!(kind, Kind::Internal),
            "a body is never our fault: {message}"
        );
        assert!(!message.is_empty());
        let room: usize = details.iter().map(|fault| format!("{fault:?}").len()).sum();
        assert!(
            room <= 4 * limits::BODY_BYTES + 64 * 1024,
            "{room} bytes of faults"
        );
    }
}
