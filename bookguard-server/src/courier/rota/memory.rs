//! What is known of endpoints while nothing is held for them. Bounded: when it is full, the half that was not used for longest is
//! forgotten. Those in trouble have a memory of their own, so that no number of them makes one that fares well new again.

use std::collections::HashMap;

use bookguard_core::engine::outbox::Standing;
use bookguard_core::limits::ENDPOINTS_REMEMBERED;
use bookguard_core::model::EndpointId;

use super::record::Record;

#[derive(Debug, Default)]
pub(super) struct Memory {
    good: Shelf,
    troubled: Shelf,
}

#[derive(Debug, Default)]
struct Shelf {
    records: HashMap<EndpointId, (u64, Record)>,
    turn: u64,
}

impl Memory {
    /// Keeps it, unless there is nothing to know; which endpoints are forgotten for it.
    pub(super) fn keep(&mut self, endpoint_id: EndpointId, record: Record) -> Vec<EndpointId> {
        let shelf = match record.terms().standing {
            Standing::Good => &mut self.good,
            Standing::Troubled => &mut self.troubled,
            Standing::New => return Vec::new(),
        };
        shelf.turn += 1;
        shelf.records.insert(endpoint_id, (shelf.turn, record));
        match shelf.records.len() > ENDPOINTS_REMEMBERED {
            true => shelf.forget_half(),
            false => Vec::new(),
        }
    }

    /// Takes it out.
    pub(super) fn take(&mut self, endpoint_id: &EndpointId) -> Option<Record> {
        let found = self.good.records.remove(endpoint_id);
        let (_, record) = found.or_else(|| self.troubled.records.remove(endpoint_id))?;
        Some(record)
    }
}

impl Shelf {
    fn forget_half(&mut self) -> Vec<EndpointId> {
        let mut turns: Vec<u64> = self.records.values().map(|(turn, _)| *turn).collect();
        let middle = turns.len() / 2;
        let (_, &mut since, _) = turns.select_nth_unstable(middle);
        let old = self.records.extract_if(|_, (turn, _)| *turn < since);
        old.map(|(endpoint_id, _)| endpoint_id).collect()
    }
}
