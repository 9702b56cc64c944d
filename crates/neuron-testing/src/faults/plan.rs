//! The faults of one run, chosen from the run's seed.

/// Probability that a model call gets a fault, in percent. Applies to runs with random faults.
const FAULTS_PER_HUNDRED_CALLS: u64 = 35;

/// Maximum number of consecutive model calls that fail. A retry policy with three attempts therefore succeeds.
const MAX_FAULTS_IN_A_ROW: usize = 2;

/// Maximum number of crashes of one run.
const MAX_CRASHES: u64 = 3;

/// A fault that is injected into a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelFault {
    /// The server reports that it is overloaded.
    Overload,
    /// The server reports that the rate limit is reached.
    RateLimit,
    /// The connection breaks before the response.
    Disconnect,
    /// The server does not respond in time.
    Timeout,
    /// The body of the response is not valid.
    MalformedBody,
    /// The stream breaks after this number of events. A call without streaming fails because its connection breaks.
    CutStream(usize),
    /// A pause precedes each event of a stream, or the response of a call without streaming. The call succeeds.
    Slow,
}

/// The crashes and the model faults of one run.
#[derive(Debug)]
pub(super) struct Plan {
    random: Random,
    /// Numbers of the places at which the executions of the run crash, one number for each execution. With the number
    /// 3, an execution crashes at the third place where a crash is possible. After each crash, the next execution
    /// starts.
    crashes: Vec<usize>,
    has_model_faults: bool,
    faults_in_a_row: usize,
}

impl Plan {
    /// Creates a plan without faults.
    pub(super) fn without_faults() -> Self {
        Self { random: Random(0), crashes: Vec::new(), has_model_faults: false, faults_in_a_row: 0 }
    }

    /// Creates the plan for a seed. `boundaries` is the number of places at which a run without faults can crash.
    ///
    /// A seed from 1 to `boundaries` gives a single crash, at the place whose number is the seed. Any other seed gives
    /// random model faults and up to [`MAX_CRASHES`] random crashes.
    pub(super) fn of_seed(seed: u64, boundaries: usize) -> Self {
        if let Ok(boundary) = usize::try_from(seed)
            && (1..=boundaries).contains(&boundary)
        {
            return Self { crashes: vec![boundary], ..Self::without_faults() };
        }
        let mut random = Random(seed);
        let crashes = match boundaries {
            0 => Vec::new(),
            _ => (0..random.below(MAX_CRASHES + 1)).map(|_| 1 + random.index(boundaries)).collect(),
        };
        Self { random, crashes, has_model_faults: true, faults_in_a_row: 0 }
    }

    /// Returns `true` if the run must crash in this execution at this place. `execution` counts from 0. `boundary` is
    /// the number of the place, counted from 1.
    pub(super) fn crashes_at(&self, execution: usize, boundary: usize) -> bool {
        self.crashes.get(execution) == Some(&boundary)
    }

    /// Returns the fault of the next model call. Returns `None` if the call has no fault.
    pub(super) fn next_model_fault(&mut self) -> Option<ModelFault> {
        if !self.has_model_faults
            || self.faults_in_a_row >= MAX_FAULTS_IN_A_ROW
            || self.random.below(100) >= FAULTS_PER_HUNDRED_CALLS
        {
            self.faults_in_a_row = 0;
            return None;
        }
        let fault = match self.random.below(7) {
            0 => ModelFault::Overload,
            1 => ModelFault::RateLimit,
            2 => ModelFault::Disconnect,
            3 => ModelFault::Timeout,
            4 => ModelFault::MalformedBody,
            5 => ModelFault::CutStream(self.random.index(4)),
            _ => ModelFault::Slow,
        };
        self.faults_in_a_row = if fault == ModelFault::Slow { 0 } else { self.faults_in_a_row + 1 };
        Some(fault)
    }
}

/// A pseudo-random sequence of 64-bit numbers, by the algorithm SplitMix64. A seed gives the same numbers on every
/// platform and in every version of the dependencies.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns an index below `limit`, which must not be 0.
    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_those_of_splitmix64() {
        // The first numbers of the reference implementation with the seed 1234567.
        let mut random = Random(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next()).collect();
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn first_seeds_crash_once_at_each_boundary() {
        for seed in 1..=5 {
            let mut plan = Plan::of_seed(seed, 5);
            let crashes: Vec<_> = (1..=9).filter(|at| plan.crashes_at(0, *at)).collect();
            assert_eq!(crashes, [seed as usize]);
            assert!((1..=9).all(|at| !plan.crashes_at(1, at)));
            assert_eq!(plan.next_model_fault(), None);
        }
    }

    #[test]
    fn seeds_repeat_their_faults_and_give_a_model_call_at_most_two_in_a_row() {
        let mut kinds = std::collections::HashSet::new();
        for seed in 100..300 {
            let (mut one, mut other) = (Plan::of_seed(seed, 20), Plan::of_seed(seed, 20));
            assert_eq!(one.crashes, other.crashes);
            assert!(one.crashes.len() <= 3 && one.crashes.iter().all(|at| (1..=20).contains(at)));
            let faults: Vec<_> = (0..100).map(|_| one.next_model_fault()).collect();
            assert_eq!(faults, (0..100).map(|_| other.next_model_fault()).collect::<Vec<_>>());
            let fails =
                |fault: &Option<ModelFault>| !matches!(fault, None | Some(ModelFault::Slow));
            assert!(faults.windows(3).all(|three| !three.iter().all(fails)), "{faults:?}");
            kinds.extend(faults.into_iter().flatten().map(|fault| std::mem::discriminant(&fault)));
        }
        assert_eq!(kinds.len(), 7);
    }

    #[test]
    fn run_without_boundaries_does_not_crash() {
        assert!((1..100).all(|seed| Plan::of_seed(seed, 0).crashes.is_empty()));
    }
}
