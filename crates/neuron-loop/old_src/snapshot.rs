//! A run that goes on as a new execution of a durable engine: its state, and starting from it.

use std::future::{Future, ready};

use neuron_types::{
    AgentResult, ContextStrategy, DurableContext, DurableError, LoopError, Message, Provider, Role,
    RunSnapshot, RunStart, TokenUsage, ToolContext, WasmCompatSend, transcript,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::KnownSize;
use crate::context_budget::ContextBudget;
use crate::failing_turns::FailingTurns;
use crate::run_state::RunState;
use crate::sink::Quiet;
use crate::{AgentLoop, AgentStream, StepIterator};

/// What the loop knows between two turns beside what callers may read: what it decides by later on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct LoopState {
    /// The tokens of all the agent's runs; without it those of this run.
    total_usage: Option<TokenUsage>,
    size: Option<KnownSize>,
    context_budget: ContextBudget,
    /// Whether room was made for the last call because it did not fit into the window.
    overflowed: bool,
    /// How many messages, from the start, the hooks let pass.
    passed_messages: usize,
    /// The places of the messages that were said to remind the model.
    reminders: Vec<usize>,
    /// The answered calls of the model over all runs.
    all_turns: usize,
    /// How many answers of a typed run were taken for its output.
    output_attempts: usize,
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Runs from where an execution of a durable engine starts: from the user's message, as
    /// [`run`](Self::run) does, or from the [state](RunSnapshot) that an earlier execution of the same
    /// run left when it [continued as new](DurableContext::continue_as_new).
    ///
    /// From a state the run goes on, in place of the agent's own conversation. Its id, its counters, its
    /// limits, the number of its turns and [`AgentResult::usage`] are those of the whole run, and tools
    /// get no idempotency key twice. Hooks hear of a session and a run that start and end for every
    /// execution.
    ///
    /// Build the agent as the one that left the state: it holds neither tools nor settings. What was
    /// taken of a [`Budget`](crate::Budget) is not in it either, and nothing is taken again.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] when a newer release wrote the state or it does not fit together:
    /// nothing has happened then, and the agent is as before. Else as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Example: an agent as a durable engine hosts it
    ///
    /// ```
    /// use neuron_loop::{AgentLoop, AgentResult, LoopError};
    /// # use neuron_context::SlidingWindowStrategy;
    /// # use neuron_testing::ScriptedProvider;
    /// use neuron_types::{Durability, DurableAgent, RunStart, ToolContext, WasmBoxedFuture};
    ///
    /// struct Assistant;
    ///
    /// impl DurableAgent for Assistant {
    ///     fn run<'d>(
    ///         &'d self,
    ///         start: RunStart,
    ///         durability: Durability<'d>,
    ///     ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
    ///         Box::pin(async move {
    /// #           let (provider, context) = (ScriptedProvider::new(["hi"]), SlidingWindowStrategy::new(9, 99));
    ///             let mut agent = AgentLoop::builder(provider, context).durability(durability).build();
    ///             agent.run_from(start, &ToolContext::default()).await
    ///         })
    ///     }
    /// }
    /// ```
    pub fn run_from(
        &mut self,
        start: impl Into<RunStart>,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        let begun = self.begin_from(start.into(), ctx);
        async move {
            begun?;
            self.drive(ctx, &Quiet).await
        }
    }

    /// [`run_from`](Self::run_from) as a stream of events.
    pub fn run_from_stream<'a>(
        &'a mut self,
        start: impl Into<RunStart>,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        let begun = self.begin_from(start.into(), ctx);
        ready(AgentStream::new(|slot| async move {
            begun?;
            self.drive(ctx, &slot).await
        }))
    }

    /// [`run_from`](Self::run_from) turn by turn.
    pub fn run_from_step<'a>(
        &'a mut self,
        start: impl Into<RunStart>,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        match self.begin_from(start.into(), ctx) {
            Ok(()) => StepIterator::new(self, ctx),
            Err(error) => StepIterator::ended(self, ctx, error),
        }
    }

    /// Starts a run with the user's message, or goes on with one.
    pub(crate) fn begin_from(
        &mut self,
        start: RunStart,
        ctx: &ToolContext,
    ) -> Result<(), LoopError> {
        match start {
            RunStart::Message(message) => {
                self.begin(message, ctx);
                Ok(())
            }
            RunStart::Snapshot(snapshot) => self.begin_from_snapshot(*snapshot, ctx),
            _ => Err(damaged("this release does not know what it starts from")),
        }
    }

    fn begin_from_snapshot(
        &mut self,
        snapshot: RunSnapshot,
        ctx: &ToolContext,
    ) -> Result<(), LoopError> {
        snapshot.check_version()?;
        transcript::validate(&snapshot.messages)
            .map_err(|violation| damaged(&violation.to_string()))?;
        if !is_open(&snapshot.messages, snapshot.is_paused) {
            return Err(damaged("there is nothing for the model to answer"));
        }
        let state = match snapshot.loop_state {
            Value::Null => LoopState::default(),
            state => serde_json::from_value(state).map_err(|error| damaged(&error.to_string()))?,
        };
        let (budget, durability) = (self.budget.as_ref(), self.durability.as_ref());
        let mut run = RunState::new(snapshot.run_number, ctx, durability, budget);
        if !snapshot.run_id.is_empty() {
            run.id = snapshot.run_id;
        }
        let total_usage = state.total_usage.unwrap_or_else(|| snapshot.usage.clone());
        self.run = RunState {
            turn: snapshot.turns,
            turns: snapshot.turns,
            requests: snapshot.requests,
            tool_calls: snapshot.tool_calls,
            usage: snapshot.usage,
            tool_usage: snapshot.tool_usage,
            told_of_estimates: snapshot.estimated_usage != TokenUsage::default(),
            estimated_usage: snapshot.estimated_usage,
            failing: FailingTurns::from(snapshot.failing_turns),
            pauses: snapshot.pauses,
            is_paused: snapshot.is_paused,
            overflowed: state.overflowed,
            output_attempts: state.output_attempts,
            size_before: state.size,
            ..run
        };
        self.enclose(ctx);
        self.runs = snapshot.run_number.saturating_add(1);
        self.total_usage = total_usage;
        self.pending = None;
        self.context_budget = state.context_budget;
        let said = state.reminders.iter().filter_map(|&place| snapshot.messages.get(place));
        self.reminders.restore(said, state.all_turns);
        self.passed_messages = state.passed_messages.min(snapshot.messages.len());
        self.request.messages = snapshot.messages;
        self.size = None;
        self.request_changed();
        Ok(())
    }

    /// Lets the engine continue the run as a new execution, if it wants to.
    pub(crate) async fn continue_as_new_if_due(&self) -> Result<(), LoopError> {
        match &self.durability {
            Some(durability) if durability.should_continue_as_new() => {
                durability.continue_as_new(self.snapshot()?).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The state of the run between two turns.
    fn snapshot(&self) -> Result<Value, LoopError> {
        let messages = self.request.messages.clone();
        let is_reminder = |place: &usize| {
            messages.get(*place).is_some_and(|message| self.reminders.said(message))
        };
        let output = self.run.output.as_ref();
        let state = LoopState {
            total_usage: Some(self.total_usage.clone()),
            size: self.run.size_before.or(self.size),
            context_budget: self.context_budget.clone(),
            overflowed: self.run.overflowed,
            passed_messages: self.passed_messages,
            reminders: (0..messages.len()).filter(is_reminder).collect(),
            all_turns: self.reminders.turns,
            output_attempts: output.map_or(self.run.output_attempts, |output| output.attempts),
        };
        let loop_state = serde_json::to_value(state).map_err(failed)?;
        let mut snapshot = RunSnapshot::new(&*self.run.id, messages);
        snapshot.run_number = self.run.number;
        snapshot.usage = self.run.usage.clone();
        snapshot.tool_usage = self.run.tool_usage.clone();
        snapshot.estimated_usage = self.run.estimated_usage.clone();
        snapshot.turns = self.run.turns;
        snapshot.requests = self.run.requests;
        snapshot.tool_calls = self.run.tool_calls;
        snapshot.pauses = self.run.pauses;
        // The model goes on with an answer that the user began, as with a turn of its own that was paused.
        snapshot.is_paused = self.run.is_paused || !is_open(&snapshot.messages, false);
        snapshot.failing_turns = self.run.failing.turns().clone();
        snapshot.loop_state = loop_state;
        serde_json::to_value(snapshot).map_err(failed)
    }
}

/// Whether the model has something to answer: what others said, or its own turn that was paused.
pub(crate) fn is_open(messages: &[Message], is_paused: bool) -> bool {
    let last = messages.iter().rfind(|message| message.role != Role::System);
    last.is_some_and(|message| message.role == Role::User || is_paused)
}

fn failed(error: serde_json::Error) -> LoopError {
    DurableError::Other(Box::new(error)).into()
}

fn damaged(why: &str) -> LoopError {
    DurableError::Other(format!("the run cannot go on from its state: {why}").into()).into()
}
