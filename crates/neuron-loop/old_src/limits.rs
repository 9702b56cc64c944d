//! The one copy of every rule on limits. A limit of n allows exactly n, and one call more where a run
//! may land softly.

use neuron_types::{LoopError, UsageLimits};

use crate::LoopConfig;
use crate::run_state::RunState;

/// Before a call of the model: one more turn, one more request, and tokens left.
pub(crate) fn before_call(config: &LoopConfig, run: &RunState) -> Result<(), LoopError> {
    if let Some(max) = config.max_turns.filter(|max| run.turns >= *max) {
        return Err(LoopError::MaxTurns(max));
    }
    let Some(limits) = &config.usage_limits else {
        return Ok(());
    };
    at_most("request", run.requests.saturating_add(1), limits.request_limit)?;
    tokens(limits, run)
}

/// Before the tools of an answer: tokens left, and room for the whole batch.
pub(crate) fn before_tools(
    config: &LoopConfig,
    run: &RunState,
    batch: usize,
) -> Result<(), LoopError> {
    if let Some(limit) = &run.limit {
        return Err(limit.error());
    }
    let Some(limits) = &config.usage_limits else {
        return Ok(());
    };
    tokens(limits, run)?;
    at_most("tool call", run.tool_calls.saturating_add(batch), limits.tool_calls_limit)
}

fn tokens(limits: &UsageLimits, run: &RunState) -> Result<(), LoopError> {
    at_most("input token", run.usage.input_tokens, limits.input_tokens_limit)?;
    at_most("output token", run.usage.output_tokens, limits.output_tokens_limit)?;
    at_most("total token", run.usage.total_tokens(), limits.total_tokens_limit)
}

pub(crate) fn at_most(what: &str, count: usize, limit: Option<usize>) -> Result<(), LoopError> {
    match limit {
        Some(limit) if count > limit => {
            Err(LoopError::UsageLimitExceeded(format!("{what} limit exceeded: {count} > {limit}")))
        }
        _ => Ok(()),
    }
}
