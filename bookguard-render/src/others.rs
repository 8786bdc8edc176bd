//! What parties other than the service say about a packet, in sentences: by when authorities say that its entries
//! existed, and who has seen that the ledger only grew.
//!
//! The page and the PDFs say the same. Nothing here is taken for granted: each sentence says whose statement it is, and whether
//! whoever made the document has checked it.

use bookguard_core::evidence::{
    CosignatureClaim, Packet, StampClaim, TimestampTrust, Trust, verify_with,
};
use bookguard_core::ledger::VerifierKey;
use bookguard_core::text::{capital, entries, quoted};

use crate::Maker;

/// The most witnesses that are listed by name.
const LISTED: usize = 16;

/// What is said, with a line for each witness.
pub(crate) struct Others {
    /// About time-stamps: a paragraph each.
    pub(crate) stamps: Vec<String>,
    /// About witnesses: before their list.
    pub(crate) witnesses: String,
    pub(crate) listed: Vec<String>,
    /// After the list; empty if nobody cosigned.
    pub(crate) unchecked: &'static str,
    /// What the packet proves because of them.
    pub(crate) proves: Vec<String>,
    /// What it does not prove, for want of them or in spite of them.
    pub(crate) limits: Vec<&'static str>,
}

impl Others {
    /// Of a packet and its exact text.
    pub(crate) fn of(packet: &Packet, text: &str, key: &VerifierKey, maker: &Maker) -> Self {
        let stamps = packet.stamp_claims();
        let cosigned = packet.cosignature_claims();
        let mut proves = Vec::new();
        let mut limits = Vec::new();
        match stamps.first() {
            Some(first) => {
                let covered = covered_entries(first.records, packet.entries.len());
                proves.push(format!(
                    "By when {covered} existed, to whoever trusts the authority of the time-stamp."
                ));
                limits.push("Since when they existed. A time-stamp shows by when.");
            }
            None => limits.push(
                "When the entries were made, to whoever does not trust the service: they are not yet time-stamped.",
            ),
        }
        let unchecked = match cosigned.is_empty() {
            false => {
                proves.push(
                    "That the ledger only grew until it was cosigned, to whoever trusts its witnesses."
                        .to_owned(),
                );
                "Their signatures were not checked here. Bookguard’s program checks them, given the witnesses that you trust: \
                 --witness-policy FILE."
            }
            true => {
                limits.push(
                    "That everybody is shown the same ledger: no witness has cosigned it here.",
                );
                ""
            }
        };
        Self {
            stamps: stamped(&stamps, packet, || is_checked(packet, text, key, maker)),
            witnesses: witnesses(cosigned.len(), packet.ledger_size()),
            listed: listed(&cosigned, packet),
            unchecked,
            proves,
            limits,
        }
    }
}

/// Whether the maker's roots vouch for the packet's time-stamp, as of when the packet was made; `None` if the maker has none.
fn is_checked(packet: &Packet, text: &str, key: &VerifierKey, maker: &Maker) -> Option<bool> {
    let roots = maker.roots.as_deref()?;
    let timestamps = Some(TimestampTrust {
        roots,
        at: packet.created_at,
    });
    let trust = Trust {
        timestamps,
        ..Trust::default()
    };
    let (report, _) = verify_with(text.as_bytes(), &key.to_string(), trust);
    Some(report.timestamp.is_some())
}

fn stamped(
    stamps: &[StampClaim],
    packet: &Packet,
    is_checked: impl FnOnce() -> Option<bool>,
) -> Vec<String> {
    let Some((first, renewals)) = stamps.split_first() else {
        return vec![match packet.timestamps.is_empty() {
            true => "Not yet time-stamped. No authority has stated yet when these entries existed; only the service says when it \
                     recorded them."
                .to_owned(),
            false => "The packet holds a time-stamp that cannot be read. It shows nothing.".to_owned(),
        }];
    };
    let rest = packet.entries.len().saturating_sub(first.records);
    let mut said = vec![format!(
        "{} stamped the ledger’s first {} on {}. So {} existed by then{}.",
        capital(&named(&first.authority)),
        entries(first.size),
        packet.time_in_words(first.at),
        covered_entries(first.records, packet.entries.len()),
        match rest {
            0 => String::new(),
            rest => format!(
                "; {} not yet time-stamped",
                match rest {
                    1 => "the last is".to_owned(),
                    rest => format!("the last {rest} are"),
                }
            ),
        }
    )];
    said.extend(renewals.iter().map(|stamp| {
        format!(
            "{} renewed the time-stamp on {}, so that it outlives the certificates of the one before.",
            capital(&named(&stamp.authority)),
            packet.time_in_words(stamp.at)
        )
    }));
    let what = match renewals {
        [] => "this time-stamp",
        _ => "these time-stamps",
    };
    let advice = "Bookguard’s program checks it, given the roots of the authorities that you trust: --timestamp-roots FILE.";
    said.push(match is_checked() {
        None => format!(
            "Anybody can make a time-stamp under any name. Who made {what} was not checked here. {advice}"
        ),
        Some(true) => format!(
            "Whoever made this document has checked that an authority whom they trust made {what}. Whether one that you trust made it was \
             not checked here. {advice}"
        ),
        Some(false) => format!(
            "Whoever made this document could not confirm {what}: no authority whom they trust vouches for it. One that \
             you trust may still have made it: that was not checked here. {advice}"
        ),
    });
    said
}

fn witnesses(count: usize, size: Option<u64>) -> String {
    let size = size.map_or_else(String::new, |size| format!(" ({})", entries(size)));
    match count {
        0 => format!(
            "No witness has cosigned the state of the ledger{size} that proves these entries. Nobody but the service says here that it \
             shows everybody the same ledger."
        ),
        1 => format!(
            "A witness states that it has seen the ledger only grow, up to the state{size} that proves these entries:"
        ),
        count => format!(
            "{count} witnesses state that they have seen the ledger only grow, up to the state{size} that proves these entries:"
        ),
    }
}

fn listed(cosigned: &[CosignatureClaim], packet: &Packet) -> Vec<String> {
    let line = |one: &CosignatureClaim| {
        let CosignatureClaim {
            witness,
            key_id,
            at,
        } = one;
        format!("{witness}, key {key_id}, on {}", packet.time_in_words(*at))
    };
    let mut lines: Vec<String> = cosigned.iter().take(LISTED).map(line).collect();
    if cosigned.len() > LISTED {
        lines.push(format!(
            "and {} more, which the packet names",
            cosigned.len() - LISTED
        ));
    }
    lines
}

/// Such as `all 3 entries of this packet`.
fn covered_entries(covered: usize, all: usize) -> String {
    match (covered, all) {
        (1, 1) => "the one entry of this packet".to_owned(),
        (2, 2) => "both entries of this packet".to_owned(),
        (covered, all) if covered == all => format!("all {all} entries of this packet"),
        (1, all) => format!("the first of the {all} entries of this packet"),
        (covered, all) => format!("the first {covered} of the {all} entries of this packet"),
    }
}

fn named(authority: &str) -> String {
    match authority {
        "" => "an authority without a name".to_owned(),
        name => format!("the authority {}", quoted(name)),
    }
}

#[cfg(test)]
mod tests;
