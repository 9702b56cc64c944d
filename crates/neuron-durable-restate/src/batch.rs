//! The tool calls of a batch, whose requests are the same on every replay.

use neuron_runtime::{StepRecord, ToolRequest, check_tool_call, recorded_digest};
use neuron_types::{ActivityOptions, DurableError, ToolInvocation, ToolOutput, stored_json};
use restate_sdk::context::{ContextClient, RequestTarget};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::Journal;
use crate::payload::{Stored, Written};
use crate::running::RunningTools;

/// The handler of the service that runs a tool.
pub(crate) const TOOL: &str = "tool";

/// The handler of the service that runs a tool that is an agent, whose steps it journals.
pub(crate) const AGENT: &str = "agent";

/// A batch as it was begun. What may differ where a replay runs, the environment and the folder, is
/// taken from here; Restate would compare it.
#[derive(Serialize, Deserialize)]
struct Plan {
    /// When it was made, in milliseconds since 1970.
    at: i64,
    calls: Vec<PlannedCall>,
}

#[derive(Serialize, Deserialize)]
struct PlannedCall {
    digest: String,
    /// Without the arguments, which follow from the run.
    request: ToolRequest,
    /// True if the steps of the call are journaled. Plans of older releases do not have the field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_agent: bool,
}

/// The parts that a batch needs beside its calls.
pub(crate) struct Batch<'s> {
    pub(crate) key: String,
    pub(crate) service: &'s str,
    pub(crate) environment: &'s [String],
    pub(crate) options: ActivityOptions,
    pub(crate) running: &'s RunningTools,
}

impl Batch<'_> {
    /// Runs the calls. Each is an invocation of its own. They are started and awaited in call order.
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
        let begin = |(handler, request): (&str, ToolRequest)| {
            journal.count(1);
            let target = RequestTarget::service(self.service, handler);
            let request = journal.context().request::<_, Written>(target, Stored(request));
            request.call()
        };
        let calls: Vec<_> = requests.into_iter().map(begin).collect();
        let mut results = Vec::with_capacity(calls.len());
        for (call, invocation) in calls.into_iter().zip(&invocations) {
            // Once cancelled, what still runs is not waited for.
            let result = match journal.check() {
                Ok(()) => call.await.map_err(|error| journal.failed(&error)),
                Err(cancelled) => Err(cancelled),
            };
            if let Err(DurableError::Cancelled) = result {
                keys.iter().for_each(|key| self.running.cancel(key));
            }
            results.push(result.and_then(|Written(json)| {
                let record = journal.compared(StepRecord::<ToolOutput>::from_json(&json))?;
                journal.note(record.at);
                journal.compared(record.into_tool(&invocation.ctx.usage))
            }));
        }
        results
    }

    /// The requests of the calls, as they were when the batch was begun, with the handlers that carry them out.
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

    /// Compares the calls with the calls of the batch as it was started.
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
