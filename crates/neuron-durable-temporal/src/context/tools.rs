//! Runs batches of tool calls as activities and child workflows.

use std::pin::pin;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use neuron_durable::{StepRecord, ToolRequest, recorded_digest};
use neuron_types::{
    ActivityOptions, DurableError, ToolEffect, ToolError, ToolInvocation, ToolOutput, UsageMeter,
};
use send_wrapper::SendWrapper;
use sha2::{Digest, Sha256};
use temporalio_common::error::ChildWorkflowStartError;
use temporalio_sdk::{ActivityExecutionError, ChildWorkflowOptions, ParentClosePolicy, workflows};

use super::TemporalDurableContext;
use crate::activities::{AgentActivities, BROKEN};
use crate::effects::{Claim, EffectMessage};
use crate::json::Json;
use crate::outcome::cut;
use crate::sub_agent::{Pin, PinnedCall, SubAgentWorkflow};
use crate::{HasMailbox, retry};

/// Maximum total size in bytes of the tool calls that start together (512 KiB). A larger batch runs in parts, one after
/// another. The calls of a part are sent in one message, and the server accepts messages of up to 4 MiB.
const MOST_AT_ONCE: usize = 1 << 19;

/// Maximum length of a workflow's id in bytes.
const LONGEST_ID: usize = 1000;

/// A tool call that is prepared for its activity or child workflow.
struct Call {
    name: String,
    effect: ToolEffect,
    /// Set if the call runs as a child workflow.
    is_agent: bool,
    meter: UsageMeter,
    /// Id of the activity.
    id: String,
    /// Size of the call in bytes, including the decision of a call that resumes after an approval.
    ///
    /// The working directory and the environment are not counted, because they differ between workers. This size
    /// decides which calls start together, so it must be the same on replay.
    length: usize,
    /// The input of the activity, or the error that prevents the call.
    request: Result<Json<ToolRequest>, DurableError>,
    /// The effect that the call wants to carry out. `None` if the call has no effect key.
    claim: Option<Claim>,
}

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Runs the calls of a batch concurrently, in parts if the batch is large. Returns the results in call order.
    pub(super) async fn run_tools(
        &self,
        batch: Vec<ToolInvocation>,
        mut options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        if self.begin_step().is_err() {
            return batch.iter().map(|_| Err(DurableError::Cancelled)).collect();
        }
        options.heartbeat_timeout.get_or_insert(self.options.lease());
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        let mut results = Vec::with_capacity(batch.len());
        let mut part = Vec::new();
        let mut bytes = 0;
        for (position, invocation) in batch.into_iter().enumerate() {
            let call = self.prepare(&invocation, &options, number, position);
            let length = if call.request.is_ok() { call.length } else { 0 };
            if bytes + length > MOST_AT_ONCE && !part.is_empty() {
                results.extend(self.run_part(std::mem::take(&mut part), &options).await);
                bytes = 0;
            }
            bytes += length;
            part.push(call);
        }
        results.extend(self.run_part(part, &options).await);
        results
    }

    /// Prepares a call and the input of its activity. The id of the activity contains `batch`, the number of the batch
    /// in this execution, and `position`, the call's index in the batch.
    fn prepare(
        &self,
        invocation: &ToolInvocation,
        options: &ActivityOptions,
        batch: usize,
        position: usize,
    ) -> Call {
        let ToolInvocation { call, ctx, effect, is_agent, .. } = invocation;
        let mut request = ToolRequest::new(invocation, options.clone(), &self.options.environment);
        let effect_id = self.scope.effect(invocation);
        let refusal = self.scope.refusal(effect_id.as_ref());
        if *is_agent {
            request.effect_scope = Some(self.scope.inside(effect_id.clone()));
        }
        let measured = Json::new(&(&request.call, &request.resumed)).map(|json| json.len());
        let length = measured.as_ref().copied().unwrap_or_default();
        let request = measured.and_then(|length| {
            let limit = self.options.record_limit();
            if length <= limit {
                return self.input(&request, *is_agent);
            }
            let text = format!(
                "the call of `{}` takes {length} bytes in the history, where a record may have {limit}",
                call.name
            );
            Err(DurableError::Tool(ToolError::InvalidInput(text)))
        });
        let id = recorded_digest(invocation)
            .map(|digest| format!("tool/{batch}/{position}/{}/{digest}", call.name));
        let (id, request) = match refusal.map_or(id, Err) {
            Ok(id) => (id, request),
            Err(error) => (String::new(), Err(error)),
        };
        let claim = invocation.effect_key.clone().zip(effect_id).map(|(key, _)| Claim {
            tool: call.name.clone(),
            key,
            workflow: self.ctx.info().workflow_id().to_owned(),
            call: id.clone(),
            repeats: effect.may_repeat(),
        });
        Call {
            name: call.name.clone(),
            effect: *effect,
            is_agent: *is_agent,
            meter: ctx.usage.clone(),
            id,
            length,
            request,
            claim,
        }
    }

    /// Returns the input of the activity or child workflow of a call.
    fn input(
        &self,
        request: &ToolRequest,
        is_agent: bool,
    ) -> Result<Json<ToolRequest>, DurableError> {
        if !is_agent || self.agent_version.is_none() {
            return Json::new(request);
        }
        let pin = Pin { agent_version: self.agent_version.clone() };
        Json::new(&PinnedCall { request, pin }).map(Json::cast)
    }

    /// Runs all calls of a part of a batch concurrently. Returns the results in call order.
    async fn run_part(
        &self,
        calls: Vec<Call>,
        options: &ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let has_agents = calls.iter().any(|call| call.is_agent);
        let running = SendWrapper::new(async {
            let calls = calls.into_iter().map(|call| self.run_claimed(call, options));
            // The SDK's `join_all` polls in a fixed order, which a replay repeats.
            let calls = workflows::join_all(calls.collect::<Vec<_>>());
            if !has_agents || self.is_nested() {
                return calls.await;
            }
            let mut calls = pin!(calls.fuse());
            let mut answering = pin!(self.answer_claims().fuse());
            workflows::select! {
                results = calls => results,
                never = answering => match never {},
            }
        });
        running.await
    }

    /// Runs a call. If it has an effect key, it claims the effect first.
    async fn run_claimed(
        &self,
        mut call: Call,
        options: &ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let Some(claim) = call.claim.take().filter(|_| call.request.is_ok()) else {
            return self.run_tool(call, options).await;
        };
        if let Some(output) = self.claim(&claim).await? {
            return Ok(output);
        }
        let result = self.run_tool(call, options).await;
        self.end_effect(claim, &result).await?;
        result
    }

    /// Runs a call as an activity or, if it is the call of an agent, as a child workflow.
    async fn run_tool(
        &self,
        call: Call,
        options: &ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let Call { name, effect, is_agent, meter, id, request, .. } = call;
        let request = request?;
        if is_agent {
            return self.run_agent(name, id, request, &meter).await;
        }
        let policy = match effect {
            ToolEffect::Pure | ToolEffect::Idempotent => {
                retry::server_policy(options.retry_policy.as_ref())
            }
            _ => retry::once(),
        };
        let running = {
            let mut options = super::activity_options(options, id, policy);
            options.summary = Some(name.clone());
            SendWrapper::new(self.ctx.execute_activity(AgentActivities::run_tool, request, options))
        };
        let record: Result<Json<StepRecord<ToolOutput>>, _> = running.await;
        self.answers_are_kept();
        match record {
            Ok(record) => record.read()?.into_tool(&meter),
            Err(ActivityExecutionError::Cancelled(_)) => Err(DurableError::Cancelled),
            Err(error) if is_broken(&error) => {
                Err(DurableError::ActivityFailed(super::innermost(&error)))
            }
            Err(error) => match effect {
                ToolEffect::Pure | ToolEffect::Idempotent => {
                    let text = format!(
                        "no worker finished the call of `{name}`: {}",
                        super::innermost(&error)
                    );
                    Err(DurableError::Tool(ToolError::ExecutionFailed(text.into())))
                }
                // The worker was lost, so nobody knows if the tool had its effect.
                _ => self.options.durable.unknown_outcome.of_call(&name),
            },
        }
    }
}

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Runs the call of an agent as a child workflow.
    async fn run_agent(
        &self,
        name: String,
        id: String,
        request: Json<ToolRequest>,
        meter: &UsageMeter,
    ) -> Result<ToolOutput, DurableError> {
        let workflow_id = child_id(self.ctx.info().workflow_id(), &id);
        let child = {
            let options = ChildWorkflowOptions::builder()
                .workflow_id(workflow_id.clone())
                .parent_close_policy(ParentClosePolicy::RequestCancel)
                .static_summary(name.clone())
                .build();
            SendWrapper::new(self.ctx.start_child_workflow(SubAgentWorkflow::run, request, options))
        };
        let started = match child.await {
            Ok(started) => started,
            Err(ChildWorkflowStartError::Cancelled(_)) => return Err(DurableError::Cancelled),
            Err(error) => return Err(DurableError::ActivityFailed(error.to_string())),
        };
        self.answers_are_kept();
        let ended = SendWrapper::new(started.result()).await;
        if ended.is_err() && self.is_nested() {
            let stopped = EffectMessage::Stopped { workflow: workflow_id };
            self.tell_outermost(&stopped).await?;
        } else if !self.is_nested() {
            // Calls inside the agent that have not ended do not end any more.
            self.ctx.state_mut(|state| state.mailbox_mut().effects_mut().stop(&workflow_id));
        }
        match ended {
            Ok(record) => {
                let record: Json<StepRecord<ToolOutput>> = record;
                record.read()?.into_tool(meter)
            }
            Err(_) if self.ctx.cancellation_token().is_cancelled() => Err(DurableError::Cancelled),
            Err(error) => {
                let text = format!("the agent `{name}` ended without a result: {error}");
                Err(DurableError::ActivityFailed(text))
            }
        }
    }
}

/// Returns the id of the child workflow for a tool call. If the id would be too long for the server, it is shortened
/// and ends with a digest.
fn child_id(parent: &str, call: &str) -> String {
    let mut id = format!("{parent}/{call}");
    if id.len() > LONGEST_ID {
        let digest = Sha256::digest(&id);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        cut(&mut id, LONGEST_ID.saturating_sub(digest.len() + 1));
        id.push('/');
        id.push_str(&digest);
    }
    id
}

/// Returns `true` if an activity failed because its input could not be read or its result could not be stored.
fn is_broken(error: &ActivityExecutionError) -> bool {
    match error {
        ActivityExecutionError::Serialization(_) => true,
        error => super::type_name(error) == Some(BROKEN),
    }
}
