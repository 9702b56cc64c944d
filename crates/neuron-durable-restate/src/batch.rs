//! Runs the tool calls of a batch as invocations, with the same requests on every replay ([`Batch`]).

use neuron_durable::{
    EffectScope, StepRecord, ToolRequest, check_tool_call, effect_of, recorded_digest,
};
use neuron_types::{ActivityOptions, DurableError, ToolInvocation, ToolOutput, stored_json};
use restate_sdk::context::{ContextClient, RequestTarget};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::Journal;
use crate::payload::{Stored, Written};
use crate::running::RunningTools;

/// Name of the handler that runs a tool which is not an agent.
pub(crate) const TOOL: &str = "tool";

/// Name of the handler that runs a tool which is an agent, and journals the agent's steps.
pub(crate) const AGENT: &str = "agent";

/// The requests of a batch of tool calls, as the journal stores them.
///
/// A request contains the environment and the working directory, which may differ on replay. Restate would report the
/// difference, so a replay uses the stored requests.
#[derive(Serialize, Deserialize)]
struct Plan {
    /// Time at which the batch began, in milliseconds since 1970.
    at: i64,
    calls: Vec<PlannedCall>,
}

/// The stored request of one call.
#[derive(Serialize, Deserialize)]
struct PlannedCall {
    /// Digest of the call, which is compared on replay.
    digest: String,
    /// The request without the arguments of the call. A replay takes the arguments from the run.
    request: ToolRequest,
    /// `true` if the called tool is an agent. Only stored for an agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_agent: bool,
}

/// The parameters of a batch of tool calls, except the calls themselves.
pub(crate) struct Batch<'s> {
    /// Name of the step that stores the plan, for example `tools/0`.
    pub(crate) key: String,
    /// Name of the service that runs the tools.
    pub(crate) service: &'s str,
    /// Names of the environment variables that are passed to the tools.
    pub(crate) environment: &'s [String],
    pub(crate) options: ActivityOptions,
    /// The scope of the effect keys of the calls.
    pub(crate) scope: &'s EffectScope,
    /// The tool calls that run in this process, to cancel them with the run.
    pub(crate) running: &'s RunningTools,
}

impl Batch<'_> {
    /// Runs each call as a separate invocation. The invocations run concurrently. They are started, and their results
    /// are returned, in call order.
    ///
    /// Calls of one outermost run with the same effect key have the same idempotency key for Restate, so they share one
    /// invocation. If it had no effect, each other call tries the next invocation with this key.
    pub(crate) async fn run(
        self,
        journal: &Journal<'_, '_>,
        invocations: Vec<ToolInvocation>,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let requests = match self.requests(journal, &invocations).await {
            Ok(requests) => requests,
            Err(error) => return invocations.iter().map(|_| Err(error.again())).collect(),
        };
        let keys: Vec<String> =
            requests.iter().map(|(_, request)| request.idempotency_key.clone()).collect();
        let begin = |handler: &str, request: ToolRequest, effect: Option<String>| {
            journal.count(1);
            let target = RequestTarget::service(self.service, handler);
            let request = journal.context().request::<_, Written>(target, Stored(request));
            match effect {
                Some(effect) => request.idempotency_key(effect).call(),
                None => request.call(),
            }
        };
        let mut calls = Vec::with_capacity(requests.len());
        for ((handler, request), invocation) in requests.into_iter().zip(&invocations) {
            let effect = self.scope.effect(invocation);
            // Only a call with an effect may need its request again.
            let again = effect.as_ref().map(|_| request.clone());
            let call = match self.scope.refusal(effect.as_ref()) {
                Some(refusal) => Err(refusal),
                None => Ok(begin(handler, request, effect.clone())),
            };
            calls.push((call, handler, again.zip(effect)));
        }
        let mut results = Vec::with_capacity(calls.len());
        for ((call, handler, shared), invocation) in calls.into_iter().zip(&invocations) {
            let mut call = match call {
                Ok(call) => call,
                Err(refusal) => {
                    results.push(Err(refusal));
                    continue;
                }
            };
            let mut attempt = 0;
            let result = loop {
                // A cancelled run does not wait for calls that are still running.
                let result = match journal.check() {
                    Ok(()) => call.await.map_err(|error| journal.failed(&error)),
                    Err(cancelled) => Err(cancelled),
                };
                if let Err(DurableError::Cancelled) = result {
                    keys.iter().for_each(|key| self.running.cancel(key));
                }
                let record = result.and_then(|Written(json)| {
                    journal.compared(StepRecord::<ToolOutput>::from_json(&json))
                });
                let record = match record {
                    Ok(record) => record,
                    Err(error) => break Err(error),
                };
                journal.note(record.at);
                let is_foreign = |request: &ToolRequest| {
                    record.call.as_ref().is_some_and(|call| *call != request.call_id())
                };
                let Some((request, effect)) =
                    shared.as_ref().filter(|(request, _)| is_foreign(request))
                else {
                    break journal.compared(record.into_tool(&invocation.ctx.usage));
                };
                // The result of another call, which has counted its tokens itself.
                let result = journal.compared(record.into_tool_uncounted());
                match effect_of(&invocation.call.name, &result) {
                    Some(Some(_)) => break result,
                    Some(None) if !invocation.effect.may_repeat() => break result,
                    _ => {
                        attempt += 1;
                        let effect = format!("{effect}/{attempt}");
                        call = begin(handler, request.clone(), Some(effect));
                    }
                }
            };
            results.push(result);
        }
        results
    }

    /// Returns the handler name and the request of each call. On replay, reads both from the journal.
    async fn requests(
        &self,
        journal: &Journal<'_, '_>,
        invocations: &[ToolInvocation],
    ) -> Result<Vec<(&'static str, ToolRequest)>, DurableError> {
        let plan = async {
            let planned = |invocation: &ToolInvocation| {
                let (digest, options) = (recorded_digest(invocation)?, self.options.clone());
                let mut request = ToolRequest::new(invocation, options, self.environment);
                request.call.input = Value::Null;
                let effect = self.scope.effect(invocation);
                request.effect_scope = match invocation.is_agent {
                    true => Some(self.scope.inside(effect)),
                    false => effect.map(|_| self.scope.clone()),
                };
                Ok(PlannedCall { digest, request, is_agent: invocation.is_agent })
            };
            let calls: Result<_, DurableError> = invocations.iter().map(planned).collect();
            let plan = Plan { at: chrono::Utc::now().timestamp_millis(), calls: calls? };
            let mut json = Vec::new();
            stored_json::write(&mut json, &plan)
                .map_err(|error| DurableError::Other(Box::new(error)))?;
            Ok(json)
        };
        let json = journal.step(&self.key, plan).await?;
        let plan = stored_json::read::<Plan>(&json).map_err(|error| {
            let text = format!("the record of step {} cannot be read: {error}", self.key);
            DurableError::Other(text.into())
        });
        let plan = journal.compared(plan)?;
        journal.note(plan.at);
        journal.compared(self.check(&plan.calls, invocations))?;
        let filled = |(call, invocation): (PlannedCall, &ToolInvocation)| {
            let mut request = call.request;
            request.call.input = invocation.call.input.clone();
            (if call.is_agent { AGENT } else { TOOL }, request)
        };
        Ok(plan.calls.into_iter().zip(invocations).map(filled).collect())
    }

    /// Compares the calls with the stored requests of the batch.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if the number of calls, a tool's name or the arguments of a call differ.
    fn check(
        &self,
        planned: &[PlannedCall],
        invocations: &[ToolInvocation],
    ) -> Result<(), DurableError> {
        let key = &self.key;
        if planned.len() != invocations.len() {
            let calls = |count: usize| format!("{count} calls");
            let (expected, got) = (calls(planned.len()), calls(invocations.len()));
            let expected = format!("{key} with {expected}");
            return Err(DurableError::NonDeterminism { expected, got });
        }
        for (index, (planned, invocation)) in planned.iter().zip(invocations).enumerate() {
            let recorded = (planned.request.call.name.as_str(), planned.digest.as_str());
            check_tool_call(&format!("{key}/{index}"), recorded, invocation)?;
        }
        Ok(())
    }
}
