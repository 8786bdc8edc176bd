//! Records of endpoints while nothing is held for them. Bounded: when it is full, the half that was not used for longest is
//! forgotten. Those in trouble have a memory of their own, so that no number of them makes one that fares well new again.

use std::collections::HashMap;

use bookguard_core::engine::outbox::EndpointStanding;
use bookguard_core::limits::ENDPOINTS_REMEMBERED;
use bookguard_core::model::EndpointId;

use super::record::Record;

#[derive(Debug, Default)]
pub(super) struct Memory {
    good: RecordCache,
    troubled: RecordCache,
}

#[derive(Debug, Default)]
struct RecordCache {
    records: HashMap<EndpointId, (u64, Record)>,
    turn: u64,
}

impl Memory {
    /// Keeps it, unless there is nothing to know; which endpoints are forgotten for it.
    pub(super) fn keep(&mut self, endpoint_id: EndpointId, record: Record) -> Vec<EndpointId> {
        let cache = match record.terms().standing {
            EndpointStanding::Good => &mut self.good,
            EndpointStanding::Troubled => &mut self.troubled,
            EndpointStanding::New => return Vec::new(),
        };
        cache.turn += 1;
        cache.records.insert(endpoint_id, (cache.turn, record));
        match cache.records.len() > ENDPOINTS_REMEMBERED {
            true => cache.forget_half(),
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

impl RecordCache {
    fn forget_half(&mut self) -> Vec<EndpointId> {
        let mut turns: Vec<u64> = self.records.values().map(|(turn, _)| *turn).collect();
        let middle = turns.len() / 2;
        let (_, &mut since, _) = turns.select_nth_unstable(middle);
        let old = self.records.extract_if(|_, (turn, _)| *turn < since);
        old.map(|(endpoint_id, _)| endpoint_id).collect()
    }
}
