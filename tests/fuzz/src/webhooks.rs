//! What receivers of webhooks read, and what our courier reads of their answers.

use bookguard_core::webhook::{
    Secret, StandardHeaders, retry_after_ms, sign_body, sign_standard, verify, verify_standard,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOW: i64 = 1_614_265_330;

/// Three headers, each a line, then the body. A signature that verifies is the one that the secret makes.
pub fn signatures(bytes: &[u8]) {
    let mut parts = bytes.splitn(4, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (signature, id, timestamp, body) = (next(), next(), next(), next());
    let secret = Secret::new(SECRET);
    let right = sign_body(&secret, body);
    assert!(verify(&secret, &right, body).is_ok());
    if verify(&secret, signature, body).is_ok() {
        assert!(signature.eq_ignore_ascii_case(right.as_bytes()));
    }
    let Some([signature, id, timestamp]) =
        crate::text(signature).and_then(|s| Some([s, crate::text(id)?, crate::text(timestamp)?]))
    else {
        return;
    };
    let headers = StandardHeaders {
        id,
        timestamp,
        signature,
    };
    if verify_standard(&secret, headers, body, NOW, None).is_ok() {
        let made = sign_standard(&secret, id, timestamp.parse().unwrap(), body).unwrap();
        assert!(signature.split(' ').any(|one| one == made));
    }
    // The secret is foreign too, where a receiver is configured.
    let _ = verify_standard(&Secret::new(id), headers, body, NOW, None);
    // A wait never exceeds its maximum, whatever the clock.
    for now in [NOW * 1000, i64::MIN, i64::MAX] {
        let most = retry_after_ms("99999999999999999999999", now).unwrap();
        assert!(retry_after_ms(signature, now).is_none_or(|wait| wait <= most));
    }
}
