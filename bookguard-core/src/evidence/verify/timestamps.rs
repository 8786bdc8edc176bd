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

/// Where a fault is in the packet, and what it is.
type Fault = (String, String);

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
        if packet.timestamps.is_empty() {
            if self.trust.is_some() {
                let detail = "Not yet time-stamped: the packet holds no time-stamp, so only the service says when it was recorded.";
                self.check("timestamps", "", Ok(detail.to_owned()));
            }
            return;
        }
        let (Some(timeline), Some(checkpoint)) = (&self.timeline, self.checkpoint.clone()) else {
            return;
        };
        let indexes: Vec<u64> = timeline.entries.iter().map(|(index, _)| *index).collect();
        let proven = proven(packet, key, (&timeline.log, &checkpoint));
        let told = proven.and_then(|proven| self.times(&proven, &indexes));
        if let Err((place, why)) = told {
            self.check("timestamps", &place, Err(why));
        }
    }

    /// Says what the stamps prove, and checks who made them.
    fn times(&mut self, proven: &[Proven], indexes: &[u64]) -> Result<(), Fault> {
        let Some(first) = proven.first() else {
            return Ok(());
        };
        let covered = indexes.iter().filter(|index| **index < first.head.size);
        let (covered, all) = (covered.count(), indexes.len());
        if covered == 0 {
            let why = "The time-stamp is older than every entry of the packet.";
            return Err((place(0), why.to_owned()));
        }
        let what = if covered == all {
            format!("all {all} entries")
        } else {
            format!("the first {covered} of {all} entries")
        };
        let Some(TimestampTrust { roots, at }) = self.trust else {
            self.check("timestamps", &place(0), Ok(format!(
                "A time-stamp says that {what} existed at {}. Who made it was not checked: that takes the certificates of authorities \
                 whom you trust (--timestamp-roots).",
                first.time
            )));
            return Ok(());
        };
        let mut found: Vec<Stamp> = Vec::new();
        // Each stamp is judged at the time of the next one, which shows that it existed then; the last one now.
        let until = proven.iter().skip(1).map(|next| next.time).chain([at]);
        for (number, (stamp, at)) in proven.iter().zip(until).enumerate() {
            let stamp = bookguard_time::verify(&stamp.response, &stamp.imprint, roots, at.ms());
            let refused = |why| format!("The time-stamp is not to be trusted: {why}.");
            found.push(stamp.map_err(|why| (place(number), refused(why)))?);
        }
        for (number, stamp) in found.iter().enumerate() {
            let time = Timestamp::from_ms(stamp.time);
            let detail = match number {
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
            self.check("timestamps", &place(number), Ok(detail));
        }
        self.report.timestamp = found.first().map(|stamp| StampedTime {
            at: Timestamp::from_ms(stamp.time),
            authority: stamp.authority.clone(),
            entries: covered,
        });
        Ok(())
    }
}

/// Where in the packet the time-stamp with this number is.
fn place(number: usize) -> String {
    format!("/timestamps/{number}")
}

/// Checks that each stamp has its place in the log, and that each but the last is renewed by the next.
fn proven(
    packet: &Packet,
    key: &VerifierKey,
    under: (&Checkpoint, &str),
) -> Result<Vec<Proven>, Fault> {
    let mut proven: Vec<Proven> = Vec::new();
    for (number, stamp) in packet.timestamps.iter().enumerate() {
        let stamp = match number < PACKET_STAMPS {
            true => place_of(packet, stamp, key, under),
            false => Err(format!(
                "The packet has more than {PACKET_STAMPS} time-stamps."
            )),
        };
        let stamp = stamp.and_then(|stamp| follows(proven.last(), &stamp).map(|()| stamp));
        proven.push(stamp.map_err(|why| (place(number), why))?);
    }
    if proven.last().is_some_and(|last| last.anchor.is_some()) {
        let why = "No later time-stamp renews the last one, so it must not have an anchor.";
        return Err(("/timestamps".to_owned(), why.to_owned()));
    }
    Ok(proven)
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
