//! A generator of reproducible pseudo-random numbers, and functions for seeds.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A generator of pseudo-random numbers. The algorithm is splitmix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. Generators with the same seed return the same numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of the sequence.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number less than `bound`. Returns 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }
}

/// Returns a number that is different in every call and every process.
#[must_use]
pub fn unique() -> u64 {
    // Every `RandomState` has different keys, and the keys of a process are random.
    RandomState::new().build_hasher().finish()
}

/// Returns the number in an environment variable. Returns `None` if the variable is not set or not a number.
#[must_use]
pub fn from_env(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
