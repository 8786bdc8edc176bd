//! The records of endpoints that have no deliveries here. Bounded: when it is full, the half that was unused for longest is
//! forgotten. Troubled endpoints have a memory of their own, so that they cannot push out healthy ones, however many there are.

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
    /// Keeps a record unless the endpoint is new; returns the endpoints whose records are forgotten to make room.
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

    /// Removes and returns a record.
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
