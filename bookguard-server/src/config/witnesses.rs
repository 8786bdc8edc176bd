//! The witnesses of the log: reads the trust policy that names them.

use std::fs::File;
use std::io::{Read as _, read_to_string};
use std::path::Path;
use std::sync::Arc;

use bookguard_core::features::cosignatures::places;
use bookguard_core::ledger::trust::{MAX_POLICY_BYTES, TrustPolicy};
use bookguard_core::limits::WITNESSES;

use super::base_url;

/// Reads a trust policy and checks that its witnesses can be asked.
///
/// # Errors
/// One sentence that names the setting, the file, and what is wrong.
pub(super) fn read(file: &Path) -> Result<Arc<TrustPolicy>, String> {
    let fail = |why: &str| format!("witnesses is {}, {why}", file.display());
    // One byte more, so that the policy itself is found to be too long.
    let most = MAX_POLICY_BYTES as u64 + 1;
    let text = File::open(file).and_then(|it| read_to_string(it.take(most)));
    let text = text.map_err(|e| fail(&format!("which cannot be read: {e}")))?;
    let policy = TrustPolicy::parse(&text)
        .map_err(|e| fail(&format!("which is not a trust policy: {e}")))?;
    let count = policy.witnesses().len();
    if count > WITNESSES {
        return Err(fail(&format!(
            "which names {count} witnesses; it may name at most {WITNESSES}"
        )));
    }
    let places = places(&policy);
    if places.is_empty() {
        return Err(fail(
            "which names no witness with an address; write a line such as: witness one KEY https://witness.example.com",
        ));
    }
    for place in &places {
        base_url("witnesses", "https://witness.example.com", &place.url)?;
    }
    Ok(Arc::new(policy))
}
