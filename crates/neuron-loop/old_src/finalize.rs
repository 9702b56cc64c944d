//! The soft landing: one last call of the model when a limit is reached.

use neuron_types::{ContextStrategy, DurableContext, LoopError, Provider, Role, ToolContext};

use crate::engine::Step;
use crate::prepared_call::PreparedCall;
use crate::sink::Sink;
use crate::{AgentLoop, LoopConfig};

/// What happens when a run reaches a limit: on turns, or one of its usage limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// The run ends with the limit's error. The default.
    #[default]
    Fail,
    /// The model is called once more, without tools, and told to answer from what is known. Its answer
    /// is the run's result, and [`AgentResult::limit_reached`](neuron_types::AgentResult) says which
    /// limit it was.
    ///
    /// - The call is the only one beyond the limits, and counts. A run whose limit is zero makes none,
    ///   and neither does one whose [`Budget`](crate::Budget) has no room for it.
    /// - What the model is told is a system message at the end of the conversation, after the results
    ///   of the tools, so that what was sent before stays as it was. It stays in the conversation
    ///   together with the answer; without one it is taken back. A turn that the provider paused is
    ///   continued without it.
    /// - The definitions of the tools stay, and the tool choice is
    ///   [`ToolChoice::None`](neuron_types::ToolChoice::None): the provider's cache of the conversation
    ///   begins with them, and some vendors reject a conversation with calls of tools that are not
    ///   defined. A typed run's output tool is the one that it must call.
    /// - If the model calls tools nevertheless, none runs, and the run ends with the limit's error. So
    ///   it does if the call fails, with the error of the call.
    /// - The conversation is not compacted for this call.
    Finalize,
}

/// A limit that a run has reached.
#[derive(Debug, Clone)]
pub(crate) enum Limit {
    Turns(usize),
    Usage(String),
}

impl Limit {
    /// The limit of an error, if that is what the error says.
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

    /// What the model is told.
    fn notice(&self, output_tool: Option<&str>) -> String {
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

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// The limit that a step has reached, if one last call may follow.
    pub(crate) fn limit_to_land_on(&self, error: &LoopError) -> Option<Limit> {
        let is_wanted = self.config.on_limit == OnLimit::Finalize && allows_calls(&self.config);
        let is_first = self.run.limit.is_none();
        Limit::of(error).filter(|_| is_wanted && is_first)
    }

    /// Makes the last call, and ends the run with its answer.
    pub(crate) async fn finalize<S: Sink>(
        &mut self,
        limit: Limit,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<Step, LoopError> {
        let output_tool = self.run.output.as_ref().and_then(|output| output.tool_name());
        let notice = limit.notice(output_tool);
        // From here on no tool runs.
        self.run.limit = Some(limit);
        if !std::mem::take(&mut self.run.turn_open) {
            self.announce_turn().await?;
        }
        self.remind(ctx);
        let is_paused =
            self.request.messages.last().is_some_and(|last| last.role == Role::Assistant);
        let notice = (!is_paused).then_some(notice);
        let response = PreparedCall::last(self, notice).make(ctx, sink).await?;
        let stop_reason = response.stop_reason.clone();
        let step = self.take_answer(response, ctx, sink).await?;
        Ok(step.unwrap_or_else(|| Step::Final(self.result(stop_reason))))
    }
}

/// Whether the limits allow for any call at all.
fn allows_calls(config: &LoopConfig) -> bool {
    let requests = config.usage_limits.as_ref().and_then(|limits| limits.request_limit);
    config.max_turns != Some(0) && requests != Some(0)
}
