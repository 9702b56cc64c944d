//! A small random number generator (SplitMix64). A case depends only on its seed.

/// Pseudo-random numbers. The same seed gives the same numbers on every platform.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns `true` with a probability of `chance` percent.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Returns one of the choices at random. The number before each choice is its weight.
    pub(crate) fn weighted<T: Clone>(&mut self, choices: &[(usize, T)]) -> T {
        let mut at = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match at.checked_sub(*weight) {
                None => return choice.clone(),
                Some(rest) => at = rest,
            }
        }
        unreachable!("a number below the sum of the weights is within one of them")
    }

    /// Returns `value`, computed by the closure, with a probability of `chance` percent. Returns `None` otherwise.
    pub(crate) fn maybe<T>(
        &mut self,
        chance: usize,
        value: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.percent(chance).then(|| value(self))
    }
}
