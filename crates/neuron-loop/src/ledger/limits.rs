//! The limits of a run. A limit of n allows exactly n, and one more call of the model where a run may land softly.

use neuron_types::LoopError;
use serde::{Deserialize, Serialize};

use super::{Ledger, Phase, RunRecord};
use crate::settings::{LoopConfig, OnLimit};

/// A limit that a run has reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    Turns(usize),
    Usage(String),
}

impl Limit {
    fn of(error: &LoopError) -> Option<Self> {
        match error {
            LoopError::MaxTurns(turns) => Some(Self::Turns(*turns)),
            LoopError::UsageLimitExceeded(text) => Some(Self::Usage(text.clone())),
            _ => None,
        }
    }

    pub(crate) fn error(&self) -> LoopError {
        match self {
            Self::Turns(turns) => LoopError::MaxTurns(*turns),
            Self::Usage(text) => LoopError::UsageLimitExceeded(text.clone()),
        }
    }

    /// The system message that tells the model to answer now.
    pub(crate) fn notice(&self, output_tool: Option<&str>) -> String {
        let how = match output_tool {
            None => "Give your final answer now, from what is known so far, and say what is left \
                     open. No tool can be called in this answer."
                .to_owned(),
            Some(tool) => format!(
                "Give the final output now, from what is known so far, by calling `{tool}`. No other \
                 tool can be called in this answer."
            ),
        };
        format!("This run has reached a limit ({}). {how}", self.error())
    }
}

impl RunRecord {
    /// Checks the limits before a call of the model: one more turn, one more request, and tokens left.
    pub(crate) fn check_before_call(&self, config: &LoopConfig) -> Result<(), LoopError> {
        if let Some(max) = config.max_turns.filter(|max| self.turns >= *max) {
            return Err(LoopError::MaxTurns(max));
        }
        config.usage_limits.as_ref().map_or(Ok(()), |limits| {
            limits.check_requests(self.requests.saturating_add(1))?;
            limits.check_tokens(&self.usage.total)
        })
    }

    /// Checks the limits before tools: tokens left, and room for so many calls.
    pub(crate) fn check_before_tools(
        &self,
        config: &LoopConfig,
        calls: usize,
    ) -> Result<(), LoopError> {
        config.usage_limits.as_ref().map_or(Ok(()), |limits| {
            limits.check_tokens(&self.usage.total)?;
            limits.check_tool_calls(self.tool_calls.saturating_add(calls))
        })
    }
}

impl Ledger {
    /// Lets one last call follow if the error is a limit on which the run may land. Calls that wait for a person are
    /// given up.
    pub(crate) fn land_on(&mut self, error: &LoopError, config: &LoopConfig) -> bool {
        let is_wanted = config.on_limit == OnLimit::Finalize && allows_calls(config);
        let Some(limit) = Limit::of(error).filter(|_| is_wanted) else {
            return false;
        };
        let is_open = match &self.phase {
            Phase::Landing { .. } | Phase::Idle | Phase::Ended(_) => return false,
            Phase::Calling => true,
            Phase::TurnStart => false,
            Phase::Batch(_) => {
                self.close_batch_because_of(error);
                false
            }
        };
        self.phase = Phase::Landing { limit, is_open };
        true
    }
}

/// Whether the limits allow for any call at all.
fn allows_calls(config: &LoopConfig) -> bool {
    let requests = config.usage_limits.as_ref().and_then(|limits| limits.request_limit);
    config.max_turns != Some(0) && requests != Some(0)
}
