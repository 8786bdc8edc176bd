//! The evidence items that the partner recorded, as a dispute uses them: cited in its texts, and not asked for again.

use super::super::erasure::Erasable;
use super::super::item::{EvidenceItem, ItemKind};
use super::super::packet::Packet;
use super::super::summary::kind_in_words;
use super::{DisputeFile, platform, worded};
use crate::ledger::LeafKind;
use crate::model::Amount;
use crate::text::quoted;

/// A sentence for each item of these kinds, each with a space before it.
pub(super) fn cited(packet: &Packet, kinds: &[ItemKind]) -> String {
    let told = of(packet, kinds).map(|(place, item)| format!(" {}", sentence(packet, place, item)));
    told.collect()
}

fn title(packet: &Packet, place: usize, item: &EvidenceItem) -> String {
    worded(
        packet,
        (LeafKind::EvidenceAdded, place),
        Erasable::Title,
        &item.title,
    )
}

fn sentence(packet: &Packet, place: usize, item: &EvidenceItem) -> String {
    let what = kind_in_words(item.kind);
    let (amount, at) = (item.amount, item.at);
    let more = [
        amount.map(|amount| format!(" of {amount}")),
        at.map(|at| format!(" on {at}")),
        Some(format!(", {}", title(packet, place, item))),
        (item.reference.as_ref())
            .map(|reference| format!(", with the reference {}", quoted(reference))),
    ];
    let more: String = more.into_iter().flatten().collect();
    format!(
        "{} recorded {what}{more}; the service Bookguard logged that on {} as item {}.",
        platform(packet),
        item.added_at,
        item.item_id
    )
}

/// The items of these kinds, each with its place among all.
fn of<'p>(
    packet: &'p Packet,
    kinds: &[ItemKind],
) -> impl Iterator<Item = (usize, &'p EvidenceItem)> {
    (packet.items.iter().enumerate()).filter(|(_, item)| kinds.contains(&item.kind))
}

/// Whether the partner recorded an item of these kinds.
pub(super) fn has(packet: &Packet, kinds: &[ItemKind]) -> bool {
    of(packet, kinds).next().is_some()
}

/// Whether it recorded a payment by its amount and reference.
pub(super) fn has_payment(packet: &Packet) -> bool {
    of(packet, &[ItemKind::Payment])
        .any(|(_, item)| item.amount.is_some() && item.reference.is_some())
}

/// What the refunds that it recorded, by amount and reference, leave unpaid of this one; `None` if nothing.
pub(super) fn unpaid(packet: &Packet, due: Amount) -> Option<Amount> {
    let paid = of(packet, &[ItemKind::Refund]).filter(|(_, item)| item.reference.is_some());
    let paid = paid.filter_map(|(_, item)| item.amount);
    let paid = paid.filter(|amount| amount.currency() == due.currency());
    let paid: i128 = paid.map(|amount| i128::from(amount.minor())).sum();
    let rest = i64::try_from(i128::from(due.minor()) - paid).ok()?;
    let rest = Amount::from_minor(rest, due.currency()).ok();
    rest.filter(|rest| rest.minor() > 0)
}

/// The items' files, for the fields that take them; `name` chooses between Stripe's name and the neutral one.
pub(super) fn files(packet: &Packet, name: fn(&'static str) -> &'static str) -> Vec<DisputeFile> {
    let of_file = |(place, item): (usize, &EvidenceItem)| {
        let sha256 = item.sha256.as_ref()?;
        let field = match item.kind {
            ItemKind::Contract => "customer_signature",
            ItemKind::Message => "customer_communication",
            ItemKind::Photo | ItemKind::CheckIn => "service_documentation",
            ItemKind::Payment => "receipt",
            ItemKind::Refund | ItemKind::Other => "uncategorized_file",
        };
        Some(DisputeFile {
            field: name(field).to_owned(),
            document: format!(
                "the file of item {}, {}, {sha256}",
                item.item_id,
                title(packet, place, item)
            ),
        })
    };
    packet
        .items
        .iter()
        .enumerate()
        .filter_map(of_file)
        .collect()
}
