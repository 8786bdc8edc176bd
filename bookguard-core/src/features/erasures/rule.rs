//! What an erasure erases, and when it is refused.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{EraseValues, Erased, ErasedParty, ErasureReport};
use crate::engine::batch::BatchState;
use crate::engine::chain::AppendedFacts;
use crate::engine::change::{Change, Content, DeliveryPhase, DeliveryState, ErasedEntry, Pruned};
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::evidence::facts::Fact;
use crate::evidence::{Erasable, ErasedValues, Erasure, Hold, Share, StoredEntry, StoredShare};
use crate::features::cancellations::rule::owned;
use crate::model::{BookingId, EventId, FileId, ItemId, PartnerId, Timestamp};
use crate::policy::Actor;

/// What an erasure erases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The number of the booking's entries for which it was made.
    pub(crate) entries: u64,
    /// The values, by entry.
    pub(crate) values: Vec<ErasedValues>,
    /// What the entries hold then.
    pub(crate) rows: Vec<ErasedEntry>,
    /// The events whose bodies go.
    pub(crate) events: Vec<EventId>,
    /// The files that go, with the items that name them.
    pub(crate) files: Vec<(ItemId, FileId)>,
    /// Whether notes go, and so those on shares.
    pub(crate) notes: bool,
}

/// Plans the erasure of what these entries of a booking, all of them, still hold.
///
/// # Errors
/// `internal` for an entry that cannot be read.
pub(crate) fn plan(
    partner_id: &PartnerId,
    entries: &[StoredEntry],
    what: &Erased,
) -> Result<Plan, Error> {
    let mut plan = Plan {
        entries: entries.len() as u64,
        notes: match what {
            Erased::Fields(names) => names.contains(&Erasable::Note),
            Erased::Of(party) => *party == ErasedParty::Everybody,
            Erased::Again(_) => true,
        },
        ..Plan::default()
    };
    for entry in entries {
        let unreadable = |why: String| {
            Error::internal(format!(
                "entry {} of the ledger cannot be read: {why}",
                entry.index
            ))
        };
        let logged = entry.fact().map_err(unreadable)?;
        let names = named(entry, &logged.fact, what, &logged.place.hash.to_string());
        if names.is_empty() {
            continue;
        }
        if let Fact::EvidenceAdded(item) = &logged.fact
            && names.contains(&Erasable::Sha256)
        {
            let file_id = item
                .sha256
                .as_deref()
                .and_then(|sha| FileId::named(partner_id, sha));
            plan.files
                .extend(file_id.map(|file_id| (item.item_id, file_id)));
        }
        let words: Vec<&str> = names.iter().map(|name| name.word()).collect();
        let (opening, facts) = (entry.without(&words)).map_err(|e| unreadable(e.to_string()))?;
        let size = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
        let grows = match entry.seq {
            0 => size(&facts) - size(&Value::Object(entry.shown()).to_string()),
            _ => 0,
        };
        plan.rows.push(ErasedEntry {
            index: entry.index,
            leaf: logged.place.hash,
            partner_id: *partner_id,
            opening,
            facts,
            grows,
        });
        plan.values.push(ErasedValues {
            entry: entry.seq,
            names,
        });
    }
    Ok(plan)
}

/// The names of the values of an entry that are to be erased and are still there, sorted.
fn named(entry: &StoredEntry, fact: &Fact, what: &Erased, leaf: &str) -> Vec<Erasable> {
    let is_there = |name: &Erasable| {
        let mut there = entry.disclosures.iter();
        there.any(|one| one.name == name.word())
    };
    let is_asked = |name: &Erasable| match what {
        Erased::Fields(names) => names.contains(name),
        Erased::Of(party) => is_of(*name, fact, *party),
        Erased::Again(values) => values.iter().any(|(values, hash)| {
            values.entry == entry.seq && *hash == leaf && values.names.contains(name)
        }),
    };
    let can_be = Erasable::of(fact.kind()).iter().copied();
    can_be
        .filter(|name| is_there(name) && is_asked(name))
        .collect()
}

/// Whether a value of a fact is about this party.
fn is_of(name: Erasable, fact: &Fact, party: ErasedParty) -> bool {
    let actor = match party {
        ErasedParty::Everybody => return true,
        ErasedParty::Organizer => Actor::Organizer,
        ErasedParty::Talent => Actor::Talent,
    };
    match fact {
        Fact::BookingCreated(_) => name.word() == actor.word(),
        Fact::TermsAccepted(fact) => fact.party == actor,
        Fact::BookingCanceled(fact) => fact.canceled_by == actor,
        Fact::EvidenceAdded(item) => item.party == Some(actor),
        _ => false,
    }
}

/// The refusal to erase anything of a booking under this hold.
pub(crate) fn held(hold: &Hold) -> Error {
    Error::conflict(
        "legal_hold",
        format!(
            "Booking {} is under the legal hold {}, placed {} by the {}: nothing of it is erased. Release the hold first, if the \
             matter is over.",
            hold.booking_id,
            hold.hold_id,
            hold.placed_at,
            hold.placed_by.word()
        ),
    )
}

/// Refuses if an active hold of this booking was loaded.
pub(crate) fn refuse_if_held(batch: &BatchState, booking_id: &BookingId) -> Result<(), Error> {
    let mut holds = batch.holds.values().map(|stored| &stored.hold);
    match holds.find(|hold| hold.booking_id == *booking_id && hold.is_active()) {
        Some(hold) => Err(held(hold)),
        None => Ok(()),
    }
}

impl Plan {
    /// What is told of it.
    pub(super) fn report(&self, booking_id: BookingId, dry_run: bool) -> ErasureReport {
        ErasureReport {
            booking_id,
            dry_run,
            values: self.values.clone(),
            events: self.events.clone(),
            files: self.files.iter().map(|(item_id, _)| *item_id).collect(),
            receipt: None,
        }
    }
}

impl Command for EraseValues {
    type Reply = ErasureReport;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
        needs.held.push(self.booking_id);
        needs.shared.push(self.booking_id);
        needs.events.extend(&self.plan.events);
        needs.deliveries.extend(&self.plan.events);
        needs
            .files
            .extend(self.plan.files.iter().map(|(_, file_id)| *file_id));
    }

    /// Erases what was planned, if the booking is still as it was then.
    ///
    /// # Errors
    /// `not_found`, `legal_hold`, `booking_changed`.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ErasureReport> {
        let (_, state) = owned(batch, self.partner_id, self.booking_id)?;
        if self.repeats.is_none() {
            refuse_if_held(batch, &self.booking_id)?;
        }
        let entries = batch
            .chains
            .get(&self.booking_id)
            .map(|chain| chain.entries);
        if entries != Some(self.plan.entries) {
            return Err(Error::conflict(
                "booking_changed",
                format!(
                    "Something was recorded of booking {} at the same moment, and nothing was erased. Send the request again.",
                    self.booking_id
                ),
            ));
        }
        let mut report = self.plan.report(self.booking_id, false);
        if self.plan.values.is_empty() {
            return Ok((Vec::new(), report));
        }
        let mut addition = AppendedFacts::to(batch, state, at, &self.seed)?;
        let place = addition.record(Erasure {
            booking_id: self.booking_id,
            erased_at: self.repeats.unwrap_or(at).min(at),
            legal_basis: self.legal_basis,
            request_ref: self.request_ref.clone(),
            values: self.plan.values.clone(),
        })?;
        report.receipt = Some(Receipt::of(&batch.origin, &place));
        let mut changes = addition.changes();
        let rows = self.plan.rows.iter().cloned().map(Box::new);
        changes.extend(rows.map(Change::EntryErased));
        changes.extend(
            self.plan
                .events
                .iter()
                .flat_map(|event_id| ended(batch, event_id, at)),
        );
        let files: BTreeSet<FileId> = self
            .plan
            .files
            .iter()
            .map(|(_, file_id)| *file_id)
            .collect();
        let files = files.iter().filter_map(|file_id| batch.files.get(file_id));
        changes.extend(files.map(|file| Change::FileDeleted(*file)));
        if self.plan.notes {
            changes.extend(
                batch
                    .shares
                    .values()
                    .filter_map(|stored| self.unnoted(stored)),
            );
        }
        changes.push(Change::AnswersErased(self.booking_id));
        Ok((changes, report))
    }

    fn complete(&self, reply: &mut ErasureReport, head: &Head) {
        if let Some(receipt) = &mut reply.receipt {
            receipt.complete(head);
        }
    }
}

impl EraseValues {
    /// A share of the booking without its note, if it has one.
    fn unnoted(&self, stored: &StoredShare) -> Option<Change> {
        let is_noted = stored.share.booking_id == self.booking_id && stored.share.note.is_some();
        let share = Share {
            note: None,
            ..stored.share.clone()
        };
        let hash = stored.hash;
        is_noted.then(|| Change::ShareChanged(Box::new(StoredShare { share, hash })))
    }
}

/// Deletes the body and attempts of an event, and gives up the deliveries that still wait: there is nothing left to send.
fn ended(batch: &BatchState, event_id: &EventId, at: Timestamp) -> Vec<Change> {
    let Some(event) = batch.events.get(event_id) else {
        return Vec::new();
    };
    let Content::Whole(body) = &event.content else {
        return Vec::new();
    };
    let waiting = batch
        .deliveries
        .iter()
        .filter(|((of, _), state)| of == event_id && state.due.is_some());
    let mut changes: Vec<Change> = waiting
        .map(|((event_id, endpoint_id), state)| Change::DeliveryUpdated {
            event_id: *event_id,
            endpoint_id: *endpoint_id,
            state: DeliveryState {
                phase: DeliveryPhase::Failed,
                due: None,
                since: None,
                lease: None,
                ..*state
            },
        })
        .collect();
    changes.push(Change::EventPruned {
        event_id: *event_id,
        pruned: Pruned {
            at,
            digest: Sha256::digest(body).into(),
        },
    });
    changes
}

#[cfg(test)]
mod tests;
