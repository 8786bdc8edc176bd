use std::sync::Arc;

use bookguard_core::evidence::TimestampRoots;

use super::*;
use crate::page::page;

const KEY: &str = include_str!("../../../tests/vectors/packets/ledger.vkey");
const STAMPED: &str = include_str!("../../../tests/vectors/packets/good/timestamped.json");
const COSIGNED: &str = include_str!("../../../tests/vectors/packets/good/cosigned.json");
const ROOTS: &[u8] = include_bytes!("../../../tests/vectors/packets/timestamp-roots.pem");

fn others(packet: &str, roots: Option<&[u8]>) -> Others {
    let maker = Maker {
        roots: roots.map(|pem| Arc::new(TimestampRoots::from_pem(pem).unwrap())),
        ..Maker::default()
    };
    let read = serde_json::from_str(packet).unwrap();
    Others::of(&read, packet, &KEY.trim().parse().unwrap(), &maker)
}

fn has(said: &[String], part: &str) {
    assert!(
        said.iter().any(|one| one.contains(part)),
        "{part}: {said:#?}"
    );
}

#[test]
fn a_packet_without_either_says_so_and_what_follows() {
    let packet = include_str!("../../../tests/vectors/packets/good/created.json");
    let said = others(packet, Some(ROOTS));
    has(&said.stamps, "Not yet time-stamped.");
    assert_eq!(said.stamps.len(), 1);
    assert!(said.witnesses.starts_with("No witness has cosigned"));
    assert!(said.listed.is_empty() && said.unchecked.is_empty() && said.proves.is_empty());
    assert_eq!(said.limits.len(), 2);
}

#[test]
fn a_time_stamp_names_its_authority_and_who_has_checked_it() {
    let said = others(STAMPED, None);
    has(
        &said.stamps,
        " on Monday 1 June 2026, 08:00 New York time (12:00 UTC). So both entries of this packet existed by then.",
    );
    has(&said.stamps, "was not checked here");
    has(&said.proves, "By when both entries of this packet existed");
    has(
        &others(STAMPED, Some(ROOTS)).stamps,
        "has checked that an authority whom they trust made this time-stamp",
    );
    // What nobody whom the maker trusts has made, or what does not even verify, is not confirmed.
    let forged = include_str!("../../../tests/vectors/packets/bad/timestamp-other-signature.json");
    has(&others(forged, Some(ROOTS)).stamps, "cannot be read");
    let elsewhere = include_str!("../../../tests/vectors/packets/bad/timestamp-without-proof.json");
    has(
        &others(elsewhere, Some(ROOTS)).stamps,
        "could not confirm this time-stamp",
    );
}

#[test]
fn witnesses_are_listed_by_name_and_key() {
    let said = others(COSIGNED, None);
    assert!(said.witnesses.starts_with("2 witnesses state"));
    has(&said.listed, "witness.example.com/one, key 5747767c, on ");
    assert!(
        said.unchecked
            .starts_with("Their signatures were not checked here.")
    );
    has(&said.proves, "That the ledger only grew");
}

#[test]
fn all_times_are_local_first() {
    let mapped = include_str!("../../../tests/vectors/packets/good/complete.json");
    let mapped: Packet = serde_json::from_str(mapped).unwrap();
    let times = [
        others(STAMPED, None).stamps,
        others(COSIGNED, None).listed,
        mapped.proves(),
        mapped.does_not_prove(),
    ];
    let mut told = times.concat();
    told.retain(|told| told.contains("UTC"));
    assert!(told.len() > 3, "{told:#?}");
    let is_local = |told: &String| told.contains(" New York time (");
    assert!(told.iter().all(is_local), "{told:#?}");
}

#[test]
fn a_hostile_name_stays_one_line_of_plain_text() {
    let mut packet: Packet = serde_json::from_str(COSIGNED).unwrap();
    let proof = &mut packet.entries[0].proof;
    *proof = proof.replace("witness.example.com/one", "<b>\u{200b}witness\u{200b}</b>");
    let text = serde_json::to_string(&packet).unwrap();
    let page = page(&text, KEY, &Maker::default()).unwrap();
    assert!(page.contains("<li>&lt;b&gt;\u{fffd}witness\u{fffd}&lt;/b&gt;, key 5747767c, on "));
}
