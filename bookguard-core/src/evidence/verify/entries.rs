//! Checks the entries of a packet: each is in the ledger, they form one unbroken chain, and their values are the committed
//! ones.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::erasure::{EVIDENCE_COUNT, Erasable, ErasedNames, Erasure, can_go};
use super::super::facts::{LeafPlace, exactly, members};
use super::super::packet::{Packet, PacketEntry};
use super::super::timeline::Timeline;
use super::{Outcome, Verification, decode, place};
use crate::input::shorten;
use crate::ledger::hash::Hash;
use crate::ledger::leaf::bytes_of;
use crate::ledger::{
    Checkpoint, Leaf, LeafKind, TlogProof, VerifierKey, leaf_hash, verify_disclosure,
};
use crate::model::Timestamp;
use crate::text;

/// An entry whose leaf was read and proven.
pub(super) struct Link {
    pub(super) leaf: Leaf,
    hash: Hash,
    pub(super) index: u64,
    pub(super) head: String,
}

impl Verification<'_> {
    /// Checks all entries. Returns their kinds and places, unless a check failed.
    pub(super) fn entries(
        &mut self,
        packet: &Packet,
        key: &VerifierKey,
    ) -> Option<Vec<(LeafKind, LeafPlace)>> {
        let mut links = Vec::new();
        let mut proven = Vec::new();
        let mut whole = true;
        let erased = erased(packet);
        for (at, entry) in packet.entries.iter().enumerate() {
            let (link, head) = match prove(entry, key) {
                Ok(found) => found,
                Err(why) => {
                    self.check("proof", &place(at, "proof"), Err(why));
                    whole = false;
                    continue;
                }
            };
            self.witness(&head);
            self.check(
                "proof",
                &place(at, "proof"),
                Ok(format!(
                    "This entry, written {}, is at place {} of the ledger {}, which then had {}.",
                    Timestamp::from_ms(link.leaf.t),
                    link.index,
                    head.origin,
                    text::entries(head.size)
                )),
            );
            let kind = committed(entry, &link);
            let told = kind.clone().map(|kind| {
                format!(
                    "The entry is of the kind {kind}, and it is the one the ledger committed to."
                )
            });
            whole &= self.check("commitment", &place(at, "body"), told);
            if let Ok(kind) = kind {
                let (index, hash) = (link.index, link.hash);
                let at = Timestamp::from_ms(link.leaf.t);
                proven.push((kind, LeafPlace { index, hash, at }));
            }
            whole &= self.check(
                "disclosures",
                &place(at, "disclosures"),
                (erased.as_ref().map_err(Clone::clone))
                    .and_then(|erased| disclosed(packet, entry, &names_erased(erased, at, entry)?)),
            );
            links.push((link, head));
        }
        if !whole {
            return None;
        }
        let chained = self.check("chain", "/entries", chain(packet, &links));
        let entries = (links.iter())
            .map(|(link, _)| (link.index, link.hash))
            .collect();
        let (last, head) = links.pop()?;
        self.written = Timestamp::from_ms(last.leaf.t);
        self.checkpoint = chained.then_some(last.head);
        self.timeline = Some(Timeline {
            booking: packet.booking.booking_id,
            stream: last.leaf.stream,
            entries,
            log: head,
        });
        chained.then_some(proven)
    }
}

/// Reads the leaf, beginning with its version, and proves it.
fn prove(entry: &PacketEntry, key: &VerifierKey) -> Result<(Link, Checkpoint), String> {
    let bytes =
        decode(&entry.leaf).ok_or("The entry's leaf is not valid base64; it was changed.")?;
    let leaf =
        Leaf::parse(&bytes).map_err(|e| format!("The leaf of the entry cannot be read: {e}."))?;
    let proof = TlogProof::parse(&entry.proof)
        .map_err(|e| format!("The entry's proof cannot be read: {e}."))?;
    if proof.extra.is_some() || proof.to_string() != entry.proof {
        return Err("The entry's proof holds more than a proof; it was changed.".to_owned());
    }
    let head = proof
        .verify(&bytes, key)
        .map_err(|e| format!("The entry is not proven to be in the ledger: {e}."))?;
    let link = Link {
        hash: leaf_hash(&bytes),
        leaf,
        index: proof.index,
        head: proof.checkpoint,
    };
    Ok((link, head))
}

/// Checks that the leaf commits to the body, and that the body is of a known kind.
fn committed(entry: &PacketEntry, link: &Link) -> Result<LeafKind, String> {
    let salt = bytes_of(&entry.salt).ok_or("The entry's salt is not 32 bytes in base64url.")?;
    entry
        .body
        .verify(&link.leaf, &salt)
        .map_err(|_| "The entry's content is not the one the ledger committed to.")?;
    entry.body.kind.parse().map_err(|_| {
        format!(
            "\"{}\" is not a kind of entry that this version of Bookguard knows.",
            shorten(&entry.body.kind)
        )
    })
}

/// Checks an entry of the log's own, which commits to the `what` beside it: it is proven under the packet's checkpoint, of its
/// kind, and hides nothing.
pub(super) fn of_the_log(
    packet: &Packet,
    entry: &PacketEntry,
    (key, checkpoint): (&VerifierKey, &str),
    (kind, what): (LeafKind, &str),
) -> Result<Link, String> {
    let (link, _) = prove(entry, key)?;
    if link.head != checkpoint {
        return Err(format!(
            "The entry that commits to the {what} is proven under another state of the ledger than the entries."
        ));
    }
    if committed(entry, &link)? != kind {
        return Err(format!(
            "The entry beside the {what} does not commit to one."
        ));
    }
    disclosed(packet, entry, &[])?;
    if entry.disclosures.len() != entry.body.sd.len() {
        return Err(format!(
            "The entry that commits to the {what} hides a value."
        ));
    }
    Ok(link)
}

/// The values that later entries of the packet say were erased.
pub(in crate::evidence) fn erased(packet: &Packet) -> Result<ErasedNames, String> {
    const KIND: LeafKind = LeafKind::EvidenceErased;
    let mut erasures = Vec::new();
    for (seq, entry) in (0_u64..).zip(&packet.entries) {
        if entry.body.kind == KIND.as_str() {
            let erasure: Erasure = exactly(KIND, members(&entry.disclosures))?;
            erasures.push((seq, erasure));
        }
    }
    ErasedNames::of(erasures.iter().map(|(seq, erasure)| (*seq, erasure)))
}

/// The names of the erased values of an entry, each of which its kind must allow to be erased, and it must have had.
fn names_erased<'a>(
    erased: &'a ErasedNames,
    at: usize,
    entry: &PacketEntry,
) -> Result<Vec<&'a str>, String> {
    let had = |name: &str| entry.body.sd.contains_key(name);
    if had(EVIDENCE_COUNT) && !had(Erasable::Evidence.word()) {
        return Err("The entry counts documents that it never named.".to_owned());
    }
    let kind: Option<LeafKind> = entry.body.kind.parse().ok();
    let names: Vec<&str> = erased.of_entry(at as u64).collect();
    let is_wrong = |name: &&&str| !kind.is_some_and(|kind| can_go(name, kind, had));
    match names.iter().find(is_wrong) {
        Some(name) => Err(format!(
            "The value {name} cannot have been erased: the entry never had it, or must keep it."
        )),
        None => Ok(names),
    }
}

/// Checks that every value shown is the committed one, and that every committed value is shown, named as withheld, or erased.
fn disclosed(packet: &Packet, entry: &PacketEntry, erased: &[&str]) -> Outcome {
    let withheld: Vec<&str> = packet.withheld.iter().map(|name| name.word()).collect();
    if !withheld.is_sorted_by(|a, b| a < b) {
        return Err(
            "The names of the withheld values are not in order, or one is given twice.".to_owned(),
        );
    }
    let disclosures = entry.disclosures.iter();
    let names: Vec<&str> = disclosures.map(|one| one.name.as_str()).collect();
    if !names.is_sorted_by(|a, b| a < b) {
        return Err("The values are not in order, or one is given twice.".to_owned());
    }
    for disclosure in &entry.disclosures {
        verify_disclosure(&entry.body, disclosure).map_err(|_| {
            format!(
                "The value of {} is not the one that was recorded.",
                shorten(&disclosure.name)
            )
        })?;
    }
    let is_in = |list: &[&str], name: &str| list.binary_search(&name).is_ok();
    if let Some(name) = names.iter().find(|name| is_in(&withheld, name)) {
        return Err(format!(
            "The value {name} is shown, although the packet says that it is withheld."
        ));
    }
    if let Some(name) = names.iter().find(|name| erased.contains(name)) {
        return Err(format!(
            "The value {name} is shown, although a later entry says that it was erased."
        ));
    }
    let committed = entry.body.sd.keys().map(String::as_str);
    let (hidden, shown): (Vec<&str>, Vec<&str>) =
        committed.partition(|name| is_in(&withheld, name) || erased.contains(name));
    if let Some(name) = shown.iter().find(|name| !is_in(&names, name)) {
        return Err(format!(
            "The value {} was recorded but is not shown.",
            shorten(name)
        ));
    }
    let shown = names.len();
    if !hidden.is_empty() {
        let said = match shown {
            1 => "The one value shown is the one recorded.".to_owned(),
            shown => format!("The {shown} values shown are the ones recorded."),
        };
        let (gone, withheld): (Vec<&str>, Vec<&str>) =
            hidden.into_iter().partition(|name| erased.contains(name));
        let listed = [("Withheld", withheld), ("Erased", gone)];
        let listed = listed.iter().filter(|(_, names)| !names.is_empty());
        return Ok(listed.fold(said, |said, (what, names)| {
            format!("{said} {what}: {}.", names.join(", "))
        }));
    }
    Ok(match shown {
        1 => "The one value of the entry is the one recorded.".to_owned(),
        shown => format!("All {shown} values of the entry are the ones recorded."),
    })
}

/// Checks that the entries belong to one booking, from its first on, without gap or repetition, under one head of the ledger.
fn chain(packet: &Packet, links: &[(Link, Checkpoint)]) -> Outcome {
    let Some((first, _)) = links.first() else {
        return Err("The packet has no entries.".to_owned());
    };
    let mut before: Option<&Link> = None;
    for (seq, (link, _)) in (0_u64..).zip(links) {
        if URL_SAFE_NO_PAD.encode(link.leaf.stream) != packet.stream {
            return Err(format!("Entry {seq} belongs to another booking."));
        }
        if link.leaf.seq != seq {
            return Err(format!(
                "Entry {} stands where entry {seq} of the booking belongs: one is missing, repeated or moved.",
                link.leaf.seq
            ));
        }
        if link.leaf.prev != before.map_or(Hash::ZERO, |link| link.hash) {
            return Err(format!("Entry {seq} does not follow the entry before it."));
        }
        if before.is_some_and(|before| before.index >= link.index) {
            return Err(format!(
                "Entry {seq} stands before its predecessor in the ledger."
            ));
        }
        if link.head != first.head {
            return Err(format!(
                "Entry {seq} is proven under another state of the ledger than the first."
            ));
        }
        if before.is_some_and(|before| before.leaf.t > link.leaf.t) {
            return Err(format!(
                "Entry {seq} has an earlier time than the entry before it, which never happens in the ledger."
            ));
        }
        if packet.created_at.ms() < link.leaf.t {
            return Err(format!(
                "The packet claims to be older than its entry {seq}."
            ));
        }
        before = Some(link);
    }
    // The holder of the key can leave out the last entry and sign the rest; no packet alone can reveal that.
    let chained = match links.len() {
        1 => "This entry is the first of the booking".to_owned(),
        n => format!(
            "These {n} entries form an unbroken chain, from the booking's first on: nothing before the last is missing, \
             repeated, moved or another booking's"
        ),
    };
    Ok(format!(
        "{chained}. Whether there is a later one, the log shows: bookguard evidence verify --log URL|DIR."
    ))
}
