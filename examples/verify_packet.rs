//! Verifies an evidence packet offline, and prints the result. The exit code is 0 for a genuine packet, 1 for another, and 2 if a file
//! cannot be read.
//!
//! `cargo run -p bookguard-examples --example verify_packet packet.json ledger.vkey`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bookguard_core::evidence::{self, Report};

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let judged = match files.as_slice() {
        [packet, key] => judge(packet, key),
        _ => Err("usage: verify_packet PACKET KEY".to_owned()),
    };
    match judged {
        Ok(report) => {
            // Every check in a line, then the verdict.
            println!("{report}");
            ExitCode::from(u8::from(!report.verified()))
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Verifies a packet. Do not take the key from the packet: fetch it once from the service (`/v1/ledger/key`) and keep it.
fn judge(packet: &Path, key: &Path) -> Result<Report, String> {
    let unreadable =
        |file: &Path, why: std::io::Error| format!("{} cannot be read: {why}", file.display());
    let bytes = std::fs::read(packet).map_err(|why| unreadable(packet, why))?;
    let key = std::fs::read_to_string(key).map_err(|why| unreadable(key, why))?;
    Ok(evidence::verify(&bytes, key.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is printed for one of the packets that every verifier is tried with.
    fn told(packet: &str) -> Result<String, String> {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/packets");
        let report = judge(&vectors.join(packet), &vectors.join("ledger.vkey"));
        report.map(|report| report.to_string())
    }

    #[test]
    fn each_check_has_a_line_and_the_verdict_is_the_last() {
        let genuine = told("good/created.json").unwrap();
        let (checks, verdict) = genuine.rsplit_once('\n').unwrap();
        assert_eq!(
            verdict,
            "VERIFIED: the evidence of booking bkg_019ba87505bb7a0a8a0a0a0a0a0a0a0a is genuine."
        );
        assert!(
            checks.lines().all(|line| line.starts_with("ok      ")),
            "{checks}"
        );
        let forged = told("index.json").unwrap();
        assert_eq!(
            forged.lines().collect::<Vec<_>>(),
            [
                "FAILED  form         The document does not say that it is an evidence packet.",
                "NOT VERIFIED: 1 of 1 checks failed. Do not rely on this packet.",
            ]
        );
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let refused = told("good/none.json").unwrap_err();
        assert!(refused.contains("none.json cannot be read: "), "{refused}");
    }
}
