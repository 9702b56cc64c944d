//! The workflow that drives a run of an agent ([`AgentWorkflow`]).

#![expect(
    missing_docs,
    missing_debug_implementations,
    reason = "the SDK's macro writes items without them"
)]

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use neuron_durable::RunOutcome;
use neuron_types::{
    Durability, DurableAgent, DurableError, LoopError, PendingApproval, RunSnapshot, Start,
};
use serde::{Deserialize, Serialize};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ApplicationFailure, ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext,
    WorkflowContextView, WorkflowResult, WorkflowTermination,
};

use crate::agent_version::AgentVersion;
use crate::context::{keep_answers, stall};
use crate::json::Json;
use crate::mailbox::{Queues, Untaken};
use crate::outcome::{RunFailure, outcome_within};
use crate::own_wakes::with_own_wakes;
use crate::panic::message;
use crate::signal_input::SignalInput;
use crate::wait::Waits;
use crate::{HasMailbox, Mailbox, TemporalDurableContext, TemporalOptions};

/// The input of one execution of a run.
#[derive(Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunInput {
    /// Version of the stored format.
    version: u32,
    start: Start,
    /// The signals that arrived in the previous execution and were not delivered to the run.
    #[serde(default, skip_serializing_if = "Queues::is_empty")]
    signals: Queues,
}

impl RunInput {
    const VERSION: u32 = 1;

    /// Creates the input of a run that begins with a message, or continues from a snapshot.
    #[must_use]
    pub fn new(start: impl Into<Start>) -> Self {
        Self { version: Self::VERSION, start: start.into(), signals: Queues::new() }
    }

    /// Adds signals that the run has not received yet.
    pub(crate) fn with_signals(self, Untaken(signals): Untaken) -> Self {
        Self { signals, ..self }
    }
}

/// Formats the input without the conversation.
impl fmt::Debug for RunInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunInput").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The workflow `neuron_agent`, which drives the run of an agent to its end.
///
/// - The signal `neuron_signal` delivers a [`Signal`](crate::Signal) to the run.
/// - The query `neuron_pending` returns the [`PendingApproval`] for which the run waits, without the conversation. It
///   returns null if the run does not wait for an approval.
/// - The query `neuron_waits_for` returns the current wait of any kind. [`TemporalRuns`](crate::TemporalRuns) uses it.
///
/// The workflow returns a [`RunOutcome`]. If the run fails, the workflow ends with an application failure, whose type
/// is the error's [`kind`](LoopError::kind).
///
/// If the agent's code panics, the type of the failure is `Panic`. The message of the panic is logged but not stored in
/// the history, because it may contain secrets.
#[workflow]
pub struct AgentWorkflow {
    agent: Arc<dyn DurableAgent>,
    options: TemporalOptions,
    mailbox: Mailbox,
}

impl AgentWorkflow {
    /// Creates the workflow of one execution. Call it in the factory that `register_workflow_with_factory` of a worker
    /// takes.
    #[must_use]
    pub fn new(agent: Arc<dyn DurableAgent>, options: TemporalOptions) -> Self {
        Self { agent, options, mailbox: Mailbox::new() }
    }
}

impl HasMailbox for AgentWorkflow {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn mailbox_mut(&mut self) -> &mut Mailbox {
        &mut self.mailbox
    }
}

#[workflow_methods(factory_only)]
impl AgentWorkflow {
    /// Drives the run to the end of this execution.
    #[run(name = "neuron_agent")]
    pub async fn run(
        ctx: &mut WorkflowContext<Self>,
        input: Json<RunInput>,
    ) -> WorkflowResult<Json<RunOutcome>> {
        let RunInput { version, start, signals } = match input.read() {
            Ok(input) => input,
            Err(error) => {
                return Err(failed("Input", format!("the input cannot be read: {error}")));
            }
        };
        if version > RunInput::VERSION {
            let text = format!(
                "the input has version {version}, and this release reads up to {}: use a newer release",
                RunInput::VERSION
            );
            return Err(failed("Input", text));
        }
        ctx.state_mut(|state| state.mailbox.put_first(signals));
        let (agent, options) = ctx.state(|state| (state.agent.clone(), state.options.clone()));
        let pinned = AgentVersion::pinned(Some(ctx.memo().raw()));
        let version = match pinned.clone().check(&options) {
            Ok(version) => version,
            // The check runs before the first command. If a query fails after a command, the SDK adds the command to
            // its response, and the worker ends.
            Err(error) => stall(ctx, &error),
        };
        let context = TemporalDurableContext::new(ctx, options.clone()).starting_from(&start);
        let durability = Durability::new(context.pinned_to(version.clone()));
        // The SDK would retry a task that panicked forever, and repeat its model calls each time. So a panic ends the
        // run. A panic of `stall` is resumed, because that task must be retried.
        let run = AssertUnwindSafe(async { agent.run(start, durability).await });
        let ended_by = with_own_wakes(run.catch_unwind()).await;
        let ended_by = match ended_by {
            Err(panic) if ctx.state(|state| state.mailbox.stalled().is_some()) => {
                resume_unwind(panic)
            }
            ended_by => ended_by,
        };
        // An error means that the run was cancelled, so its responses are not needed.
        let _ = keep_answers(ctx).await;
        let error = match ended_by {
            Err(panic) => {
                let message = message(&*panic);
                tracing::error!(message, "the agent's code panicked; its run ends");
                return Err(failed("Panic", "the agent's code panicked".into()));
            }
            Ok(Ok(result)) => {
                let outcome =
                    outcome_within(ctx.info().workflow_id(), result, options.state_limit());
                return outcome.map_err(|error| failed("Outcome", error.to_string()));
            }
            Ok(Err(error)) => error,
        };
        match error {
            LoopError::Durable(DurableError::ContinueAsNew(_)) => {
                let next = match next_input(ctx, &options) {
                    Ok(next) => next,
                    Err(error) => return Err(failed("Durable", error.to_string())),
                };
                let mut options = ContinueAsNewOptions::default();
                if version != pinned {
                    options.memo = version.in_memo(ctx.memo().raw());
                }
                match ctx.continue_as_new(next, options) {
                    Ok(never) => match never {},
                    Err(termination) => Err(termination),
                }
            }
            LoopError::Durable(DurableError::Cancelled) => Err(WorkflowTermination::cancelled()),
            error => {
                let signals = ctx.state_mut(|state| state.mailbox.take_signals());
                Err(ended(&error, Untaken(signals), options.state_limit()))
            }
        }
    }

    /// Appends a signal to the mailbox. A signal that cannot be parsed is dropped.
    #[signal(name = "neuron_signal")]
    pub(crate) fn deliver(&mut self, _ctx: &mut SyncWorkflowContext<Self>, signal: SignalInput) {
        self.mailbox.receive(&signal);
    }

    /// Returns the calls that wait for a decision. Returns `None` if the run does not wait for decisions.
    #[query(name = "neuron_pending")]
    pub(crate) fn pending(&self, _ctx: &WorkflowContextView) -> Option<PendingApproval> {
        self.mailbox.pending().cloned()
    }

    /// Returns the current wait of the run, and the waits for decisions that ended without a decision.
    #[query(name = "neuron_waits_for")]
    pub(crate) fn waits_for(&self, _ctx: &WorkflowContextView) -> Waits {
        self.mailbox.waits().clone()
    }
}

impl fmt::Debug for AgentWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWorkflow")
            .field("options", &self.options)
            .field("mailbox", &self.mailbox)
            .finish_non_exhaustive()
    }
}

/// Returns the input of the next execution. It contains the state from the mailbox and the signals that the run has not
/// received.
///
/// # Errors
///
/// [`DurableError::Other`] if the mailbox has no state, or the input is too long for a payload.
fn next_input(
    ctx: &WorkflowContext<AgentWorkflow>,
    options: &TemporalOptions,
) -> Result<Json<RunInput>, DurableError> {
    let (state, signals) = ctx.state_mut(|workflow| {
        (workflow.mailbox.take_next_state(), workflow.mailbox.take_signals())
    });
    let state = state
        .ok_or_else(|| DurableError::Other("there is no state for the next execution".into()))?;
    let snapshot: RunSnapshot =
        serde_json::from_value(state).map_err(|error| DurableError::Other(error.into()))?;
    let next = Json::new(&RunInput { signals, ..RunInput::new(snapshot) })?;
    let (length, limit) = (next.len(), options.state_limit());
    if length > limit {
        let text = format!(
            "the state of the run and its queued signals take {length} bytes, where a payload \
             may have {limit}: set `TemporalOptions::payload_store`"
        );
        return Err(DurableError::Other(text.into()));
    }
    Ok(next)
}

/// Creates the failure with which the workflow of a failed run ends. The server does not retry it, because a retry
/// would repeat the whole run.
fn ended(error: &LoopError, signals: Untaken, limit: usize) -> WorkflowTermination {
    let failure = RunFailure::within(error, signals, limit);
    let text = std::io::Error::other(failure.message.clone());
    let builder =
        ApplicationFailure::builder(text).type_name(failure.kind.clone()).non_retryable(true);
    let failure = match Json::new(&failure) {
        Ok(details) => builder.details(details).build(),
        Err(_) => builder.build(),
    };
    WorkflowTermination::failed_application(failure)
}

/// Creates a failure that ends a workflow and is not retried. `kind` becomes the type of the failure.
pub(crate) fn failed(kind: &str, text: String) -> WorkflowTermination {
    let failure = ApplicationFailure::builder(std::io::Error::other(text))
        .type_name(kind.to_owned())
        .non_retryable(true)
        .build();
    WorkflowTermination::failed_application(failure)
}
