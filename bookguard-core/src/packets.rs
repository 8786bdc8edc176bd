//! A cache of the evidence packets that this node made.
//!
//! A packet takes long to make, and is requested again while nothing has happened to its booking. The caller has just
//! read the booking's state and names it by a tag. A packet with another tag, or one older than
//! [`limits::PACKET_KEPT_MS`], is not returned. Invariants: dropping any packet at any time changes only the time at
//! which an answer was made. The cache never exceeds [`limits::PACKETS_KEPT_BYTES`], and the partner with the most
//! bytes gives way first. Once values were erased on this node, no packet that shows them is cached, and whoever was making one
//! at that moment cannot cache it; other nodes follow within a second (`features::erasures::follow`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::evidence::{SealedPacket, Withheld};
use crate::limits;
use crate::model::{BookingId, PartnerId, Timestamp};

/// Which packet it is: a booking's, without these values.
pub(crate) type PacketKey = (BookingId, Vec<Withheld>);

/// The cached packets.
#[derive(Default)]
pub(crate) struct Packets(Mutex<Cache>);

#[derive(Default)]
struct Cache {
    packets: HashMap<PacketKey, One>,
    /// The bytes cached for each partner.
    bytes: HashMap<PartnerId, usize>,
    /// Counts accesses.
    uses: u64,
    /// Counts the bookings whose values were erased.
    erasures: u64,
}

/// How far erasures had got when somebody began to make a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenErasures(u64);

struct One {
    owner: PartnerId,
    packet: SealedPacket,
    made_at: Timestamp,
    last_use: u64,
}

impl One {
    fn is_young(&self, now: Timestamp) -> bool {
        (0..limits::PACKET_KEPT_MS).contains(&(now.ms() - self.made_at.ms()))
    }
}

impl Packets {
    /// The cached packet, if it has this tag and is young enough.
    pub fn get(&self, key: &PacketKey, tag: &str, now: Timestamp) -> Option<SealedPacket> {
        let mut kept = self.kept();
        kept.uses += 1;
        let last_use = kept.uses;
        let one = kept.packets.get_mut(key)?;
        if one.packet.tag() != Some(tag) || !one.is_young(now) {
            return None;
        }
        one.last_use = last_use;
        Some(one.packet.clone())
    }

    /// To be asked before the store is read for a packet that shall be cached.
    pub fn erasures(&self) -> SeenErasures {
        SeenErasures(self.kept().erasures)
    }

    /// Caches a packet that was made at `now`, unless values were erased since `seen`: it may show them.
    pub fn keep(
        &self,
        key: PacketKey,
        owner: PartnerId,
        packet: &SealedPacket,
        (now, seen): (Timestamp, SeenErasures),
    ) {
        let mut kept = self.kept();
        kept.forget(&key);
        let bytes = packet.text().len();
        if bytes > limits::PACKETS_KEPT_BYTES || seen.0 != kept.erasures {
            return;
        }
        while kept.bytes.values().sum::<usize>() + bytes > limits::PACKETS_KEPT_BYTES {
            kept.give_way();
        }
        kept.uses += 1;
        let one = One {
            owner,
            packet: packet.clone(),
            made_at: now,
            last_use: kept.uses,
        };
        kept.packets.insert(key, one);
        *kept.bytes.entry(owner).or_default() += bytes;
    }

    /// Drops all packets of a booking whose values were erased. Call this after the commit that erased them.
    pub fn forget(&self, booking_id: &BookingId) {
        let mut kept = self.kept();
        kept.erasures += 1;
        kept.forget_all(|(of, _), _| of == booking_id);
    }

    /// Drops the packets that are too old to be an answer, and those from the future: the clock was ahead when they were made.
    pub fn forget_old(&self, now: Timestamp) {
        self.kept().forget_all(|_, one| !one.is_young(now));
    }

    /// The number of cached packets of a booking.
    #[cfg(test)]
    pub fn count(&self, booking_id: &BookingId) -> usize {
        let kept = self.kept();
        kept.packets
            .keys()
            .filter(|(of, _)| of == booking_id)
            .count()
    }

    fn kept(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Drops the least recently used packet of the partner with the most bytes.
    fn give_way(&mut self) {
        let most = self.bytes.iter().max_by_key(|(_, bytes)| **bytes);
        let Some(owner) = most.map(|(owner, _)| *owner) else {
            return;
        };
        let own = self.packets.iter().filter(|(_, one)| one.owner == owner);
        let oldest = own.min_by_key(|(_, one)| one.last_use);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.forget(&key);
        }
    }

    fn forget_all(&mut self, is_gone: impl Fn(&PacketKey, &One) -> bool) {
        let gone = self.packets.iter().filter(|(key, one)| is_gone(key, one));
        let gone: Vec<PacketKey> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.forget(key));
    }

    fn forget(&mut self, key: &PacketKey) {
        let Some(one) = self.packets.remove(key) else {
            return;
        };
        if let Some(bytes) = self.bytes.get_mut(&one.owner) {
            *bytes -= one.packet.text().len();
            if *bytes == 0 {
                self.bytes.remove(&one.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn booking(n: u8) -> PacketKey {
        (BookingId::from_bytes([n; 16]), Vec::new())
    }

    fn partner(n: u8) -> PartnerId {
        PartnerId::from_bytes([n; 16])
    }

    fn packet(bytes: usize, tag: &str) -> SealedPacket {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        SealedPacket::from(RawValue::from_string(text).unwrap()).tagged(tag)
    }

    #[test]
    fn only_what_tells_just_this_and_is_young_is_an_answer() {
        let packets = Packets::default();
        let at = |ms| Timestamp::from_ms(1_700_000_000_000 + ms);
        packets.keep(
            booking(1),
            partner(1),
            &packet(10, "a"),
            (at(0), packets.erasures()),
        );
        for (n, tag, ms, kept) in [
            (1, "a", 0, true),
            (1, "a", limits::PACKET_KEPT_MS - 1, true),
            (1, "a", limits::PACKET_KEPT_MS, false),
            (1, "a", -1, false),
            (1, "b", 0, false),
            (2, "a", 0, false),
        ] {
            let found = packets.get(&booking(n), tag, at(ms));
            assert_eq!(found.is_some(), kept, "{n} {tag} {ms}");
        }
        packets.keep(
            booking(1),
            partner(1),
            &packet(12, "b"),
            (at(5), packets.erasures()),
        );
        assert_eq!(packets.get(&booking(1), "a", at(5)), None);
        assert_eq!(packets.kept().bytes[&partner(1)], 12);
        packets.forget(&booking(1).0);
        assert_eq!(packets.get(&booking(1), "b", at(5)), None);
        assert!(packets.kept().bytes.is_empty());
    }

    #[test]
    fn what_was_erased_is_not_cached_and_what_is_old_goes_by_itself() {
        let packets = Packets::default();
        let at = |ms| Timestamp::from_ms(1_700_000_000_000 + ms);
        let before = packets.erasures();
        packets.keep(booking(1), partner(1), &packet(10, "a"), (at(0), before));
        packets.keep(booking(2), partner(1), &packet(10, "a"), (at(1), before));
        packets.forget(&booking(1).0);
        assert_eq!(packets.count(&booking(1).0), 0);
        assert_eq!(packets.count(&booking(2).0), 1);
        // Somebody read the booking before, and has made its packet only now.
        packets.keep(booking(1), partner(1), &packet(10, "a"), (at(2), before));
        assert_eq!(packets.count(&booking(1).0), 0);
        packets.keep(
            booking(1),
            partner(1),
            &packet(10, "b"),
            (at(2), packets.erasures()),
        );
        packets.forget_old(at(1 + limits::PACKET_KEPT_MS));
        assert_eq!(
            (packets.count(&booking(1).0), packets.count(&booking(2).0)),
            (1, 0)
        );
        packets.forget_old(at(2 + limits::PACKET_KEPT_MS));
        assert!(packets.kept().bytes.is_empty());
        // The clock was set back.
        let now = (at(9), packets.erasures());
        packets.keep(booking(1), partner(1), &packet(10, "a"), now);
        packets.forget_old(at(8));
        assert_eq!(packets.count(&booking(1).0), 0);
    }

    #[test]
    fn whoever_keeps_most_gives_way_and_what_was_used_stays() {
        let packets = Packets::default();
        let now = Timestamp::from_ms(1_700_000_000_000);
        let eighth = limits::PACKETS_KEPT_BYTES / 8;
        let is_kept = |n| packets.get(&booking(n), "a", now).is_some();
        packets.keep(
            booking(100),
            partner(2),
            &packet(eighth, "a"),
            (now, packets.erasures()),
        );
        for n in 0..7 {
            packets.keep(
                booking(n),
                partner(1),
                &packet(eighth, "a"),
                (now, packets.erasures()),
            );
        }
        assert!(is_kept(0));
        for n in 7..9 {
            packets.keep(
                booking(n),
                partner(1),
                &packet(eighth, "a"),
                (now, packets.erasures()),
            );
        }
        let left: Vec<_> = (0..9).filter(|n| is_kept(*n)).collect();
        assert_eq!(left, [0, 3, 4, 5, 6, 7, 8]);
        assert!(is_kept(100), "it had the oldest, and little");
        let whole = packet(limits::PACKETS_KEPT_BYTES + 1, "a");
        packets.keep(booking(0), partner(1), &whole, (now, packets.erasures()));
        assert!(!is_kept(0), "it has no room");
        let kept = packets.kept();
        let bytes: usize = kept
            .packets
            .values()
            .map(|one| one.packet.text().len())
            .sum();
        assert_eq!(bytes, kept.bytes.values().sum::<usize>());
    }
}
