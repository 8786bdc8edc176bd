//! Parsers of foreign bytes, under libFuzzer: one program, whose target the variable `TARGET` names.
//!
//! Each target says what must hold for bytes that are accepted; that nothing panics, overflows, or takes more time or
//! memory than `tests/fuzz/run` allows holds for all bytes.

#![no_main]

mod bodies;
mod headers;
mod kept;
mod ledger;
mod messages;
mod packets;
mod policies;
mod requests;
mod settings;
mod stamps;
mod webhooks;
mod words;

/// What the files below take of poem is the crate `http`, which it passes on.
extern crate self as poem;
pub(crate) use ::http;

/// What they take of rmcp.
extern crate self as rmcp;
#[allow(dead_code)]
pub(crate) mod model {
    #[derive(Debug)]
    pub struct ErrorCode(pub i32);

    impl ErrorCode {
        pub const INVALID_REQUEST: Self = Self(-32600);
        pub const INVALID_PARAMS: Self = Self(-32602);
        pub const PARSE_ERROR: Self = Self(-32700);
    }
}

/// Files of the server that parse on their own, of which the targets use a part: building its frameworks with coverage takes long.
#[path = "../../../bookguard-server/src"]
#[allow(dead_code, unreachable_pub)]
mod server {
    pub mod media;
    pub mod negotiation;
    pub mod proxies;
}
use server::media;
#[path = "../../../bookguard-server/src/courier"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod courier {
    pub mod address;
    pub mod proxy;
}
#[path = "../../../bookguard-server/src/incoming"]
#[allow(dead_code, unreachable_pub)]
mod incoming {
    pub mod values;
    pub(crate) use values::{check_query_bytes, idempotency_key, query};
}
#[path = "../../../bookguard-server/src/traces"]
#[allow(dead_code, unreachable_pub)]
mod traces {
    pub mod parent;
}
#[path = "../../../bookguard-server/src/config"]
#[allow(dead_code, unreachable_pub)]
mod config {
    pub mod authority;
    pub mod bytes;
    pub mod settings;

    pub fn parse(text: &str) -> Result<settings::Settings, String> {
        let mut faults = settings::Faults::default();
        let read = settings::Settings::parse(text, "", &mut faults);
        faults.none().map(|()| read.unwrap_or_default())
    }
}
#[path = "../../../bookguard-server/src/mcp"]
#[allow(dead_code, unreachable_pub)]
mod mcp {
    pub mod arguments;
    pub mod message;

    use bookguard_core::error::Error;
    use bookguard_core::operation::{Request, Route};

    /// A request's id, its text and its tool's arguments; `None` for a notification. Or the text of a fault.
    pub fn read(body: &[u8]) -> Result<Option<[String; 3]>, String> {
        match message::read(body) {
            Ok(message::Message::Request(ask)) => Ok(Some([ask.id, ask.text, ask.arguments])),
            Ok(message::Message::Notification(_)) => Ok(None),
            Err(fault) => Err(fault.to_json()),
        }
    }

    pub fn input(route: &Route, arguments: &str) -> Result<Request, Error> {
        arguments::read(route, route.body.declaration().is_some(), arguments)
    }
}

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

/// `tests/fuzz/run` reads the names from these lines.
const TARGETS: &[(&str, Target)] = &[
    ("accepts", headers::accepts),
    ("addresses", headers::addresses),
    ("bodies", bodies::read),
    ("cosignatures", ledger::cosignatures),
    ("erasures", kept::erasures),
    ("files", words::files),
    ("forwarded", headers::forwarded),
    ("guards", kept::guards),
    ("json", ledger::json),
    ("keys", headers::keys),
    ("leaves", ledger::leaves),
    ("messages", messages::read),
    ("notes", ledger::notes),
    ("packets", packets::verify),
    ("policies", policies::evaluate),
    ("proofs", ledger::proofs),
    ("requests", requests::prepare),
    ("settings", settings::read),
    ("signatures", webhooks::signatures),
    ("stamps", stamps::verify),
    ("tags", headers::tags),
    ("tiles", ledger::tiles),
    ("trust", ledger::trust),
    ("witness", ledger::witness),
    ("words", words::parse),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let asked = std::env::var("TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == asked);
    found
        .unwrap_or_else(|| panic!("TARGET={asked} is not a target"))
        .1
});

fuzz_target!(|bytes: &[u8]| (*TARGET)(bytes));

/// The bytes as text, for parsers that are only given text.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
