//! Bare cryptography: the cost of this machine's hashes and signatures, and the hashing that a check of a ledger must do.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use bookguard_core::ledger::event::salts;
use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::Fallible;
use crate::rows;

/// How long each is measured.
const TIME: Duration = Duration::from_millis(200);

/// Returns how often `work` runs in a second.
fn per_second<T>(mut work: impl FnMut() -> T) -> f64 {
    let began = Instant::now();
    let mut times = 0_u64;
    while began.elapsed() < TIME {
        for _ in 0..100 {
            black_box(work());
        }
        times += 100;
    }
    times as f64 / began.elapsed().as_secs_f64()
}

/// Returns SHA-256 hashes of 64 bytes per second.
pub fn sha256() -> f64 {
    let bytes = [7_u8; 64];
    per_second(|| Sha256::digest(black_box(bytes)))
}

/// Returns HMAC-SHA256 codes of 350 bytes, the size of a webhook's body, per second.
pub fn hmac_sha256() -> f64 {
    let (key, body) = ([7_u8; 32], [9_u8; 350]);
    per_second(|| hmac(black_box(&key), black_box(&body)))
}

/// Returns Ed25519 signatures of 100 bytes, the size of a checkpoint, per second.
pub fn ed25519() -> f64 {
    let key = SigningKey::from_bytes(&[7; 32]);
    let text = [9_u8; 100];
    per_second(|| key.sign(black_box(&text)))
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The messages that must be hashed to check one entry.
struct Entry {
    leaf: Vec<u8>,
    /// The salt and the `[name, value]` of every field.
    fields: Vec<([u8; 32], Vec<u8>)>,
    salt: [u8; 32],
    /// Bytes as long as the canonical body that the leaf commits to.
    body: Vec<u8>,
}

/// Only the hashing that a check of a database's entries must do.
pub struct LedgerHashing(Vec<Entry>);

impl LedgerHashing {
    /// Reads the messages of every entry.
    pub fn of(db: &Path) -> Fallible<Self> {
        let connection = rows::open(db)?;
        let mut select = connection.prepare("SELECT leaf, facts, seed FROM entry ORDER BY idx")?;
        type Stored = (Vec<u8>, String, [u8; 32]);
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Stored> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        };
        let mut entries = Vec::new();
        for row in select.query_map([], read)? {
            let (leaf, facts, seed) = row?;
            let members: Map<String, Value> = serde_json::from_str(&facts)?;
            let pair = |(name, value)| serde_json::json!([name, value]).to_string().into_bytes();
            let texts = members.iter().map(pair);
            let mut salts = salts(&seed);
            let fields = texts.map(|text| (salts(), text)).collect();
            let digests: usize = members.keys().map(|name| name.len() + 49).sum();
            entries.push(Entry {
                leaf: [&[0], leaf.as_slice()].concat(),
                fields,
                salt: salts(),
                body: vec![b'x'; digests + 62],
            });
        }
        Ok(Self(entries))
    }

    /// Hashes leaf, one node, every field and the body; returns entries per second on one core.
    pub fn per_second(&self) -> f64 {
        let node = [1_u8; 65];
        let began = Instant::now();
        let mut checked = 0;
        while began.elapsed() < 2 * TIME {
            for entry in &self.0 {
                black_box(Sha256::digest(black_box(&entry.leaf)));
                black_box(Sha256::digest(black_box(node)));
                for (salt, text) in &entry.fields {
                    black_box(hmac(salt, text));
                }
                black_box(hmac(&entry.salt, &entry.body));
            }
            checked += self.0.len();
        }
        checked as f64 / began.elapsed().as_secs_f64()
    }
}
