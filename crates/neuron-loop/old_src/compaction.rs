//! Compaction by the context strategy: when it is due, and what may come of it.

use neuron_types::{
    ContextError, ContextStrategy, DurableContext, DurableError, HookEvent, LoopError, Message,
    OperationKind, Outcome, Provider, ProviderError, Role, TokenUsage, ToolContext, transcript,
};
use serde::{Deserialize, Serialize};

use crate::AgentLoop;
use crate::cancel::or_cancelled;
use crate::engine::Step;

/// The size of the conversation, with all that is sent beside it, at some point.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct KnownSize {
    tokens: usize,
    /// How many messages there were.
    messages: usize,
}

impl KnownSize {
    pub(crate) fn tokens(self) -> usize {
        self.tokens
    }

    pub(crate) fn messages(self) -> usize {
        self.messages
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Notes what the provider says about the size of the conversation, the answer included.
    pub(crate) fn note_size(&mut self, usage: &TokenUsage) {
        // A provider that reports no usage leaves it to the estimates.
        if usage.input_tokens > 0 {
            let (tokens, messages) = (size_after(usage), self.request.messages.len());
            self.size = Some(KnownSize { tokens, messages });
            // What a strategy counts that counts something else, no provider reports.
            if self.context.counts_tokens() {
                self.context_budget.note_size(tokens);
            }
        }
    }

    /// What the next call of the model sends: what the provider reported last, with an estimate of
    /// what came after; an estimate of all at first, and for strategies that count something else.
    pub(crate) fn current_tokens(&self) -> usize {
        let size = self.size.filter(|_| self.context.counts_tokens());
        let known = size.and_then(|size| {
            let later = self.request.messages.get(size.messages..)?;
            let estimate = if later.is_empty() { 0 } else { self.context.token_estimate(later) };
            Some(size.tokens.saturating_add(estimate))
        });
        known.unwrap_or_else(|| self.context.estimate_request(self.request.view()))
    }

    /// Brings what is sent beside the conversation up to date. What the provider reported of the size
    /// was with what was sent before.
    pub(crate) fn refresh_request(&mut self) {
        let tools_changed = std::mem::take(&mut self.tools_changed);
        let settings_changed = std::mem::take(&mut self.settings_changed);
        if !tools_changed && !settings_changed {
            return;
        }
        let old_estimate = self.size.map(|_| self.context.estimate_request(self.request.view()));
        if tools_changed {
            self.request.tools = self.tools.definitions();
            let output = self.run.output.as_ref().and_then(|output| output.tool.clone());
            self.request.tools.extend(output);
        }
        if settings_changed {
            let system = Some(self.config.system_prompt.clone());
            self.request.system = system.filter(|prompt| !prompt.is_empty());
            self.config.request.clone().swap_with(&mut self.request);
        }
        if let (Some(size), Some(old_estimate)) = (&mut self.size, old_estimate) {
            let new_estimate = self.context.estimate_request(self.request.view());
            size.tokens = size.tokens.saturating_add(new_estimate).saturating_sub(old_estimate);
            if new_estimate != old_estimate {
                self.context_budget.put_off_no_more();
            }
        }
        // It was with what is sent now.
        if let Some(size) = self.run.size_before.take() {
            self.size = Some(size);
        }
    }

    /// Compacts the history if the strategy wants that, and reports whether it became shorter.
    pub(crate) async fn compact_if_needed(
        &mut self,
        ctx: &ToolContext,
    ) -> Result<Option<Step>, LoopError> {
        // They are part of what is estimated.
        self.refresh_request();
        let old_tokens = self.current_tokens();
        if self.context_budget.puts_off(old_tokens)
            || !self.context.should_compact_request(self.request.view(), old_tokens)
        {
            return Ok(None);
        }
        let (messages, new_tokens) = self.compact(ctx, old_tokens, old_tokens).await?;
        let Some(messages) = messages else {
            self.context_budget.unchanged(old_tokens);
            return Ok(None);
        };
        self.adopt(messages, old_tokens, new_tokens).await.map(Some)
    }

    /// Compacts although the strategy may not think that it is time: the provider says that the
    /// conversation is too long, so that it is larger than the strategy takes it to be. The strategy is
    /// told a size at which it would compact by itself, if there is one.
    pub(crate) async fn compact_now(
        &mut self,
        ctx: &ToolContext,
    ) -> Result<Option<Step>, LoopError> {
        self.refresh_request();
        let old_tokens = self.current_tokens();
        let mut told_tokens = old_tokens.max(1);
        while !self.context.should_compact_request(self.request.view(), told_tokens) {
            let Some(double) = told_tokens.checked_mul(2) else {
                told_tokens = old_tokens;
                break;
            };
            told_tokens = double;
        }
        let (messages, new_tokens) = self.compact(ctx, old_tokens, told_tokens).await?;
        match messages {
            Some(messages) => self.adopt(messages, old_tokens, new_tokens).await.map(Some),
            None => Ok(None),
        }
    }

    /// Goes on with the compacted history.
    async fn adopt(
        &mut self,
        messages: Vec<Message>,
        old_tokens: usize,
        new_tokens: usize,
    ) -> Result<Step, LoopError> {
        self.size = Some(KnownSize { tokens: new_tokens, messages: messages.len() });
        self.passed_messages = self.passed_of(&messages);
        self.request.messages = messages;
        match self.context.should_compact_request(self.request.view(), new_tokens) {
            true => self.context_budget.not_reached(new_tokens),
            false => self.context_budget.reached(),
        }
        self.hooks().ask(HookEvent::ContextCompaction { old_tokens, new_tokens }).await?;
        Ok(Step::Compacted { old_tokens, new_tokens })
    }

    /// How many messages of the compacted history come of such as the hooks let pass: all but the new
    /// ones, if those are as they were. Else none counts as passed.
    fn passed_of(&self, messages: &[Message]) -> usize {
        messages.strip_suffix(self.new_messages()).map_or(0, <[_]>::len)
    }

    /// Lets the strategy work on a copy, so that an error or a dropped run leaves the history as it
    /// was. Returns its history, if that is progress, and the new size. `told_tokens` is what the
    /// strategy is told of the size.
    async fn compact(
        &mut self,
        ctx: &ToolContext,
        old_tokens: usize,
        told_tokens: usize,
    ) -> Result<(Option<Vec<Message>>, usize), LoopError> {
        let mut scopes = self.hooks().open(OperationKind::Compaction { old_tokens });
        let work = async {
            self.context.compact_request(self.request.view(), told_tokens).await.map_err(failure)
        };
        let compacted = scopes.run(or_cancelled(ctx, work)).await;
        let usage = match &compacted {
            Ok((_, usage)) => Some(usage),
            Err(LoopError::Context(error)) => error.usage(),
            Err(_) => None,
        };
        if let Some(usage) = usage.cloned() {
            self.add_usage(&usage);
            if let Some(budget) = &self.run.budget {
                budget.charge(&usage);
            }
        }
        let compacted =
            compacted.and_then(|(messages, _)| Ok(checked(self.reminders.newest_only(messages))?));
        let messages = match compacted {
            Ok(messages) => messages,
            Err(error) => {
                scopes.end(Outcome::Error(&error));
                return Err(error);
            }
        };
        let old_estimate = match self.context.counts_tokens() {
            true => self.context.estimate_request(self.request.view()),
            false => old_tokens,
        };
        let old_messages = std::mem::replace(&mut self.request.messages, messages);
        let new_estimate = self.context.estimate_request(self.request.view());
        let messages = std::mem::replace(&mut self.request.messages, old_messages);
        let new_tokens = in_proportion(old_tokens, new_estimate, old_estimate);
        scopes.end(Outcome::Compacted { new_tokens });
        // An estimate may be coarse: fewer messages with the same estimate are progress.
        let is_shorter = messages.len() < self.request.messages.len();
        let progress = new_estimate < old_estimate || (new_estimate == old_estimate && is_shorter);
        Ok((progress.then_some(messages), new_tokens))
    }
}

/// The size of a conversation after a call of the model, as the provider reported it. Where the call
/// took several passes, the totals count the conversation several times.
fn size_after(usage: &TokenUsage) -> usize {
    match usage.iterations.as_ref().and_then(|passes| passes.last()) {
        // What the provider summarised counts no more.
        Some(pass) if pass.kind == "compaction" => pass.output_tokens,
        Some(pass) => pass.input_tokens.saturating_add(pass.output_tokens),
        None => usage.total_tokens(),
    }
}

/// What `tokens` become when their estimate goes from `old` to `new`.
fn in_proportion(tokens: usize, new: usize, old: usize) -> usize {
    match old {
        0 => new,
        old => (tokens as f64 * (new as f64 / old as f64)).round() as usize,
    }
}

/// A failure of the durable engine is that, also when it met the strategy's call of a model.
fn failure(error: ContextError) -> LoopError {
    match error {
        ContextError::Provider(ProviderError::Other(error)) => {
            match error.downcast::<DurableError>() {
                Ok(error) => LoopError::Durable(*error),
                Err(error) => ContextError::Provider(ProviderError::Other(error)).into(),
            }
        }
        error => error.into(),
    }
}

/// Makes sure that a strategy's history can be sent.
fn checked(mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
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

    #[test]
    fn a_size_changes_in_proportion_to_its_estimate() {
        assert_eq!(in_proportion(1_000, 50, 100), 500);
        assert_eq!(in_proportion(1_000, 0, 100), 0);
        assert_eq!(in_proportion(1_000, 7, 0), 7);
    }
}
