//! Checks the time-stamps of a packet: each is over a checkpoint that the packet's log continues, each but the last is renewed by
//! the next, and, given roots, an authority that they vouch for made them.

use bookguard_time::Stamp;
use sha2::{Digest as _, Sha256};

use super::super::anchor::Anchor;
use super::super::facts::members;
use super::super::packet::{Packet, PacketTimestamp};
use super::super::report::StampedTime;
use super::entries::{Link, of_the_log};
use super::{TimestampTrust, Verification, decode};
use crate::ledger::proof::verify_consistency;
use crate::ledger::{Checkpoint, Hash, LeafKind, VerifierKey};
use crate::limits::PACKET_STAMPS;
use crate::model::Timestamp;

/// A stamp whose place in the log is proven.
struct Proven {
    head: Checkpoint,
    imprint: [u8; 32],
    response: Vec<u8>,
    /// The time it states.
    time: Timestamp,
    anchor: Option<Link>,
}

impl Verification<'_> {
    /// Checks all stamps, of a packet whose entries hold.
    pub(super) fn timestamps(&mut self, packet: &Packet, key: &VerifierKey) {
        let stamps = &packet.timestamps;
        if stamps.is_empty() {
            if self.trust.is_some() {
                let detail = "Not yet timestamped: the packet holds no time-stamp, so only the service says when it was recorded.";
                self.check("timestamps", "", Ok(detail.to_owned()));
            }
            return;
        }
        let (Some(timeline), Some(checkpoint)) = (&self.timeline, self.checkpoint.clone()) else {
            return;
        };
        let log = timeline.log.clone();
        let indexes: Vec<u64> = timeline.entries.iter().map(|(index, _)| *index).collect();
        let mut proven: Vec<Proven> = Vec::new();
        for (at, stamp) in stamps.iter().enumerate() {
            let place = format!("/timestamps/{at}");
            let outcome = if at < PACKET_STAMPS {
                place_of(packet, stamp, key, (&log, &checkpoint))
            } else {
                Err(format!(
                    "The packet has more than {PACKET_STAMPS} time-stamps."
                ))
            };
            let outcome = outcome.and_then(|stamp| {
                follows(proven.last(), &stamp)?;
                Ok(stamp)
            });
            match outcome {
                Ok(stamp) => proven.push(stamp),
                Err(why) => {
                    self.check("timestamps", &place, Err(why));
                    return;
                }
            }
        }
        if proven.last().is_some_and(|last| last.anchor.is_some()) {
            let why = "No later time-stamp renews the last one, so it must not have an anchor.";
            self.check("timestamps", "/timestamps", Err(why.to_owned()));
            return;
        }
        self.times(&proven, &indexes);
    }

    /// Says what the stamps prove, and checks who made them.
    fn times(&mut self, proven: &[Proven], indexes: &[u64]) {
        let Some(first) = proven.first() else { return };
        let covered = indexes.iter().filter(|index| **index < first.head.size);
        let (covered, all) = (covered.count(), indexes.len());
        if covered == 0 {
            let why = "The time-stamp is older than every record of the packet.";
            self.check("timestamps", "/timestamps/0", Err(why.to_owned()));
            return;
        }
        let what = if covered == all {
            format!("all {all} records")
        } else {
            format!("the first {covered} of {all} records")
        };
        let Some(TimestampTrust { roots, at }) = self.trust else {
            self.check("timestamps", "/timestamps/0", Ok(format!(
                "A time-stamp says that {what} existed at {}. Who made it was not checked: that takes the certificates of authorities \
                 whom you trust (--timestamp-roots).",
                first.time
            )));
            return;
        };
        let mut found: Vec<Stamp> = Vec::new();
        // Each stamp is judged at the time of the next one, which shows that it existed then; the last one now.
        let until = proven.iter().skip(1).map(|next| next.time).chain([at]);
        for (place, (stamp, at)) in proven.iter().zip(until).enumerate() {
            match bookguard_time::verify(&stamp.response, &stamp.imprint, roots, at.ms()) {
                Ok(stamp) => found.push(stamp),
                Err(why) => {
                    let why = format!("The time-stamp is not to be trusted: {why}.");
                    self.check("timestamps", &format!("/timestamps/{place}"), Err(why));
                    return;
                }
            }
        }
        for (place, stamp) in found.iter().enumerate() {
            let time = Timestamp::from_ms(stamp.time);
            let detail = match place {
                0 => format!(
                    "By {time}, {what} existed: {} stamped the ledger's first {} entries, and a root that you trust vouches for it.",
                    named(&stamp.authority),
                    first.head.size
                ),
                _ => format!(
                    "{} renewed the time-stamp before at {time}, while its certificates were valid.",
                    named(&stamp.authority)
                ),
            };
            self.check("timestamps", &format!("/timestamps/{place}"), Ok(detail));
        }
        self.report.timestamp = found.first().map(|stamp| StampedTime {
            at: Timestamp::from_ms(stamp.time),
            authority: stamp.authority.clone(),
            entries: covered,
        });
    }
}

fn named(authority: &str) -> String {
    match authority {
        "" => "an authority without a name".to_owned(),
        name => format!("the authority \"{name}\""),
    }
}

/// Checks that the log continues the stamped checkpoint, and that the response stamps it.
fn place_of(
    packet: &Packet,
    stamp: &PacketTimestamp,
    key: &VerifierKey,
    (log, checkpoint): (&Checkpoint, &str),
) -> Result<Proven, String> {
    let head = Checkpoint::open(&stamp.checkpoint, key)
        .map_err(|e| format!("The stamped checkpoint is not the ledger's: {e}."))?;
    let text = key
        .open(&stamp.checkpoint)
        .map_err(|e| format!("The stamped checkpoint is not the ledger's: {e}."))?;
    let path = stamp.consistency.iter().map(|hash| Hash::from_base64(hash));
    let path: Vec<Hash> = path
        .collect::<Result<_, _>>()
        .map_err(|e| format!("The proof of the stamped checkpoint cannot be read: {e}."))?;
    if head.size == 0 {
        return Err("The stamped checkpoint covers no entry.".to_owned());
    }
    verify_consistency(head.size, &head.root, log.size, &log.root, &path).map_err(|e| {
        format!("The stamped checkpoint is not proven to belong to the packet's log: {e}.")
    })?;
    let response =
        decode(&stamp.response).ok_or("The time-stamp is not valid base64; it was changed.")?;
    let claim = bookguard_time::read(&response)
        .map_err(|e| format!("The time-stamp cannot be read: {e}."))?;
    let imprint: [u8; 32] = Sha256::digest(text).into();
    if claim.imprint != imprint {
        return Err("The time-stamp does not stamp the checkpoint beside it.".to_owned());
    }
    let anchor = stamp.anchor.as_ref().map(|entry| {
        let kind = (LeafKind::LogAnchored, "time-stamp");
        let link = of_the_log(packet, entry, (key, checkpoint), kind)?;
        let anchor = Anchor::read(members(&entry.disclosures))?;
        if anchor.response_hash != Anchor::hash(&response) || anchor.tree_size != head.size {
            return Err("The ledger commits to another time-stamp.".to_owned());
        }
        Ok(link)
    });
    Ok(Proven {
        anchor: anchor.transpose()?,
        head,
        imprint,
        response,
        time: Timestamp::from_ms(claim.time),
    })
}

/// Checks that a stamp renews the one before it: it is over the entry that commits to that one.
fn follows(before: Option<&Proven>, stamp: &Proven) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    match &before.anchor {
        Some(anchor) if anchor.index < stamp.head.size => Ok(()),
        _ => Err("The time-stamp does not renew the one before it.".to_owned()),
    }
}
