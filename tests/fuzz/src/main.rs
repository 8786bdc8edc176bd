//! Parsers of foreign bytes, under libFuzzer: one program, whose target the variable `TARGET` names.
//!
//! Each target says what must hold for bytes that are accepted; that nothing panics, overflows, or takes more time or
//! memory than `tests/fuzz/run` allows holds for all bytes.

#![no_main]

mod bodies;
mod headers;
mod ledger;
mod packets;
mod policies;
mod stamps;
mod webhooks;
mod words;

/// What the files below take of poem is the crate `http`, which it passes on.
extern crate self as poem;
pub(crate) use ::http;

/// Files of the server that parse on their own, of which the targets use a part: building its frameworks with coverage takes long.
#[path = "../../../bookguard-server/src"]
#[allow(dead_code, unreachable_pub)]
mod server {
    pub mod negotiation;
    pub mod proxies;
}
#[path = "../../../bookguard-server/src/courier"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod courier {
    pub mod address;
}

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

/// `tests/fuzz/run` reads the names from these lines.
const TARGETS: &[(&str, Target)] = &[
    ("accepts", headers::accepts),
    ("addresses", headers::addresses),
    ("bodies", bodies::read),
    ("forwarded", headers::forwarded),
    ("json", ledger::json),
    ("leaves", ledger::leaves),
    ("notes", ledger::notes),
    ("packets", packets::verify),
    ("policies", policies::evaluate),
    ("proofs", ledger::proofs),
    ("signatures", webhooks::signatures),
    ("stamps", stamps::verify),
    ("tiles", ledger::tiles),
    ("trust", ledger::trust),
    ("witness", ledger::witness),
    ("words", words::parse),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let asked = std::env::var("TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == asked);
    found
        .unwrap_or_else(|| panic!("TARGET={asked} is no target"))
        .1
});

fuzz_target!(|bytes: &[u8]| (*TARGET)(bytes));

/// The bytes as text, for parsers that are only given text.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
