//! The ledger: the byte formats of a log of booking facts, and their verification.
//!
//! Everything here is a pure function of its arguments. Callers store tiles, hold the key file, tell the time and make
//! salts, and pass the bytes in. The formats are public standards, so that evidence outlives this program:
//!
//! | module | format |
//! |---|---|
//! | [`hash`] | RFC 6962 §2.1 hashes |
//! | [`tree`] | the growing tree, kept as its right edge |
//! | [`tile`] | C2SP tlog-tiles: tile paths, tiles, entry bundles |
//! | [`walk`] | a verified pass over all entries of a log |
//! | [`proof`] | RFC 6962 §2.1.1–2.1.2 inclusion and consistency |
//! | [`note`] | C2SP signed-note with Ed25519 |
//! | [`checkpoint`] | C2SP tlog-checkpoint |
//! | [`cosignature`] | C2SP tlog-cosignature with Ed25519 |
//! | [`witness`] | C2SP tlog-witness: what a witness is asked and answers |
//! | [`trust`] | C2SP tlog-policy: whose checkpoints somebody trusts |
//! | [`tlog_proof`] | C2SP tlog-proof |
//! | [`leaf`] | `bookguard.leaf/1`, the bytes of one entry |
//! | [`event`] | `bookguard.event/1`, the committed and disclosable facts behind a leaf |
//! | [`map`] | `bookguard.map/1`, the log-backed map: the length and head of every stream |
//! | [`jcs`] | RFC 8785 canonical JSON and a strict JSON reader |
//!
//! A checkpoint is the signed head of a log; [`walk`] shows how a log is read up to it.
//!
//! ```
//! use bookguard_core::ledger::{Checkpoint, VerifierKey};
//!
//! let key: VerifierKey =
//!     "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx".parse()?;
//! let note = "example.com/log/testdata\n15\nrKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs=\n\n\
//!     — example.com/log/testdata M9e0luh4jTG+UMBqOUo9/q+yAEvx1ilBEniMvjf1zfcBOhg+CKubMt53MvIt/uEWP6zdkdIQzd/fmwlM/dlPWF74ewI=\n";
//! assert_eq!(Checkpoint::open(note, &key)?.size, 15);
//! assert!(Checkpoint::open(&note.replace("15", "16"), &key).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariant: a parser accepts exactly the bytes its printer writes. A second accepted spelling could be shown to two
//! people as two different things. An error's text says the cause too, so no error has a `source` that would repeat it.

pub mod checkpoint;
pub mod cosignature;
pub mod event;
pub mod hash;
pub mod jcs;
pub mod leaf;
pub mod map;
pub mod note;
#[cfg(feature = "openapi")]
mod openapi;
pub mod proof;
#[cfg(feature = "internals")]
pub mod rollback;
pub mod tile;
pub mod tlog_proof;
pub mod tree;
pub mod trust;
pub mod walk;
pub mod witness;

pub use checkpoint::Checkpoint;
#[doc(hidden)]
pub use event::Sealed;
pub use event::{Disclosure, EventBody, LeafKind, verify_disclosure};
pub use hash::{Hash, leaf_hash, node_hash};
pub use leaf::Leaf;
pub use note::{Signer, VerifierKey};
pub use tile::{Tile, TilePath};
pub use tlog_proof::TlogProof;
pub use tree::{Frontier, Tree};
