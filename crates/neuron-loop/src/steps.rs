//! A run turn by turn, with control in between.

use std::fmt;
use std::future::Future;

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ContextStrategy, Durability, DurableContext, LoopError, Message, Provider, Scopes,
    ToolContext, ToolOutput, WasmCompatSend,
};
use serde_json::Value;

use crate::AgentLoop;
use crate::engine::{Step, run_outcome};
use crate::sink::Results;

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
pub struct StepIterator<'a, P, C, D = Durability<'static>> {
    agent: &'a mut AgentLoop<P, C, D>,
    ctx: &'a ToolContext,
    results: Results,
    progress: RunProgress,
}

enum RunProgress {
    NotStarted,
    /// With the hooks' scopes around the run.
    Running(Scopes),
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
        Self {
            agent,
            ctx,
            results: Results::default(),
            progress: RunProgress::NotStarted,
        }
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.agent.request.messages
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
    /// not have a result that says so. The next call starts another turn.
    #[expect(
        clippy::should_implement_trait,
        reason = "the specification's name; it is not an iterator but the asynchronous form of one"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<TurnResult>> + WasmCompatSend {
        async move {
            let (agent, ctx, sink) = (&mut *self.agent, self.ctx, &self.results);
            let step = match &mut self.progress {
                RunProgress::Ended => return None,
                RunProgress::Running(scopes) => scopes.run(agent.step(ctx, sink)).await,
                RunProgress::NotStarted => {
                    self.progress = RunProgress::Running(agent.open_run(ctx));
                    let RunProgress::Running(scopes) = &mut self.progress else {
                        return None;
                    };
                    let first = async {
                        agent.announce(ctx).await?;
                        agent.step(ctx, sink).await
                    };
                    scopes.run(first).await
                }
            };
            Some(match step {
                Ok(Step::Tools { calls }) => {
                    let take = |id: &str| self.results.take(id).unwrap_or_default();
                    let results = calls.iter().map(|call| take(&call.id)).collect();
                    let calls = calls
                        .into_iter()
                        .map(|call| (call.id, call.name, call.input));
                    TurnResult::ToolsExecuted {
                        calls: calls.collect(),
                        results,
                    }
                }
                Ok(Step::Compacted {
                    old_tokens,
                    new_tokens,
                }) => TurnResult::CompactionOccurred {
                    old_tokens,
                    new_tokens,
                },
                Ok(Step::Final(result)) => {
                    self.end(Ok(&result)).await;
                    TurnResult::FinalResponse(result)
                }
                Err(error) => {
                    self.end(Err(&error)).await;
                    match error {
                        LoopError::MaxTurns(_) => TurnResult::MaxTurnsReached,
                        error => TurnResult::Error(error),
                    }
                }
            })
        }
    }

    /// Adds a message to the conversation before the next turn.
    pub fn inject_message(&mut self, message: Message) {
        self.agent.add_message(message);
    }

    async fn end(&mut self, result: Result<&AgentResult, &LoopError>) {
        let progress = std::mem::replace(&mut self.progress, RunProgress::Ended);
        if let RunProgress::Running(mut scopes) = progress {
            scopes.run(self.agent.conclude(self.ctx, result)).await;
            scopes.end(run_outcome(result));
        }
    }
}

impl<P, C, D> fmt::Debug for StepIterator<'_, P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepIterator")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}
