//! The search for loops at the end of a run.

use super::step::{Step, Steps};

/// Maximum number of different responses that the model repeats in turn.
const MAX_PERIOD: usize = 3;

/// The kind of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The same calls with the same results.
    SameResults,
    /// The same calls with any results.
    AnyResults,
    /// Calls of the same tools with any arguments and the same results.
    NoProgress,
}

/// A loop at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pattern: Pattern,
    /// Number of responses in the sequence that is repeated.
    pub(super) period: usize,
    /// Number of times that the sequence was made.
    pub(super) count: usize,
    /// Set if the last response ends the sequence. Otherwise the sequence has begun again.
    pub(super) is_complete: bool,
}

/// Finds the sequence of responses that was made most often at the end of the run. Returns `None` if nothing is
/// repeated. `is_same` compares two responses by the rules of the pattern.
pub(super) fn repetition<'a>(
    steps: &mut Steps<'a>,
    pattern: Pattern,
    is_same: impl Fn(&Step<'a>, &Step<'a>) -> bool,
) -> Option<Found> {
    let periods = match pattern {
        Pattern::SameResults | Pattern::AnyResults => 1..=MAX_PERIOD,
        // Different arguments are no sequence.
        Pattern::NoProgress => 1..=1,
    };
    let mut longest: Option<Found> = None;
    for period in periods {
        let found = found(pattern, period, steps.repeated(period, &is_same));
        // Of equal counts, the shortest sequence is the clearest.
        if longest.is_none_or(|longest| found.count > longest.count) {
            longest = Some(found);
        }
    }
    longest.filter(|found| found.count > 1)
}

/// Creates a loop from the number of responses that equal the response `period` before them.
fn found(pattern: Pattern, period: usize, repeated: usize) -> Found {
    let times = repeated.checked_div(period).unwrap_or_default();
    let is_complete = repeated.checked_rem(period) == Some(0);
    Found { pattern, period, count: times.saturating_add(1), is_complete }
}
