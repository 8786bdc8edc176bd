//! The source of randomness: one generator per thread, in user space, seeded by the system.
//!
//! A booking takes some 130 random bytes, in pieces; a system call for each piece would cost more than using it.

use std::cell::RefCell;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Bytes drawn from one seed before the generator is reseeded.
const RESEED_BYTES: usize = 1 << 24;

struct SeededRng {
    rng: ChaCha12Rng,
    drawn: usize,
}

impl SeededRng {
    fn seeded() -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .expect("without the system's random source no key, id or salt is safe to make");
        Self {
            rng: ChaCha12Rng::from_seed(seed),
            drawn: 0,
        }
    }
}

thread_local! {
    static DICE: RefCell<SeededRng> = RefCell::new(SeededRng::seeded());
}

/// Fills `out` with random bytes fit for keys.
pub fn fill(out: &mut [u8]) {
    DICE.with_borrow_mut(|dice| {
        dice.drawn += out.len();
        if dice.drawn > RESEED_BYTES {
            *dice = SeededRng::seeded();
        }
        dice.rng.fill_bytes(out);
    });
}

/// `N` random bytes fit for keys.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// A random number.
pub fn number() -> u64 {
    u64::from_le_bytes(bytes())
}
