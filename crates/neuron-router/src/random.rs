//! A generator of pseudo-random numbers that calls on several threads can share.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A generator of pseudo-random numbers. The algorithm is splitmix64.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// Creates a generator. Without a seed, the numbers are different in every process.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        // Every `RandomState` has different keys.
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Self(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        // `Relaxed` suffices, because each call only needs a number of its own.
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number less than `bound`. Returns 0 if `bound` is 0.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns `true` with this probability.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn chance(&self, probability: f64) -> bool {
        // 53 bits are the precision of `f64`.
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers() {
        let draw = |seed| {
            let random = Random::new(Some(seed));
            (0..8).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(Random::new(None).below(0), 0);
    }

    #[test]
    fn chance_follows_its_probability() {
        let random = Random::new(Some(1));
        let hits = |probability| (0..10_000).filter(|_| random.chance(probability)).count();
        assert_eq!((hits(0.0), hits(1.0)), (0, 10_000));
        assert!((2_300..2_700).contains(&hits(0.25)));
    }
}
