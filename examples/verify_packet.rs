//! Verifies an evidence packet offline, and prints the result.
//!
//! `cargo run -p bookguard-examples --example verify_packet packet.json ledger.vkey`

use std::process::ExitCode;

use bookguard_core::evidence;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut files = std::env::args_os().skip(1);
    let (Some(packet), Some(key)) = (files.next(), files.next()) else {
        return Err("usage: verify_packet PACKET KEY".into());
    };
    let (verified, text) = tell(&std::fs::read(packet)?, &std::fs::read_to_string(key)?);
    print!("{text}");
    Ok(ExitCode::from(u8::from(!verified)))
}

/// Returns whether the packet is genuine, and the report. Do not take the key from the packet: fetch it once from the service
/// (`/v1/ledger/key`) and keep it.
fn tell(packet: &[u8], key: &str) -> (bool, String) {
    let report = evidence::verify(packet, key.trim());
    let mut text = report.to_string();
    if let (true, Some(booking_id)) = (report.verified(), report.booking_id) {
        text.push_str(&format!("The packet of booking {booking_id} is genuine.\n"));
    }
    for check in report.failures() {
        text.push_str(&format!("Do not rely on it: {}\n", check.detail));
    }
    (report.verified(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_packet_is_not_to_be_relied_on() {
        let key = "example.com/log+7db0e2a1+AeTFbmWP1l9FsVkfX2mEl5ZzIkRtZyEMJvpFgvO7JFEN\n";
        let (verified, text) = tell(br#"{"type":"bookguard.evidence/1"}"#, key);
        assert!(!verified && text.contains("Do not rely on it"), "{text}");
    }
}
