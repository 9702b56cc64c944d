//! The strategy's budget, where it cannot be reached: how long until a compaction is tried again.

use serde::{Deserialize, Serialize};

/// How often in a row a compaction may change nothing before it is put off: each may cost a call of a
/// model.
const MAX_FUTILE_COMPACTIONS: usize = 2;

/// When a compaction could not reach the budget: the conversation grows by one part in so many
/// before the next is tried, so that the history is not rewritten on every turn for nothing.
const GROWTH_BEFORE_RETRY: usize = 8;

/// In how many runs in a row the budget may be missed before the next has to wait as well. Another
/// run has another goal, so what could not go may go now.
const MAX_MISSED_RUNS: usize = 2;

/// What came of the compactions so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ContextBudget {
    /// How often in a row a compaction changed nothing.
    futile: usize,
    /// After a compaction that could not reach the budget: up to this size none is tried.
    compact_above: Option<usize>,
    /// Whether the size that `compact_above` was made from is an estimate, and the provider has not
    /// said since how large the conversation is.
    is_estimate: bool,
    /// In how many runs in a row the budget was missed.
    missed_runs: usize,
    /// Whether it was missed in the current run.
    missed: bool,
    /// Whether a budget that cannot be reached was reported.
    reported: bool,
}

impl ContextBudget {
    pub(crate) fn begin_run(&mut self) {
        self.missed = false;
        if self.missed_runs < MAX_MISSED_RUNS {
            self.compact_above = None;
        }
    }

    /// Whether a conversation of this size has to grow before another compaction is tried.
    pub(crate) fn puts_off(&self, tokens: usize) -> bool {
        self.compact_above.is_some_and(|above| tokens <= above)
    }

    /// Lets the next compaction be tried at any size.
    pub(crate) fn put_off_no_more(&mut self) {
        self.compact_above = None;
    }

    /// Notes that a compaction changed nothing.
    pub(crate) fn unchanged(&mut self, tokens: usize) {
        self.futile = self.futile.saturating_add(1);
        if self.futile >= MAX_FUTILE_COMPACTIONS {
            self.miss(tokens);
        }
    }

    /// Notes that a compaction made the conversation shorter, but not short enough.
    pub(crate) fn not_reached(&mut self, tokens: usize) {
        self.futile = 0;
        self.is_estimate = true;
        self.miss(tokens);
    }

    pub(crate) fn reached(&mut self) {
        *self = Self { reported: self.reported, ..Self::default() };
    }

    /// Notes what the provider says about the size of the conversation.
    pub(crate) fn note_size(&mut self, tokens: usize) {
        if std::mem::take(&mut self.is_estimate) && self.compact_above.is_some() {
            self.compact_above = Some(grown(tokens));
        }
    }

    fn miss(&mut self, tokens: usize) {
        self.compact_above = Some(grown(tokens));
        if !std::mem::replace(&mut self.missed, true) {
            self.missed_runs = self.missed_runs.saturating_add(1);
        }
        if !std::mem::replace(&mut self.reported, true) {
            tracing::warn!(
                tokens,
                "the context strategy cannot bring the conversation inside its budget; the agent \
                 goes on with it"
            );
        }
    }
}

/// The size up to which no compaction is tried after one that could not reach the budget.
fn grown(tokens: usize) -> usize {
    tokens.saturating_add(tokens / GROWTH_BEFORE_RETRY)
}
