//! Checks that a packet lacks no entry which the ledger's map knew of.
//!
//! The map has one value for each stream: how many entries it has, and which is the last. So a packet without its last entry
//! does not fit a map that covers it, and a map from before that entry proves nothing beyond its own time.

use super::super::epoch::Epoch;
use super::super::facts::members;
use super::super::packet::{Completeness, CompletenessStep, Packet};
use super::super::report::CompleteAsOf;
use super::Verification;
use super::entries::of_the_log;
use crate::ledger::map::{MapStep, MapValue, key_of, verify_value};
use crate::ledger::{Hash, LeafKind, VerifierKey};

impl Verification<'_> {
    /// Checks the map's proof, of a packet whose entries hold.
    pub(super) fn completeness(&mut self, packet: &Packet, key: &VerifierKey) {
        let Some(shown) = &packet.completeness else {
            let detail = "Not yet shown: the packet was made before the ledger was mapped with all these entries, so nothing in it \
                          says that there is no later one. A packet made some minutes later shows that; the log does at once.";
            self.check("complete", "", Ok(detail.to_owned()));
            return;
        };
        let outcome = self.mapped(packet, shown, key);
        let found = outcome.map(|found| {
            let said = format!(
                "Nothing recorded by {} is missing: the ledger commits to a map of its first {} entries, in which this booking has \
                 exactly these {} entries. Later entries are not in it. Whoever reads the ledger can make the map anew and see \
                 that it is true.",
                found.at, found.tree_size, packet.entries.len()
            );
            self.report.complete = Some(found);
            said
        });
        self.check("complete", "/completeness", found);
    }

    fn mapped(
        &self,
        packet: &Packet,
        shown: &Completeness,
        key: &VerifierKey,
    ) -> Result<CompleteAsOf, String> {
        let Some(timeline) = &self.timeline else {
            return Err("Without entries there is nothing to be complete.".to_owned());
        };
        let checkpoint = self.checkpoint.as_deref();
        let checkpoint = checkpoint.ok_or("The entries are not proven.")?;
        let under = (key, checkpoint);
        let link = of_the_log(packet, &shown.entry, under, (LeafKind::LogMapped, "map"))?;
        if link.leaf.stream != Epoch::stream() {
            return Err("The entry that commits to the map is not in the stream of all maps, where everybody looks for it.".to_owned());
        }
        let epoch = Epoch::read(members(&shown.entry.disclosures))?;
        let (last, head) = *timeline.entries.last().ok_or("There are no entries.")?;
        if epoch.tree_size <= last {
            return Err(
                "The map is older than the last entry, so it does not show that no later one exists."
                    .to_owned(),
            );
        }
        if epoch.tree_size > link.index || epoch.written_at.ms() > link.leaf.t {
            return Err("The map claims to cover entries that were written after it.".to_owned());
        }
        if epoch.written_at < self.written {
            return Err("The map claims to end before the last entry was written.".to_owned());
        }
        let step = |step: &CompletenessStep| {
            let hash = Hash::from_base64(&step.hash);
            hash.map(|hash| MapStep {
                bit: step.bit,
                hash,
            })
        };
        let path = shown.path.iter().map(step).collect::<Result<Vec<_>, _>>();
        let path = path.map_err(|e| format!("The path through the map cannot be read: {e}."))?;
        let value = MapValue {
            count: timeline.entries.len() as u64,
            head,
        };
        verify_value(&epoch.map_root, &key_of(&timeline.stream), &value, &path).map_err(|e| {
            format!(
                "The ledger's map does not say that these {} entries are all of this booking: {e}. Entries may be left out.",
                value.count
            )
        })?;
        Ok(CompleteAsOf {
            at: epoch.written_at,
            tree_size: epoch.tree_size,
        })
    }
}
