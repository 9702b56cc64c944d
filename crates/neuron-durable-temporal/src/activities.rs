//! The activities that call the model and the tools ([`AgentActivities`]).

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures::FutureExt;
use neuron_durable::{Asked, StepRecord, ToolRequest};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, AgentPath, AgentTool, BoxedProvider, CacheControl, CompletionRequest,
    CompletionResponse, DurableAgent, DurableError, Provider, ProviderError, RequestRef, ToolDyn,
    ToolError, ToolOutput,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use temporalio_macros::activities;
use temporalio_sdk::ApplicationFailure;
use temporalio_sdk::activities::{ActivityContext, ActivityError};

use crate::heartbeat::{Heartbeat, check_task, while_held};
use crate::json::Json;
use crate::panic::message;
use crate::{TemporalOptions, retry};

/// Time by which the server's timeout for an attempt exceeds the worker's own timeout.
///
/// The worker's timeout therefore expires first, and the server's timeout expires only if the worker is lost.
pub(crate) const MARGIN: Duration = Duration::from_secs(5);

/// Time that a tool has to end after its call was cancelled.
const GRACE: Duration = Duration::from_secs(5);

/// Type name of the Temporal failure of an activity that could not start, or whose result cannot be stored. The server
/// does not retry an activity with this failure.
pub(crate) const BROKEN: &str = "NeuronActivity";

/// The input of an activity that calls the model on any worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct ModelRequest {
    pub(crate) request: CompletionRequest,
    /// Cache control of the request, which is not part of the serialised request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<CacheControl>,
    pub(crate) options: ActivityOptions,
    /// Summary of the request, which the history stores beside the response.
    pub(crate) asked: Asked,
    /// Names of the nested agents from the outermost to the calling agent. Empty for a call of the outer agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) agents: Vec<String>,
}

/// The input of a local activity that calls the model. It does not contain the request, which stays in the memory of
/// this process.
///
/// `ticket` is the number under which [`LocalCalls`](crate::local_calls::LocalCalls) stores the request.
#[derive(Serialize, Deserialize)]
pub(crate) struct LocalModelRequest {
    pub(crate) ticket: u64,
}

/// The activities of an agent, which call its provider and its tools.
///
/// [`AgentWorker`](crate::AgentWorker) registers them. A custom worker registers them with
/// `WorkerOptions::register_activities`. Their options must be a clone of the options of the worker's workflows.
pub struct AgentActivities {
    provider: BoxedProvider,
    tools: Arc<ToolRegistry>,
    agent: Option<Arc<dyn DurableAgent>>,
    options: TemporalOptions,
}

impl AgentActivities {
    /// Creates activities that call this provider and these tools.
    #[must_use]
    pub fn new(
        provider: impl Provider + 'static,
        tools: impl Into<Arc<ToolRegistry>>,
        options: TemporalOptions,
    ) -> Self {
        let (provider, tools) = (BoxedProvider::new(provider), tools.into());
        Self { provider, tools, agent: None, options }
    }

    /// Sets the agent whose hooks and permissions also apply to agents inside tool calls. Pass the agent of the
    /// workflow. By default, agents inside tool calls inherit no hooks or permissions.
    #[must_use]
    pub fn with_agent(self, agent: Arc<dyn DurableAgent>) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// Returns the provider of the agent that makes a model call. `agents` are the names of the nested agents, from the
    /// outermost nested agent to the calling agent.
    ///
    /// Returns an error if the worker's tools do not contain these agents.
    fn provider_of(&self, agents: &[String]) -> Result<BoxedProvider, DurableError> {
        let found = AgentPath::find(agents, self.tools.clone(), |_| {})?;
        let agent = found.as_deref().and_then(ToolDyn::agent);
        Ok(agent.map_or_else(|| self.provider.clone(), AgentTool::provider))
    }

    /// Calls the model once, and returns the record of the response. Returns a retryable failure if the call failed and
    /// the retry policy allows another attempt.
    async fn attempt(
        &self,
        agents: &[String],
        request: RequestRef<'_>,
        options: &ActivityOptions,
        asked: Asked,
        ctx: &ActivityContext,
    ) -> Result<Json<StepRecord<CompletionResponse>>, ActivityError> {
        let provider = self.provider_of(agents).map_err(|error| broken(&error))?;
        let limit = options.start_to_close_timeout;
        // Without the catch, the server would consider the worker lost, and repeat the call for each lost worker.
        let call = AssertUnwindSafe(async { provider.complete_ref(request).await });
        let call = tokio::time::timeout(limit, call.catch_unwind().map(unless_panicked));
        let Some(answered) = unless_cancelled(while_held(ctx, call), ctx).await else {
            return Err(ActivityError::cancelled());
        };
        let answered =
            answered.map_err(|error| ActivityError::application(retry::lost_activity(&error)))?;
        let answered = answered.unwrap_or(Err(ProviderError::Timeout(limit)));
        if let Err(error) = &answered {
            let (policy, attempt) = (options.retry_policy.as_ref(), ctx.info().attempt);
            if let Some(again) = retry::another_model_call(error, policy, attempt) {
                tracing::debug!(%error, attempt, "a call of the model failed; it is made again");
                return Err(ActivityError::application(again));
            }
        }
        let record = StepRecord::of_llm(answered, Utc::now()).with_asked(asked);
        let json =
            record.to_json_within(self.options.record_limit()).map_err(|error| broken(&error))?;
        Ok(Json::from_bytes(json))
    }
}

#[activities]
impl AgentActivities {
    /// Returns `value`, so that the history stores it as the activity's result. Returns an error if the value is longer
    /// than the record limit.
    ///
    /// The activity checks the limit, because the workflow may compute another value on replay.
    #[activity(name = "neuron_record")]
    pub(crate) async fn record(
        self: Arc<Self>,
        ctx: ActivityContext,
        value: Json<Value>,
    ) -> Result<Json<Value>, ActivityError> {
        let (length, limit) = (value.len(), self.options.record_limit());
        if length <= limit {
            return Ok(value);
        }
        let text = format!(
            "the {} takes {length} bytes in the history, where a record may have {limit}",
            ctx.info().activity_id
        );
        Err(broken(&DurableError::Other(text.into())))
    }

    /// Calls the model with a request that the workflow has stored in the memory of this process.
    #[activity(name = "neuron_call_model_here")]
    pub(crate) async fn call_model_here(
        self: Arc<Self>,
        ctx: ActivityContext,
        request: Json<LocalModelRequest>,
    ) -> Result<Json<StepRecord<CompletionResponse>>, ActivityError> {
        let LocalModelRequest { ticket } = request.read().map_err(|error| broken(&error))?;
        let Some(call) = self.options.local_calls.get(ticket) else {
            let text = "the request is not here: the activities and the workflow need clones of the \
                        same `TemporalOptions`";
            return Err(broken(&DurableError::Other(text.into())));
        };
        if let Err(wait) = check_task(&ctx, call.task_started).await {
            return Err(ActivityError::application(retry::lost_task(wait)));
        }
        let request = RequestRef { cache: call.cache, ..call.request.view() };
        self.attempt(&call.agents, request, &call.options, call.asked.clone(), &ctx).await
    }

    /// Calls the model with the request in the activity's input.
    #[activity(name = "neuron_call_model")]
    pub(crate) async fn call_model(
        self: Arc<Self>,
        ctx: ActivityContext,
        request: Json<ModelRequest>,
    ) -> Result<Json<StepRecord<CompletionResponse>>, ActivityError> {
        let ModelRequest { request, cache, options, asked, agents } =
            request.read().map_err(|error| broken(&error))?;
        let _heartbeat = Heartbeat::start(&ctx);
        let request = RequestRef { cache, ..request.view() };
        self.attempt(&agents, request, &options, asked, &ctx).await
    }

    /// Runs a tool, and returns the record of its result. Tools that are agents run as child workflows instead.
    #[activity(name = "neuron_run_tool")]
    pub(crate) async fn run_tool(
        self: Arc<Self>,
        ctx: ActivityContext,
        request: Json<ToolRequest>,
    ) -> Result<Json<StepRecord<ToolOutput>>, ActivityError> {
        let request = request.read().map_err(|error| broken(&error))?;
        let _heartbeat = Heartbeat::start(&ctx);
        let found = request.place(self.agent.as_deref(), self.tools.clone());
        let (tools, tool_ctx) = found.map_err(|error| broken(&error))?;
        let token = tool_ctx.cancellation_token.clone();
        // If this future is dropped early, the guard cancels the token for tasks that the tool has spawned.
        let _guard = token.clone().drop_guard();
        let limit = request.options.start_to_close_timeout;
        let name = &request.call.name;
        let run = async {
            let run = tools.call(&request.call, &tool_ctx, None);
            let Ok(ran) = tokio::time::timeout(limit, run).await else {
                let text = format!("`{name}` exceeded its time limit of {limit:?}");
                let error = std::io::Error::new(std::io::ErrorKind::TimedOut, text);
                return Err(ToolError::ExecutionFailed(Box::new(error)));
            };
            ran
        };
        let mut run = std::pin::pin!(while_held(&ctx, run));
        let Some(ran) = unless_cancelled(run.as_mut(), &ctx).await else {
            token.cancel();
            let _ = tokio::time::timeout(GRACE, run).await;
            return Err(ActivityError::cancelled());
        };
        let ran = ran.map_err(|error| ActivityError::application(retry::lost_activity(&error)))?;
        if let Err(error) = &ran {
            let (policy, attempt) = (request.options.retry_policy.as_ref(), ctx.info().attempt);
            if let Some(again) = retry::another_tool_call(error, request.effect, policy, attempt) {
                tracing::debug!(tool = name, %error, attempt, "a tool failed; it is run again");
                return Err(ActivityError::application(again));
            }
        }
        let record = StepRecord::of_tool(ran, tool_ctx.usage.total(), Utc::now());
        let json = record
            .to_json_within(name, self.options.record_limit())
            .map_err(|error| broken(&error))?;
        Ok(Json::from_bytes(json))
    }
}

impl fmt::Debug for AgentActivities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentActivities")
            .field("tools", &self.tools)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Waits for `work`. Returns `None` if the server cancels the activity first.
async fn unless_cancelled<T>(work: impl Future<Output = T>, ctx: &ActivityContext) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = ctx.cancelled() => None,
    }
}

/// Converts a panic of the provider to an error. The panic message is only logged, because it may contain secrets.
fn unless_panicked<T>(
    called: std::thread::Result<Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    called.unwrap_or_else(|panic| {
        let message = message(&*panic);
        tracing::error!(message, "the provider panicked; the call has failed");
        Err(ProviderError::Other("the provider panicked".into()))
    })
}

/// Creates a failure that is not retried, for an error that another attempt would not fix.
fn broken(error: &DurableError) -> ActivityError {
    let failure = ApplicationFailure::builder(std::io::Error::other(error.to_string()))
        .type_name(BROKEN.to_owned())
        .non_retryable(true)
        .build();
    ActivityError::application(failure)
}
