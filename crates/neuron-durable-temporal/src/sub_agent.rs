//! The workflow of an agent inside a tool call ([`SubAgentWorkflow`]).

#![expect(
    missing_docs,
    missing_debug_implementations,
    reason = "the SDK's macro writes items without them"
)]

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::FutureExt;
use neuron_durable::{StepRecord, ToolRequest};
use neuron_types::{Durability, DurableAgent, ToolOutput, ToolSet};
use serde::{Deserialize, Serialize};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{SyncWorkflowContext, WorkflowContext, WorkflowResult, WorkflowTermination};

use crate::agent_version::AgentVersion;
use crate::context::{keep_answers, stall};
use crate::json::Json;
use crate::own_wakes::with_own_wakes;
use crate::panic::message;
use crate::signal_input::SignalInput;
use crate::workflow::failed;
use crate::{HasMailbox, Mailbox, TemporalDurableContext, TemporalOptions};

/// Input of the child workflow of an agent, in a run that is pinned to a version of the outermost agent.
#[derive(Serialize)]
pub(crate) struct PinnedCall<'a> {
    #[serde(flatten)]
    pub(crate) request: &'a ToolRequest,
    #[serde(flatten)]
    pub(crate) pin: Pin,
}

/// The agent version in the input of a child workflow. It is serialised beside the fields of the [`ToolRequest`].
#[derive(Serialize, Deserialize)]
pub(crate) struct Pin {
    /// Version of the agent to which the run is pinned. Empty if the run is not pinned.
    #[serde(default, skip_serializing_if = "AgentVersion::is_none")]
    pub(crate) agent_version: AgentVersion,
}

/// The workflow `neuron_sub_agent`, which runs an agent inside a tool call. It is a child of the workflow that makes
/// the call.
///
/// A custom worker registers this workflow beside [`AgentWorkflow`](crate::AgentWorkflow), with a clone of its
/// options.
#[workflow]
pub struct SubAgentWorkflow {
    agent: Arc<dyn DurableAgent>,
    tools: Arc<dyn ToolSet>,
    options: TemporalOptions,
    mailbox: Mailbox,
}

impl SubAgentWorkflow {
    /// Creates the workflow of one execution. Call this function in the factory for the worker's
    /// `register_workflow_with_factory`.
    ///
    /// `agent` is the outermost agent. `tools` are the tools of its [activities](crate::AgentActivities).
    #[must_use]
    pub fn new(
        agent: Arc<dyn DurableAgent>,
        tools: Arc<dyn ToolSet>,
        options: TemporalOptions,
    ) -> Self {
        Self { agent, tools, options, mailbox: Mailbox::new() }
    }
}

impl Clone for SubAgentWorkflow {
    /// Creates a workflow that has not started.
    fn clone(&self) -> Self {
        Self::new(self.agent.clone(), self.tools.clone(), self.options.clone())
    }
}

impl HasMailbox for SubAgentWorkflow {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn mailbox_mut(&mut self) -> &mut Mailbox {
        &mut self.mailbox
    }
}

#[workflow_methods(factory_only)]
impl SubAgentWorkflow {
    /// Runs the agent, and returns the record of the call's result.
    #[run(name = "neuron_sub_agent")]
    pub async fn run(
        ctx: &mut WorkflowContext<Self>,
        input: Json<ToolRequest>,
    ) -> WorkflowResult<Json<StepRecord<ToolOutput>>> {
        let read = input.read();
        let request =
            read.map_err(|error| failed("Input", format!("the call cannot be read: {error}")))?;
        let Some(scope) = request.effect_scope.clone() else {
            return Err(failed("Input", "the call has no scope of its effect keys".into()));
        };
        let (place, options) = ctx.state(|state| {
            let place = request.place(Some(&*state.agent), state.tools.clone());
            (place, state.options.clone())
        });
        let version = input.read_as::<Pin>().and_then(|pin| pin.agent_version.check(&options));
        let (version, (tools, tool_ctx)) = match version.and_then(|version| Ok((version, place?))) {
            Ok(begun) => begun,
            // The check runs before the first command, as in `AgentWorkflow`.
            Err(error) => stall(ctx, &error),
        };
        let durability = TemporalDurableContext::new(ctx, options.clone());
        let name = &request.call.name;
        let agents = request.agents.iter().chain([name]).cloned().collect();
        let durability = durability.pinned_to(version).nested(agents, scope, &tool_ctx);
        let durability = Durability::new(durability);
        let run = async { tools.call(&request.call, &tool_ctx, Some(durability)).await };
        let ran = with_own_wakes(AssertUnwindSafe(run).catch_unwind()).await;
        // Middleware may have caught the panic of `stall` and returned a result. The task must fail all the same.
        if let Some(reason) = ctx.state(|state| state.mailbox.stalled().map(str::to_owned)) {
            resume_unwind(Box::new(reason));
        }
        let ran = ran.map_err(|panic| {
            let message = message(&*panic);
            tracing::error!(message, "the code around an agent panicked; its call ends");
            failed("Panic", "the code around the agent panicked".into())
        })?;
        // An error means that the call was cancelled, so its responses are not needed.
        let _ = keep_answers(ctx).await;
        if ctx.cancellation_token().is_cancelled() {
            return Err(WorkflowTermination::cancelled());
        }
        if let Some(text) = ctx.state_mut(|state| state.mailbox.take_failure()) {
            return Err(failed("Durable", text));
        }
        let now = ctx.workflow_time().map(DateTime::<Utc>::from).unwrap_or_default();
        let record = StepRecord::of_tool(ran, tool_ctx.usage.total(), now);
        let json = record.to_json_within(name, options.record_limit());
        Ok(Json::from_bytes(json.map_err(|error| failed("Outcome", error.to_string()))?))
    }

    /// Receives the answer of the outermost run to a claim of an effect.
    #[signal(name = "neuron_signal")]
    pub(crate) fn deliver(&mut self, _ctx: &mut SyncWorkflowContext<Self>, signal: SignalInput) {
        self.mailbox.receive(&signal);
    }
}

impl fmt::Debug for SubAgentWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgentWorkflow")
            .field("options", &self.options)
            .field("mailbox", &self.mailbox)
            .finish_non_exhaustive()
    }
}
