//! A run that returns control after each turn, and a run as a stream of events.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ContextStrategy, Durability, DurableContext, LoopError, Message, Provider,
    StreamEvent, ToolOutput, WasmCompatSend,
};
use serde_json::Value;

use super::AgentLoop;
use crate::parts::Reader;
use crate::run::{Events, Live, Step, agent_result};

/// A run that returns control after each turn. Made by [`AgentLoop::run_step`].
///
/// Between turns the caller can read the conversation, add messages and change tools. Dropping the iterator stops the
/// run, and the history stays valid.
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
    pub(super) agent: &'a mut AgentLoop<P, C, D>,
    pub(super) run: Live<'a>,
}

/// The outcome of one turn of a [`StepIterator`].
#[derive(Debug)]
pub enum TurnResult {
    /// The model called tools, and they ran. The run continues.
    ToolsExecuted {
        /// The calls of the response, each with id, tool name and arguments.
        calls: Vec<(String, String, Value)>,
        /// The results of the calls, in the order of `calls`.
        results: Vec<ToolOutput>,
    },
    /// The model answered. The run has ended.
    FinalResponse(AgentResult),
    /// The history was compacted. The run continues.
    CompactionOccurred {
        /// Size before the compaction, in tokens.
        old_tokens: usize,
        /// Estimated size after the compaction, in tokens.
        new_tokens: usize,
    },
    /// The run ended because it reached its turn limit.
    MaxTurnsReached,
    /// The run ended with another error.
    Error(LoopError),
}

impl<P, C, D> StepIterator<'_, P, C, D> {
    /// Returns the conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.agent.messages()
    }

    /// Returns the agent's tools for changes. A change applies from the next turn.
    pub fn tools_mut(&mut self) -> &mut ToolRegistry {
        &mut self.agent.definition.changed().tools
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> StepIterator<'_, P, C, D> {
    /// Runs the next turn. Returns `None` after the run has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the turn. The next call continues the run, or returns the outcome of the stopped turn
    /// if it was already known.
    pub async fn next(&mut self) -> Option<TurnResult> {
        Some(match self.agent.drive(&mut self.run, Reader::Step).await? {
            Ok(Step::Tools { calls, results }) => {
                let calls = calls.into_iter().map(|call| (call.id, call.name, call.input));
                TurnResult::ToolsExecuted { calls: calls.collect(), results }
            }
            Ok(Step::Compacted { old_tokens, new_tokens }) => {
                TurnResult::CompactionOccurred { old_tokens, new_tokens }
            }
            Ok(Step::Ended(result)) => {
                TurnResult::FinalResponse(agent_result(&self.agent.ledger, &result))
            }
            Err(LoopError::MaxTurns(_)) => TurnResult::MaxTurnsReached,
            Err(error) => TurnResult::Error(error),
        })
    }

    /// Adds a message to the conversation before the next turn.
    pub fn inject_message(&mut self, message: Message) {
        self.run.inject(message, &mut self.agent.ledger);
    }
}

impl<P, C, D> fmt::Debug for StepIterator<'_, P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepIterator").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A run as a stream of events. Made by [`AgentLoop::run_stream`](crate::AgentLoop::run_stream).
///
/// The last event is [`StreamEvent::RunComplete`], [`StreamEvent::ApprovalRequired`] or [`StreamEvent::Error`].
///
/// The agent runs only while the stream is polled, so a slow reader slows the run and its tools. Dropping the stream
/// stops the run.
///
/// The stream borrows the agent until it is dropped. Put it in a block, or `drop` it, before you use the agent again.
#[derive(Debug)]
#[must_use = "the agent runs only while the stream is polled"]
pub struct AgentStream<'a>(pub(super) Events<'a, Result<AgentResult, LoopError>>);

impl AgentStream<'_> {
    /// Returns the next event, or `None` after the last event.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future loses no event, and the run pauses until the next call.
    pub fn recv(&mut self) -> impl Future<Output = Option<StreamEvent>> + WasmCompatSend {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

impl Stream for AgentStream<'_> {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let end = |end| match end {
            Ok(result) => StreamEvent::RunComplete(Box::new(result)),
            Err(LoopError::ApprovalRequired(pending)) => StreamEvent::ApprovalRequired(pending),
            Err(error) => StreamEvent::Error(error.into()),
        };
        self.0.poll(cx, |event| event, |outcome| Some(end(outcome)))
    }
}

// No field is pinned: the run inside is boxed, and its outcome is a plain value.
impl Unpin for AgentStream<'_> {}
