//! Evidence packets.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use bookguard_core::evidence;
use bookguard_core::ledger::jcs;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/packets");

/// The key of the vectors, and the canonical text of each genuine packet.
static GENUINE: LazyLock<(String, HashSet<String>)> = LazyLock::new(|| {
    let key = fs::read_to_string(format!("{VECTORS}/ledger.vkey")).unwrap();
    let files = fs::read_dir(format!("{VECTORS}/good")).unwrap();
    let texts = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    (
        key.trim_end().to_owned(),
        texts.map(|text| canonical(&text)).collect(),
    )
});

fn canonical(packet: &[u8]) -> String {
    jcs::to_canonical(&jcs::parse(std::str::from_utf8(packet).unwrap()).unwrap()).unwrap()
}

/// A packet that verifies means what a genuine one means: nobody but the ledger can make another.
pub fn verify(bytes: &[u8]) {
    let (key, genuine) = &*GENUINE;
    let (report, timeline) = evidence::verify_timeline(bytes, key);
    assert!(!report.to_string().is_empty());
    assert_eq!(report.verified(), timeline.is_some());
    if report.verified() {
        assert!(
            genuine.contains(&canonical(bytes)),
            "a forged packet verifies"
        );
    }
}
