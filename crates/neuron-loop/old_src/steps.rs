//! A run turn by turn, with control in between.

use std::fmt;
use std::future::Future;

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ContentBlock, ContextStrategy, Durability, DurableContext, LoopError, Message,
    Provider, Scopes, TokenUsage, ToolCall, ToolContext, ToolOutput, WasmCompatSend,
};
use serde_json::Value;

use crate::AgentLoop;
use crate::engine::{Step, run_outcome};
use crate::sink::Results;
use crate::tool_results::place_of_results;

/// A run turn by turn; made by [`AgentLoop::run_step`].
///
/// Between turns the conversation can be read, messages added and tools changed. Dropping it stops
/// the run where it is; the history stays valid.
///
/// # Example
///
/// ```
/// # use neuron_loop::{AgentLoop, TurnResult};
/// # use neuron_types::*;
/// # async fn plan<P: Provider, C: ContextStrategy>(mut agent: AgentLoop<P, C>) {
/// let ctx = ToolContext::default();
/// let mut steps = agent.run_step(Message::user("Plan a trip"), &ctx);
/// while let Some(turn) = steps.next().await {
///     match turn {
///         TurnResult::ToolsExecuted { calls, .. } => {
///             println!("ran {} tools", calls.len());
///             steps.inject_message(Message::user("Focus on budget options."));
///         }
///         TurnResult::FinalResponse(result) => println!("{}", result.response),
///         TurnResult::CompactionOccurred { old_tokens, new_tokens } => {
///             println!("compacted from {old_tokens} to {new_tokens} tokens");
///         }
///         TurnResult::MaxTurnsReached => println!("the turn limit"),
///         TurnResult::Error(error) => eprintln!("{error}"),
///     }
/// }
/// # }
/// ```
#[must_use = "the agent runs only while `next` is awaited"]
pub struct StepIterator<'a, P, C, D = Durability<'static>> {
    agent: &'a mut AgentLoop<P, C, D>,
    ctx: &'a ToolContext,
    results: Results,
    progress: RunProgress,
}

enum RunProgress {
    NotStarted,
    Running {
        /// The hooks', around the run.
        scopes: Scopes,
        /// Whether the hooks have been told of the start.
        announced: bool,
    },
    /// The outcome is there and the hooks are being told of it.
    Ending {
        scopes: Scopes,
        outcome: Result<AgentResult, LoopError>,
    },
    Ended,
}

/// What happened in a turn.
#[derive(Debug)]
pub enum TurnResult {
    /// The model called tools, and they ran. The run goes on.
    ToolsExecuted {
        /// The calls: id, tool name and arguments.
        calls: Vec<(String, String, Value)>,
        /// Their results, in the order of the calls.
        results: Vec<ToolOutput>,
    },
    /// The model answered. The run has ended.
    FinalResponse(AgentResult),
    /// The history was compacted. The run goes on.
    CompactionOccurred {
        /// The estimate before.
        old_tokens: usize,
        /// The estimate after.
        new_tokens: usize,
    },
    /// The run reached its limit on turns. It has ended.
    MaxTurnsReached,
    /// The run ended with another error.
    Error(LoopError),
}

impl<'a, P, C, D> StepIterator<'a, P, C, D> {
    pub(crate) fn new(agent: &'a mut AgentLoop<P, C, D>, ctx: &'a ToolContext) -> Self {
        Self { agent, ctx, results: Results::default(), progress: RunProgress::NotStarted }
    }

    /// A run that could not go on.
    pub(crate) fn ended(
        agent: &'a mut AgentLoop<P, C, D>,
        ctx: &'a ToolContext,
        error: LoopError,
    ) -> Self {
        let progress = RunProgress::Ending { scopes: Scopes::default(), outcome: Err(error) };
        Self { progress, ..Self::new(agent, ctx) }
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.agent.request.messages
    }

    /// Returns the tokens of the run so far.
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        self.agent.usage()
    }

    /// Returns the answered calls of the model so far.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.agent.turns()
    }

    /// Returns the tools, to change them for the next turn.
    pub fn tools_mut(&mut self) -> &mut ToolRegistry {
        self.agent.tools_mut()
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> StepIterator<'_, P, C, D> {
    /// Advances the run by one turn; `None` once it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the turn: what finished is in the history, and tool calls that did
    /// not have a result that says so. The next call starts another turn, or hands out the outcome
    /// if that was there already.
    #[expect(
        clippy::should_implement_trait,
        reason = "the specification's name; it is not an iterator but the asynchronous form of one"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<TurnResult>> + WasmCompatSend {
        async move {
            if let RunProgress::NotStarted = self.progress {
                let scopes = self.agent.open_run(self.ctx);
                self.progress = RunProgress::Running { scopes, announced: false };
            }
            if let RunProgress::Running { scopes, announced } = &mut self.progress {
                self.results.clear();
                let (agent, ctx, sink) = (&mut *self.agent, self.ctx, &self.results);
                let turn = async {
                    if !*announced {
                        agent.announce(ctx).await?;
                        *announced = true;
                    }
                    agent.step(ctx, sink).await
                };
                let outcome = match scopes.run(turn).await {
                    Ok(Step::Tools { calls }) => return Some(self.tools_executed(calls)),
                    Ok(Step::Compacted { old_tokens, new_tokens }) => {
                        return Some(TurnResult::CompactionOccurred { old_tokens, new_tokens });
                    }
                    Ok(Step::Final(result)) => Ok(result),
                    Err(error) => Err(error),
                };
                let scopes = std::mem::take(scopes);
                self.progress = RunProgress::Ending { scopes, outcome };
                if let RunProgress::Ending { scopes, outcome } = &mut self.progress {
                    scopes.run(self.agent.conclude(self.ctx, outcome.as_ref())).await;
                }
            }
            match std::mem::replace(&mut self.progress, RunProgress::Ended) {
                RunProgress::Ending { scopes, outcome } => {
                    scopes.end(run_outcome(outcome.as_ref()));
                    Some(match outcome {
                        Ok(result) => TurnResult::FinalResponse(result),
                        Err(LoopError::MaxTurns(_)) => TurnResult::MaxTurnsReached,
                        Err(error) => TurnResult::Error(error),
                    })
                }
                _ => None,
            }
        }
    }

    fn tools_executed(&self, calls: Vec<ToolCall>) -> TurnResult {
        let result = |id: &str| self.results.take(id).unwrap_or_else(|| self.earlier_result(id));
        let results = calls.iter().map(|call| result(&call.id)).collect();
        let calls = calls.into_iter().map(|call| (call.id, call.name, call.input));
        TurnResult::ToolsExecuted { calls: calls.collect(), results }
    }

    /// A result that was there before the run waited for an approval: as the model sees it.
    fn earlier_result(&self, id: &str) -> ToolOutput {
        let results = place_of_results(self.messages()).and_then(|at| self.messages().get(at));
        let blocks = results.into_iter().flat_map(|message| &message.content);
        let mut result = blocks.filter_map(|block| match block {
            ContentBlock::ToolResult { tool_use_id, content, is_error } if tool_use_id == id => {
                let (content, is_error) = (content.clone(), *is_error);
                Some(ToolOutput { content, structured_content: None, is_error })
            }
            _ => None,
        });
        result.next().unwrap_or_default()
    }

    /// Adds a message to the conversation before the next turn.
    pub fn inject_message(&mut self, message: Message) {
        self.agent.add_message(message);
    }
}

impl<P, C, D> fmt::Debug for StepIterator<'_, P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepIterator").field("agent", &self.agent).finish_non_exhaustive()
    }
}
