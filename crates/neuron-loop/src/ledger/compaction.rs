//! When a compaction is tried again that could not bring the conversation inside the strategy's budget.

use neuron_types::{ContextError, Message, Role, TokenUsage, transcript};
use serde::{Deserialize, Serialize};

use super::Ledger;

/// The size of the conversation, with system prompt and tools, as the provider reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownSize {
    pub(crate) tokens: usize,
    /// Number of messages that were sent.
    pub(crate) messages: usize,
    /// Estimate of system prompt and tools, as they were sent. `None` where it is not known.
    #[serde(default)]
    pub(crate) frame: Option<usize>,
}

impl KnownSize {
    /// The size of these messages with another system prompt and other tools.
    pub(crate) fn with_frame(self, frame: impl Fn() -> usize) -> usize {
        match self.frame {
            Some(sent) => self.tokens.saturating_add(frame()).saturating_sub(sent),
            None => self.tokens,
        }
    }
}

/// Number of times in a row that a compaction may change nothing before it is put off. Each may cost a call of a
/// model.
const MAX_FUTILE_COMPACTIONS: usize = 2;

/// When a compaction could not reach the budget: the conversation grows by one part in so many
/// before the next is tried, so that the history is not rewritten on every turn for nothing.
const GROWTH_BEFORE_RETRY: usize = 8;

/// In how many runs in a row the budget may be missed before the next has to wait as well. Another
/// run has another goal, so what could not go may go now.
const MAX_MISSED_RUNS: usize = 2;

/// The outcome of the compactions so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CompactionBackoff {
    /// Number of times in a row that a compaction changed nothing.
    futile: usize,
    /// Up to this size no compaction is tried, after one could not reach the budget.
    compact_above: Option<usize>,
    /// True if the size that `compact_above` was made from is an estimate, and the provider has not
    /// said since how large the conversation is.
    is_estimate: bool,
    /// In how many runs in a row the budget was missed.
    missed_runs: usize,
    /// True if it was missed in the current run.
    missed: bool,
    /// True if a budget that cannot be reached was reported.
    reported: bool,
}

impl CompactionBackoff {
    pub(crate) fn begin_run(&mut self) {
        self.missed = false;
        if self.missed_runs < MAX_MISSED_RUNS {
            self.compact_above = None;
        }
    }

    /// Returns whether a conversation of this size has to grow before another compaction is tried.
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

    /// Notes the size of the conversation that the provider reports.
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

/// The size at which a compaction is tried again after it could not reach the budget.
fn grown(tokens: usize) -> usize {
    tokens.saturating_add(tokens / GROWTH_BEFORE_RETRY)
}

impl Ledger {
    /// Takes the size of the conversation from the usage of its last answer.
    pub(crate) fn note_size(&mut self, usage: &TokenUsage, frame: Option<usize>) {
        // Without a report from the provider the estimates count.
        if usage.input_tokens > 0 {
            let tokens = size_after(usage);
            self.size = Some(KnownSize { tokens, messages: self.messages.len(), frame });
            // Strategies that count something else than tokens are not corrected by tokens.
            if frame.is_some() {
                self.compaction.note_size(tokens);
            }
        }
    }

    /// Replaces the history by its compacted form.
    pub(crate) fn compacted(&mut self, messages: Vec<Message>, size: KnownSize, is_enough: bool) {
        self.size = Some(size);
        // Messages that are new stay new if the compaction left them as they were.
        self.tally.passed_messages =
            messages.strip_suffix(self.new_messages()).map_or(0, <[Message]>::len);
        self.messages = messages;
        self.rewrites = self.rewrites.saturating_add(1);
        match is_enough {
            true => self.compaction.reached(),
            false => self.compaction.not_reached(size.tokens),
        }
    }

    /// Returns a strategy's history with the newest of equal reminders only, repaired where no provider would accept
    /// it.
    ///
    /// # Errors
    ///
    /// [`ContextError::CompactionFailed`] if nothing is left to answer.
    pub(crate) fn checked(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        let mut messages = self.said.newest_only(messages);
        if let Err(violation) = transcript::validate(&messages) {
            tracing::warn!(%violation, "the context strategy broke the history; it is repaired");
            messages = transcript::repair(messages);
        }
        if messages.iter().all(|message| message.role == Role::System) {
            return Err(ContextError::CompactionFailed(
                "the context strategy left no message; the history is unchanged".into(),
            ));
        }
        Ok(messages)
    }
}

/// The size of a conversation after an answer. Anthropic reports one pass for a compaction and one for the answer: the
/// last pass tells the size.
fn size_after(usage: &TokenUsage) -> usize {
    match usage.iterations.as_ref().and_then(|passes| passes.last()) {
        // The compacted part counts no more.
        Some(pass) if pass.kind == "compaction" => pass.output_tokens,
        Some(pass) => pass.input_tokens.saturating_add(pass.output_tokens),
        None => usage.total_tokens(),
    }
}

#[cfg(test)]
mod tests {
    use neuron_types::UsageIteration;

    use super::*;

    #[test]
    fn the_last_pass_of_a_call_tells_the_size() {
        let pass = |kind: &str, input_tokens, output_tokens| UsageIteration {
            kind: kind.into(),
            input_tokens,
            output_tokens,
            ..Default::default()
        };
        let usage = |iterations| TokenUsage {
            input_tokens: 1_000,
            output_tokens: 10,
            iterations,
            ..Default::default()
        };
        assert_eq!(size_after(&usage(None)), 1_010);
        let compacted = pass("compaction", 900, 30);
        assert_eq!(size_after(&usage(Some(vec![compacted.clone()]))), 30);
        assert_eq!(size_after(&usage(Some(vec![compacted, pass("message", 40, 7)]))), 47);
    }
}
