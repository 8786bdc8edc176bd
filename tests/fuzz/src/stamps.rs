//! What time-stamp authorities answer.

use std::sync::LazyLock;

use bookguard_time::{Claim, Roots, read};

/// A genuine answer, and the root of whoever gave it.
const GENUINE: &[u8] = include_bytes!("../../vectors/packets/timestamp.tsr");
static ROOTS: LazyLock<Roots> = LazyLock::new(|| {
    Roots::from_pem(include_bytes!("../../vectors/packets/timestamp-roots.pem")).unwrap()
});
static CLAIM: LazyLock<Claim> = LazyLock::new(|| read(GENUINE).unwrap());

/// Under that root, nothing but the genuine answer's digest and time verifies. What is not signed may differ.
pub fn verify(bytes: &[u8]) {
    // The roots are a file from outside, too.
    let _ = Roots::from_pem(bytes);
    let Ok(claim) = read(bytes) else { return };
    let found = bookguard_time::verify(bytes, &claim.imprint, &ROOTS, CLAIM.time);
    if let Ok(stamp) = found {
        assert_eq!((claim.imprint, stamp.time), (CLAIM.imprint, CLAIM.time));
    }
}
