//! What an erasure erases, and when it is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{EraseValues, Erased, ErasedParty, ErasureReport};
use crate::engine::batch::BatchState;
use crate::engine::chain::AppendedFacts;
use crate::engine::change::{Change, Content, DeliveryPhase, DeliveryState, ErasedEntry, Pruned};
use crate::engine::command::{Command, Decided, Head, Receipt};
use crate::engine::needs::Needs;
use crate::error::{Error, conflict};
use crate::evidence::erasure::ERASED;
use crate::evidence::facts::{Fact, Logged};
use crate::evidence::{
    Erasable, ErasedValues, Erasure, Hold, Share, StoredEntry, StoredHold, StoredShare,
};
use crate::limits::ERASURES;
use crate::model::{BookingId, EventId, FileId, HoldId, ItemId, PartnerId, ShareId, Timestamp};
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
    /// Where no legal hold was found that keeps one of the files.
    pub(crate) elsewhere: HeldElsewhere,
    /// Whether notes go, and so those on shares and the reasons of holds.
    pub(crate) notes: bool,
    /// Whether references go, and so those of holds.
    pub(crate) references: bool,
    /// The shares whose notes go.
    pub(crate) shares: Vec<ShareId>,
    /// The holds whose texts go.
    pub(crate) holds: Vec<HoldId>,
}

/// Plans the erasure of what these entries of a booking, all of them, still hold. `request_ref` is what the erasure itself is known by.
///
/// # Errors
/// `too_many_erasures`; `internal` for an entry that cannot be read.
pub(crate) fn plan(
    partner_id: &PartnerId,
    entries: &[StoredEntry],
    (what, request_ref): (&Erased, Option<&str>),
) -> Result<Plan, Error> {
    let goes = |name| match what {
        Erased::Fields(names) => names.contains(&name),
        Erased::Of(party) => *party == ErasedParty::Everybody,
        Erased::Everything | Erased::Again(..) => true,
    };
    let mut plan = Plan {
        entries: entries.len() as u64,
        notes: goes(Erasable::Note),
        references: goes(Erasable::Reference),
        ..Plan::default()
    };
    let mut erasures = 0;
    for entry in entries {
        let unreadable = |why: String| {
            Error::internal(format!(
                "entry {} of the ledger cannot be read: {why}",
                entry.index
            ))
        };
        let logged = entry.fact().map_err(unreadable)?;
        erasures += usize::from(matches!(logged.fact, Fact::EvidenceErased(_)));
        let names = named(entry, &logged, what, request_ref);
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
    // The end of a contract takes what is left, whatever it is known by.
    let is_asked = matches!(what, Erased::Fields(_) | Erased::Of(_));
    if is_asked && erasures >= ERASURES && request_ref.is_some() && !plan.values.is_empty() {
        return Err(conflict!(
            "too_many_erasures",
            "The booking has {erasures} erasures. From {ERASURES} on, further ones take no requestRef, because each adds a value that \
             can be erased. Leave it out."
        ));
    }
    Ok(plan)
}

/// The names of the values of an entry that are to be erased and are still there, sorted.
fn named(
    entry: &StoredEntry,
    logged: &Logged<Fact>,
    what: &Erased,
    request_ref: Option<&str>,
) -> Vec<Erasable> {
    let (fact, leaf) = (&logged.fact, logged.place.hash.to_string());
    let is_there = |name: &str| entry.disclosures.iter().any(|one| one.name == name);
    // So that a repeated request finds nothing left to erase.
    let is_own = |name: &Erasable| {
        *name == Erasable::RequestRef
            && matches!(fact, Fact::EvidenceErased(of) if of.request_ref.as_deref() == request_ref)
    };
    let is_asked = |name: &Erasable| match what {
        Erased::Fields(names) => names.contains(name) && !is_own(name),
        Erased::Of(party) => is_of(*name, fact, *party),
        Erased::Everything => !is_own(name),
        Erased::Again(values, _) => values.iter().any(|(values, hash)| {
            values.entry == entry.seq && *hash == leaf && values.names.contains(name)
        }),
    };
    let can_be = Erasable::of(fact.kind()).iter().copied();
    can_be
        .filter(|name| name.can_go(fact.kind(), is_there) && is_asked(name))
        .collect()
}

/// Whether a value of a fact is about this party.
fn is_of(name: Erasable, fact: &Fact, party: ErasedParty) -> bool {
    let actor = match party {
        ErasedParty::Everybody => return name != Erasable::RequestRef,
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
    let whose = format!("Booking {} is", hold.booking_id);
    kept(hold, &whose, "nothing of it is erased")
}

/// The refusal to delete a file of a booking that another one, which is under this hold, has too.
pub(crate) fn held_file(booking_id: &BookingId, hold: &Hold) -> Error {
    let whose = format!(
        "A file of booking {booking_id} is also evidence of booking {}, which is",
        hold.booking_id
    );
    kept(hold, &whose, "it is not deleted, and nothing was erased")
}

fn kept(hold: &Hold, whose: &str, rule: &str) -> Error {
    conflict!(
        "legal_hold",
        "{whose} under the legal hold {}, placed {} by the {}: {rule}. Release the hold first, if the matter is over.",
        hold.hold_id,
        hold.placed_at,
        hold.placed_by.word()
    )
}

/// The id under which remembered answers are kept that name many bookings of a partner. An erasure of any booking of the partner
/// deletes them.
pub(crate) fn any_booking(partner_id: PartnerId) -> BookingId {
    BookingId::from_bytes(*partner_id.as_bytes())
}

/// Refuses if an active hold of this booking was loaded.
pub(crate) fn refuse_if_held(batch: &BatchState, booking_id: &BookingId) -> Result<(), Error> {
    let mut holds = batch.holds.values().map(|stored| &stored.hold);
    match holds.find(|hold| hold.booking_id == *booking_id && hold.is_active()) {
        Some(hold) => Err(held(hold)),
        None => Ok(()),
    }
}

/// The partner's other bookings under a legal hold, none of which has an item that names a file which is to be deleted; and how many
/// entries each had when it was looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldElsewhere(pub(crate) BTreeMap<BookingId, u64>);

impl HeldElsewhere {
    pub(crate) fn name_needs(&self, partner_id: PartnerId, needs: &mut Needs) {
        needs.holders.push(partner_id);
        needs.chains.extend(self.0.keys());
    }

    /// Refuses to delete the files if since then a hold was placed on another booking, or something recorded about one of these: it may
    /// name a file.
    pub(crate) fn refuse_if_changed(
        &self,
        batch: &BatchState,
        (partner_id, booking_id): (PartnerId, &BookingId),
    ) -> Result<(), Error> {
        let holds = batch.holds.values();
        let mut holds = holds.filter(|stored| {
            stored.partner_id == partner_id
                && stored.hold.is_active()
                && stored.hold.booking_id != *booking_id
        });
        let is_changed = |stored: &&StoredHold| {
            let of = &stored.hold.booking_id;
            let entries = batch.chains.get(of).map(|chain| chain.entries);
            entries.is_none() || entries != self.0.get(of).copied()
        };
        match holds.find(is_changed) {
            None => Ok(()),
            Some(stored) => Err(conflict!(
                "booking_changed",
                "Booking {} is under a legal hold and changed at the same moment. It may need the same file, so nothing was erased. \
                 Send the request again.",
                stored.hold.booking_id
            )),
        }
    }
}

impl Plan {
    /// The report of the erasure. An item may name a file that was never sent.
    pub(super) fn report(
        &self,
        booking_id: BookingId,
        dry_run: bool,
        is_stored: impl Fn(&FileId) -> bool,
    ) -> ErasureReport {
        let files = self.files.iter().filter(|(_, file_id)| is_stored(file_id));
        let mut report = ErasureReport {
            booking_id,
            dry_run,
            values: self.values.clone(),
            events: self.events.clone(),
            files: files.map(|(item_id, _)| *item_id).collect(),
            shares: self.shares.clone(),
            holds: self.holds.clone(),
            plan_hash: None,
            receipt: None,
        };
        report.plan_hash = dry_run.then(|| report.hash());
        report
    }

    /// Whether nothing is left to erase.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.shares.is_empty() && self.holds.is_empty()
    }

    /// A share without its note, if it has one that goes.
    pub(crate) fn unnoted(&self, share: &Share) -> Option<Share> {
        let is_noted = self.notes && share.note.is_some();
        is_noted.then(|| Share {
            note: None,
            ..share.clone()
        })
    }

    /// A hold without the texts that go, if it has any.
    pub(crate) fn untold(&self, hold: &Hold) -> Option<Hold> {
        let left = Hold {
            reason: match self.notes {
                true => ERASED.to_owned(),
                false => hold.reason.clone(),
            },
            reference: hold.reference.clone().filter(|_| !self.references),
            ..hold.clone()
        };
        (left != *hold).then_some(left)
    }
}

impl Command for EraseValues {
    type Reply = ErasureReport;

    fn needs(&self, needs: &mut Needs) {
        needs.booking_of(self.partner_id, self.booking_id);
        needs.held.push(self.booking_id);
        if !self.plan.files.is_empty() {
            self.plan.elsewhere.name_needs(self.partner_id, needs);
        }
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
    /// `not_found`, `legal_hold`, `booking_changed`, `erasure_changed`.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ErasureReport> {
        let state = batch.kept_booking_of(self.partner_id, self.booking_id)?;
        if self.repeats.is_none() {
            refuse_if_held(batch, &self.booking_id)?;
            if !self.plan.files.is_empty() {
                let elsewhere = &self.plan.elsewhere;
                elsewhere.refuse_if_changed(batch, (self.partner_id, &self.booking_id))?;
            }
        }
        let entries = batch
            .chains
            .get(&self.booking_id)
            .map(|chain| chain.entries);
        if entries != Some(self.plan.entries) {
            return Err(conflict!(
                "booking_changed",
                "Something was recorded about booking {} at the same moment, and nothing was erased. Send the request again.",
                self.booking_id
            ));
        }
        let is_stored = |file_id: &FileId| batch.files.contains_key(file_id);
        let mut report = self.plan.report(self.booking_id, false, is_stored);
        let beside = self.beside(batch, &mut report);
        self.refuse_if_other(&report)?;
        if self.plan.values.is_empty() {
            return Ok((beside, report));
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
        changes.extend(beside);
        if !matches!(changes.last(), Some(Change::AnswersErased(_))) {
            changes.extend(self.answers());
        }
        Ok((changes, report))
    }

    fn complete(&self, reply: &mut ErasureReport, head: &Head) {
        if let Some(receipt) = &mut reply.receipt {
            receipt.complete(head);
        }
    }
}

impl EraseValues {
    /// Refuses to erase anything but what the caller was shown. If nothing is left, this only repeats an erasure.
    fn refuse_if_other(&self, report: &ErasureReport) -> Result<(), Error> {
        let Some(expected) = &self.expected else {
            return Ok(());
        };
        if report.is_empty() || *expected == report.hash() {
            return Ok(());
        }
        Err(conflict!(
            "erasure_changed",
            "The erasure of booking {} would not be the expected one: something was added, erased, released or deleted for its age \
             since. Nothing was erased. Ask with dryRun what would go now, and send its planHash as expected.",
            self.booking_id
        ))
    }

    /// Erases the notes on shares and the texts of holds, which are in no entry.
    fn beside(&self, batch: &BatchState, report: &mut ErasureReport) -> Vec<Change> {
        let mut changes = Vec::new();
        // The erasure that is repeated took nothing that was made after it. A hold from before it was released then.
        let is_past = |made: Timestamp| self.repeats.is_none_or(|at| made <= at);
        report.shares.clear();
        for stored in batch.shares.values() {
            let own = stored.share.booking_id == self.booking_id;
            let own = own && is_past(stored.share.created_at);
            if let Some(share) = self.plan.unnoted(&stored.share).filter(|_| own) {
                report.shares.push(share.share_id);
                let hash = stored.hash;
                changes.push(Change::ShareChanged(Box::new(StoredShare { share, hash })));
            }
        }
        report.holds.clear();
        for stored in batch.holds.values() {
            let own = stored.hold.booking_id == self.booking_id;
            let own = own && is_past(stored.hold.placed_at);
            if let Some(hold) = self.plan.untold(&stored.hold).filter(|_| own) {
                report.holds.push(hold.hold_id);
                let partner_id = stored.partner_id;
                changes.push(Change::HoldWritten(Box::new(StoredHold {
                    partner_id,
                    hold,
                })));
            }
        }
        report.shares.sort();
        report.holds.sort();
        if !changes.is_empty() {
            changes.extend(self.answers());
        }
        changes
    }

    /// Erases the remembered answers about the booking, and those about many.
    fn answers(&self) -> [Change; 2] {
        [any_booking(self.partner_id), self.booking_id].map(Change::AnswersErased)
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
    let given_up = waiting.map(|(name, state)| {
        let state = DeliveryState {
            phase: DeliveryPhase::Failed,
            ..state.over()
        };
        Change::DeliveryUpdated(*name, state)
    });
    let pruned = Change::EventPruned(*event_id, Pruned::of(body, at));
    given_up.chain([pruned]).collect()
}

#[cfg(test)]
mod tests;
