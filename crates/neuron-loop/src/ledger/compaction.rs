//! The delay of the next compaction after a compaction that did not bring the conversation within the strategy's
//! budget.

use neuron_types::{ContextError, Message, Role, TokenUsage, transcript};
use serde::{Deserialize, Serialize};

use super::Ledger;

/// The size of the conversation with system prompt and tools, as the provider reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownSize {
    pub(crate) tokens: usize,
    /// Number of messages, from the start, that `tokens` covers.
    pub(crate) messages: usize,
    /// Estimated tokens of the system prompt and the tools in the request whose size the provider reported. `None` if
    /// there is no estimate.
    #[serde(default)]
    pub(crate) frame: Option<usize>,
}

/// Number of consecutive compactions without effect after which the next compaction is delayed. The delay saves model
/// calls that a strategy may make in vain.
const MAX_FUTILE_COMPACTIONS: usize = 2;

/// Divisor of the growth that is required before the next compaction, after a compaction missed the strategy's token
/// budget. With 8, the conversation must first grow by an eighth. Otherwise every turn would rewrite the history in
/// vain.
const GROWTH_BEFORE_RETRY: usize = 8;

/// Number of consecutive runs that may miss the strategy's token budget before the delay also applies to new runs.
/// Until then a new run may compact at once, because its new message may help.
const MAX_MISSED_RUNS: usize = 2;

/// The outcomes of the compactions so far. They decide when the next one is tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CompactionBackoff {
    /// Number of compactions in a row that changed nothing.
    futile: usize,
    /// Size in tokens that the conversation must exceed before the next compaction. Set after a compaction that missed
    /// the strategy's token budget, and otherwise `None`.
    compact_above: Option<usize>,
    /// Set if `compact_above` was computed from an estimate, and the provider has not reported a size since.
    is_estimate: bool,
    /// Number of runs in a row whose compactions did not reach the strategy's token budget.
    missed_runs: usize,
    /// Set if a compaction of the current run did not shorten the history to the strategy's token budget.
    missed: bool,
    /// Set after the warning about an unreachable budget was logged, so that it is logged only once.
    reported: bool,
}

impl CompactionBackoff {
    /// Begins a run, which may compact without a delay. The delay stays if the last [`MAX_MISSED_RUNS`] runs all missed
    /// the strategy's token budget.
    pub(super) fn begin_run(&mut self) {
        // FAULT a run that misses is counted once for all runs: without the line
        //     (context_size::unreachable_budget_is_reported_once_over_many_runs)
        self.missed = false;
        // FAULT a budget that is never reached is tried in each run: `MAX_MISSED_RUNS` -> `usize::MAX`
        //     (context_size::unreachable_budget_is_reported_once_over_many_runs)
        if self.missed_runs < MAX_MISSED_RUNS {
            self.compact_above = None;
        }
    }

    /// Records the conversation's size in tokens that the provider reported. If the delay was computed from an
    /// estimated size, it is computed again from this size.
    fn note_size(&mut self, tokens: usize) {
        if std::mem::take(&mut self.is_estimate) && self.compact_above.is_some() {
            self.compact_above = Some(grown(tokens));
        }
    }

    /// Delays the next compaction after a compaction missed the strategy's token budget. Counts the current run as a
    /// missed run, but only once.
    fn miss(&mut self, tokens: usize) {
        self.compact_above = Some(grown(tokens));
        // FAULT a run misses its budget more than once: `!std::mem::replace(&mut self.missed, true)` ->
        //     `!std::mem::replace(&mut self.missed, false)`
        if !std::mem::replace(&mut self.missed, true) {
            self.missed_runs = self.missed_runs.saturating_add(1);
        }
        if !std::mem::replace(&mut self.reported, true) {
            tracing::warn!(
                tokens,
                "the context strategy cannot bring the conversation within its budget; the run \
                 continues with the longer conversation"
            );
        }
    }
}

/// Returns the size in tokens that the conversation must exceed before the next compaction. `tokens` is its current
/// size.
fn grown(tokens: usize) -> usize {
    tokens.saturating_add(tokens / GROWTH_BEFORE_RETRY)
}

impl Ledger {
    /// Records the size of the conversation from the usage of its last response. `frame` is the estimated size in
    /// tokens of system prompt and tools. Pass `None` if the strategy does not count tokens.
    pub(crate) fn note_size(&mut self, usage: &TokenUsage, frame: Option<usize>) {
        // Some providers report no usage. The estimates are used for them.
        if usage.input_tokens > 0 {
            let tokens = size_after(usage);
            self.size = Some(KnownSize { tokens, messages: self.messages.len(), frame });
            // Without a frame size, the strategy counts something else than tokens, so its sizes cannot be compared
            // with `tokens`.
            if frame.is_some() {
                self.compaction.note_size(tokens);
            }
        }
    }

    /// Returns `true` if a compaction at this size is put off, because earlier ones had little effect and the
    /// conversation has not grown enough since.
    pub(crate) fn puts_off_compaction(&self, tokens: usize) -> bool {
        // FAULT a compaction is tried before the conversation has grown: `<=` -> `<`
        self.compaction.compact_above.is_some_and(|above| tokens <= above)
    }

    /// Forgets earlier compactions, because the system prompt or the tools have changed since.
    pub(crate) fn put_off_no_more(&mut self) {
        self.compaction.compact_above = None;
    }

    /// Records that a compaction at this size did not shorten the history.
    pub(crate) fn not_compacted(&mut self, tokens: usize) {
        // FAULT a compaction without effect is tried for ever: without the line
        self.compaction.futile = self.compaction.futile.saturating_add(1);
        if self.compaction.futile >= MAX_FUTILE_COMPACTIONS {
            self.compaction.miss(tokens);
        }
    }

    /// Records that a model call did not fit into the context window. Returns `false` if the call before did not fit
    /// either, so that no room is made again.
    pub(crate) fn may_make_room(&mut self) -> bool {
        // FAULT room is made for a call again and again: `std::mem::replace(&mut self.tally.run.overflowed, true)` ->
        //     `false`
        !std::mem::replace(&mut self.tally.run.overflowed, true)
    }

    /// Records that a model call did fit into the context window.
    pub(crate) fn note_fit(&mut self) {
        self.tally.run.overflowed = false;
    }

    /// Replaces the history with its compacted form. `is_enough` is `true` if the new history is within the strategy's
    /// budget.
    pub(crate) fn compacted(&mut self, messages: Vec<Message>, size: KnownSize, is_enough: bool) {
        self.size = Some(size);
        // Layers check only new messages. Messages that the compaction kept unchanged are still new.
        // FAULT a compacted message counts as passed: `strip_suffix(self.new_messages()).map_or(0,
        //     <[Message]>::len)` -> `len()`
        self.tally.passed_messages =
            messages.strip_suffix(self.new_messages()).map_or(0, <[Message]>::len);
        self.messages = messages.into();
        if is_enough {
            let reported = self.compaction.reported;
            // FAULT a compaction that reached its budget is put off: `..CompactionBackoff::default()` ->
            //     `..self.compaction.clone()`
            self.compaction = CompactionBackoff { reported, ..CompactionBackoff::default() };
        } else {
            (self.compaction.futile, self.compaction.is_estimate) = (0, true);
            self.compaction.miss(size.tokens);
        }
    }

    /// Returns the history that a strategy created, after corrections. Of several equal reminders only the newest
    /// stays. A history that providers would reject is repaired.
    ///
    /// # Errors
    ///
    /// [`ContextError::CompactionFailed`] if all remaining messages are system messages.
    pub(crate) fn checked(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        // FAULT equal reminders stay in a compacted history: `self.reminders.newest_only(messages)` -> `messages`
        let mut messages = self.reminders.newest_only(messages);
        if let Err(violation) = transcript::validate(&messages) {
            tracing::warn!(%violation, "the context strategy broke the history; it is repaired");
            // FAULT a compaction is not checked: without the line
            messages = transcript::repair(messages);
        }
        // FAULT a compaction may leave nothing to answer: `messages.iter().all(|message| message.role == Role::System)`
        //     -> `false`
        if messages.iter().all(|message| message.role == Role::System) {
            return Err(ContextError::CompactionFailed(
                "the context strategy left no message; the history is unchanged".into(),
            ));
        }
        Ok(messages)
    }
}

/// Returns the size of the conversation in tokens after a response. If Anthropic compacted the conversation, the usage
/// has several entries, and only the last entry tells the size.
fn size_after(usage: &TokenUsage) -> usize {
    match usage.iterations.as_ref().and_then(|passes| passes.last()) {
        // The compacted messages are gone. Only their summary remains.
        Some(pass) if pass.kind == "compaction" => pass.output_tokens,
        Some(pass) => pass.input_tokens.saturating_add(pass.output_tokens),
        None => usage.total_tokens(),
    }
}
