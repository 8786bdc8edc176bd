//! When a witness is asked, which cosignatures are kept, and which checkpoint is the best cosigned.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{ClaimWitness, NoteWitness, lease_end};
use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::ledger::cosignature::CosignerKey;
use crate::ledger::trust::TrustPolicy;
use crate::limits::{COSIGNATURE_FRESH_MS, COSIGNATURES_KEPT, WITNESS_BACKOFF_MS, WITNESS_GAP_MS};
use crate::model::{StoredCosignature, Timestamp, WitnessState};

impl Command for ClaimWitness {
    type Reply = Option<WitnessState>;

    fn needs(&self, needs: &mut Needs) {
        needs.witnesses.push(WitnessState::id(&self.url));
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<Option<WitnessState>> {
        let known = batch.witnesses.get(&WitnessState::id(&self.url));
        let (origin, size) = &self.log;
        if !is_due(known, (origin, *size), &self.keys, at) {
            return Ok((Vec::new(), None));
        }
        let unknown = || WitnessState {
            url: self.url.clone(),
            origin: origin.clone(),
            ..WitnessState::default()
        };
        let taken = WitnessState {
            lease: self.lease,
            due: lease_end(at),
            asked_at: at,
            ..known.cloned().unwrap_or_else(unknown)
        };
        let noted = Change::WitnessNoted(Box::new(taken.clone()));
        Ok((vec![noted], Some(taken)))
    }
}

impl Command for NoteWitness {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.witnesses.push(WitnessState::id(&self.state.url));
    }

    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<()> {
        let known = batch.witnesses.get(&WitnessState::id(&self.state.url));
        // Another node has taken the turn meanwhile: what it finds out is newer.
        if known.is_none_or(|known| known.lease != self.state.lease) {
            return Ok((Vec::new(), ()));
        }
        let mut changes = vec![Change::WitnessNoted(Box::new(self.state.clone()))];
        changes.extend(
            (self.cosigned.iter()).map(|one| Change::CosignatureAdded(Box::new(one.clone()))),
        );
        changes.extend(
            self.forgotten
                .iter()
                .map(|&(size, witness)| Change::CosignatureForgotten(size, witness)),
        );
        Ok((changes, ()))
    }
}

/// Whether a witness of the log with this name and size is asked now: if its wait is over, and the log has grown, its cosignature
/// is no longer fresh, it did not cosign, or one of its keys is new.
#[must_use]
pub fn is_due(
    known: Option<&WitnessState>,
    (origin, size): (&str, u64),
    keys: &[CosignerKey],
    now: Timestamp,
) -> bool {
    // There is nothing to vouch for yet.
    if size == 0 {
        return false;
    }
    let Some(known) = known else {
        return true;
    };
    // A clock that was ahead computed a longer wait than there is.
    if (1..=WITNESS_BACKOFF_MS).contains(&(known.due.ms() - now.ms())) {
        return false;
    }
    let is_fresh = |at: Timestamp| (0..COSIGNATURE_FRESH_MS).contains(&(now.ms() - at.ms()));
    known.trouble.is_some()
        || (known.origin.as_str(), known.size) != (origin, size)
        || !known.cosigned_at.is_some_and(is_fresh)
        || (keys.iter()).any(|key| !known.expected.contains(&key.to_string()))
}

/// The wait, in milliseconds, before a witness is asked again after `failures` failures in a row.
#[must_use]
pub fn wait(failures: u32) -> i64 {
    let doubled = failures.saturating_sub(1).min(16);
    (WITNESS_GAP_MS << doubled).min(WITNESS_BACKOFF_MS)
}

/// A checkpoint with its cosignatures by witnesses of a policy, in the policy's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosigned<'a> {
    lines: Vec<&'a StoredCosignature>,
    /// Whether they suffice for the policy's quorum.
    is_quorum: bool,
}

impl<'a> Cosigned<'a> {
    /// The size of the checkpoint, and the checkpoint.
    pub(super) fn checkpoint(&self) -> Option<(u64, &'a str)> {
        let one = self.lines.first()?;
        Some((one.size, one.checkpoint()))
    }

    /// The checkpoint and the lines.
    pub(super) fn note(&self) -> String {
        let (_, checkpoint) = self.checkpoint().unwrap_or_default();
        let lines = self.lines.iter().filter_map(|one| one.line_of(checkpoint));
        lines.fold(checkpoint.to_owned(), |note, line| note + line)
    }

    /// The keys of the witnesses.
    pub(super) fn witnesses(&self) -> Vec<String> {
        self.lines.iter().map(|one| one.key.clone()).collect()
    }
}

/// Gathers the cosignatures by checkpoint, newest last. What is of another log, or of a witness that the policy does not name, is left
/// out.
fn gather<'a>(
    stored: &'a [StoredCosignature],
    policy: &TrustPolicy,
    origin: &str,
) -> Vec<(u64, Cosigned<'a>)> {
    let mut by_checkpoint: BTreeMap<(u64, &str), Vec<&StoredCosignature>> = BTreeMap::new();
    let of_log = format!("{origin}\n");
    for witness in policy.witnesses() {
        let key = witness.key.to_string();
        let its = stored
            .iter()
            .filter(|one| one.key == key && one.note.starts_with(&of_log));
        for one in its {
            by_checkpoint
                .entry((one.size, one.checkpoint()))
                .or_default()
                .push(one);
        }
    }
    let cosigned = by_checkpoint.into_iter().map(|((size, _), lines)| {
        let has = |key: &str| lines.iter().any(|one| one.key == key);
        let is_quorum = policy.is_reached_by(|witness| has(&witness.key.to_string()));
        (size, Cosigned { lines, is_quorum })
    });
    cosigned.collect()
}

/// The best of the checkpoints whose number of entries is in `sizes`: one with a quorum before one without, then the one that more
/// witnesses have cosigned, then the newest.
pub(super) fn best<'a>(
    stored: &'a [StoredCosignature],
    policy: &TrustPolicy,
    origin: &str,
    sizes: RangeInclusive<u64>,
) -> Option<Cosigned<'a>> {
    let all = gather(stored, policy, origin).into_iter();
    let fitting = all.filter(|(size, _)| sizes.contains(size));
    let best = fitting.max_by_key(|(size, it)| (it.is_quorum, it.lines.len(), *size));
    best.map(|(_, cosigned)| cosigned)
}

/// The cosignatures that are of no use any more, by size and witness: those before the newest quorum, all but the newest few of each
/// witness after it, and those of another log or a witness that the policy no longer names. `checkpoint` is one of the present log.
pub(super) fn superseded(
    stored: &[StoredCosignature],
    policy: &TrustPolicy,
    checkpoint: &str,
) -> Vec<(u64, [u8; 32])> {
    let origin = checkpoint.split('\n').next().unwrap_or_default();
    let gathered = gather(stored, policy, origin);
    let quorum = gathered.iter().rev().find(|(_, it)| it.is_quorum);
    let quorum = quorum.map_or(0, |(size, _)| *size);
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    let mut keep = Vec::new();
    for (size, cosigned) in gathered.iter().rev() {
        for one in &cosigned.lines {
            let count = kept.entry(&one.key).or_default();
            *count += 1;
            if *size == quorum || *size > quorum && *count <= COSIGNATURES_KEPT {
                keep.push((one.size, &one.key));
            }
        }
    }
    let useless = stored
        .iter()
        .filter(|one| !keep.contains(&(one.size, &one.key)));
    useless.map(|one| (one.size, one.id())).collect()
}

#[cfg(test)]
mod tests;
