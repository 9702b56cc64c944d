//! A durable context with the journal of a Restate invocation ([`RestateDurableContext`]).

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use neuron_durable::{
    EffectKeys, EffectScope, LocalDurableContext, RequestLog, StepRecord, execute_as_batch,
};
use neuron_types::{
    ActivityOptions, AgentResult, AgentTool, ApprovalDecisions, BoxedProvider, CompletionRequest,
    CompletionResponse, DeltaSink, DurableContext, DurableError, KnownEffect, LoopError,
    PendingApproval, Provider, ProviderError, RequestRef, ToolCall, ToolContext, ToolInvocation,
    ToolOutput, ToolSet, parse_signal, stored_json,
};
use restate_sdk::context::Context;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::RestateOptions;
use crate::batch::Batch;
use crate::continuation::Continuation;
use crate::host::Host;
use crate::inbox::{Inbox, Signal};
use crate::journal::Journal;
use crate::pin::Pin;
use crate::register::Register;
use crate::running::RunningTools;

/// A [`DurableContext`] that stores its steps in the journal of a Restate invocation.
///
/// An [`AgentService`](crate::AgentService) opens a context for each invocation of a run, and hosts the tools that the
/// context calls. The [crate's page](crate) describes the steps.
///
/// Await each future of the context to its end. A future may be dropped early only if the invocation ends too.
pub struct RestateDurableContext<'a, 'ctx, P> {
    pub(crate) journal: Journal<'a, 'ctx>,
    /// Local context that makes the model calls, with their retries and timeouts.
    local: LocalDurableContext<P>,
    /// The declarations of the tools. The calls themselves run in invocations of the service.
    tools: Arc<dyn ToolSet>,
    running: RunningTools,
    /// Name of the service that runs the tools.
    pub(crate) service: String,
    options: Arc<RestateOptions>,
    pub(crate) run_id: String,
    pub(crate) inbox: Inbox,
    continuation: Continuation<'ctx>,
    requests: RequestLog,
    pub(crate) effects: Arc<EffectKeys>,
    /// The scope of the effect keys, which agents inside tool calls share.
    pub(crate) scope: EffectScope,
    /// Set if the run belongs to an agent inside a tool call.
    pub(crate) is_nested: bool,
    /// Number of model calls in this invocation, for the names of their steps.
    llm_calls: AtomicUsize,
    /// Number of tool batches in this invocation, for the names of their steps.
    batches: AtomicUsize,
}

/// The reason for which Restate invokes the service.
pub(crate) enum Beginning {
    /// Begins a run.
    Run,
    /// Continues a run of an earlier invocation.
    Resume { run_id: String, signals: Vec<Signal>, agent_version: Option<String> },
    /// The invocation runs an agent that was called as a tool.
    Nested,
}

impl<'a, 'ctx, P: Provider> RestateDurableContext<'a, 'ctx, P> {
    /// Opens the journal of an invocation for a run of this service.
    pub(crate) async fn open(
        ctx: &'a Context<'ctx>,
        host: &Host<P>,
        beginning: Beginning,
    ) -> Result<Self, DurableError> {
        let options = &host.options;
        let (run_id, signals, pinned, is_nested) = match beginning {
            Beginning::Run => (None, Vec::new(), None, false),
            Beginning::Resume { run_id, signals, agent_version } => {
                (Some(run_id), signals, agent_version, false)
            }
            Beginning::Nested => (None, Vec::new(), None, true),
        };
        let run_id = run_id.unwrap_or_else(|| ctx.invocation_id().to_owned());
        let (pin, register) = match is_nested {
            true => (Pin::default(), None),
            false => (
                Pin::new(options.durable.agent_version.clone(), options.durable.changed_agent),
                Some(Register::new(&host.name, &run_id)),
            ),
        };
        let journal = Journal::open(ctx, pin, pinned, register).await?;
        Ok(Self {
            journal,
            local: LocalDurableContext::new(host.provider.clone(), host.tools.clone()),
            tools: host.tools.clone(),
            running: host.running.clone(),
            service: host.name.clone(),
            options: host.options.clone(),
            run_id,
            inbox: Inbox::new(signals),
            continuation: Continuation::default(),
            requests: RequestLog::new(host.options.durable.changed_agent),
            effects: Arc::default(),
            scope: EffectScope::default(),
            is_nested,
            llm_calls: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
        })
    }

    /// Converts this context to the context of an agent inside a tool call, with that agent's provider and tools.
    pub(crate) fn nested(
        self,
        agent: &dyn AgentTool,
    ) -> RestateDurableContext<'a, 'ctx, BoxedProvider> {
        let (provider, tools) = (Arc::new(agent.provider()), agent.tools());
        RestateDurableContext {
            journal: self.journal,
            local: LocalDurableContext::new(provider, tools.clone()),
            tools,
            running: self.running,
            service: self.service,
            options: self.options,
            run_id: self.run_id,
            inbox: self.inbox,
            continuation: self.continuation,
            requests: self.requests,
            effects: self.effects,
            scope: self.scope,
            is_nested: self.is_nested,
            llm_calls: self.llm_calls,
            batches: self.batches,
        }
    }

    /// Returns the handle of the next invocation, which is empty until the run continues as new.
    pub(crate) fn continuation(&self) -> Continuation<'ctx> {
        self.continuation.clone()
    }

    /// Runs a model call as a step, and compares its request with the recorded request.
    async fn llm(
        &self,
        request: RequestRef<'_>,
        call: impl Future<Output = Result<CompletionResponse, DurableError>> + Send,
    ) -> Result<CompletionResponse, DurableError> {
        let key = format!("llm/{}", self.llm_calls.fetch_add(1, SeqCst));
        let asked = self.requests.ask(request)?;
        let work = async {
            // After a panic Restate would repeat the call, and it would be paid again. So the panic becomes an error of
            // the provider.
            let result = match AssertUnwindSafe(call).catch_unwind().await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(DurableError::Provider(error))) => Err(error),
                Ok(Err(error)) => Err(ProviderError::Other(error.to_string().into())),
                Err(_) => Err(ProviderError::Other("the provider panicked".into())),
            };
            let record = StepRecord::of_llm(result, Utc::now()).with_asked(asked.clone());
            record.to_json_within(self.options.record_limit())
        };
        let json = self.journal.step(&key, work).await?;
        let record = StepRecord::<CompletionResponse>::from_json(&json);
        let record = self.journal.compared(record)?;
        self.journal.note(record.at);
        self.journal.compared(match &record.asked {
            Some(recorded) => self.requests.replay(&key, &asked, recorded),
            None => Err(DurableError::Other(format!("the record of {key} has no request").into())),
        })?;
        self.journal.compared(record.into_llm())
    }
}

/// Executes each call as a step or an invocation, as the [crate's page](crate) describes.
impl<P: Provider> DurableContext for RestateDurableContext<'_, '_, P> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.execute_llm_call_ref(request.view(), options).await
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let call = ToolCall { id: ctx.call_id.clone(), name: tool_name.to_owned(), input };
        execute_as_batch(self, &*self.tools, call, ctx, options).await
    }

    /// Waits for a signal that was sent to the run through the service's handler. Returns `None` if no signal arrived
    /// before the timeout.
    ///
    /// A signal that arrived before the wait is received too. Signals with the same name are received in the order of
    /// arrival, and each signal only once. If the value of a signal is not a `T`, the signal is removed and the wait
    /// fails.
    async fn wait_for_signal<T: DeserializeOwned + Send>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        parse_signal(self.receive(signal_name, timeout, None).await?)
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.effects.to_stored()
    }

    fn should_continue_as_new(&self) -> bool {
        !self.is_nested && self.journal.steps() >= self.options.continue_after()
    }

    /// Starts a new invocation that continues from `state`, and returns an error that ends this invocation.
    ///
    /// Returns `Ok` without a new invocation if the state and the queued signals exceed 30 MiB, which Restate would
    /// reject. The run then continues in this invocation.
    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.continuation.begin(self, state).await
    }

    async fn sleep(&self, duration: Duration) {
        // A cancellation is recorded, and the next step returns it.
        if let Err(error) = self.registered_sleep(duration).await {
            tracing::debug!(%error, "a sleep ended early");
        }
    }

    /// Returns the time at which the latest step ended, because Restate has no clock that shows the same time on
    /// replay.
    fn now(&self) -> DateTime<Utc> {
        self.journal.now()
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.llm(request, self.local.execute_llm_call_ref(request, options)).await
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.llm(request, self.local.execute_llm_stream(request, options, sink)).await
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let run = |batch: Vec<ToolInvocation>| async move {
            if batch.is_empty() {
                return Vec::new();
            }
            let together = Batch {
                key: format!("tools/{}", self.batches.fetch_add(1, SeqCst)),
                service: &self.service,
                environment: &self.options.environment,
                options,
                scope: &self.scope,
                running: &self.running,
            };
            together.run(&self.journal, batch).await
        };
        if let Err(error) = self.journal.compared(self.effects.check(&batch, self).await) {
            return batch.iter().map(|_| Err(error.again())).collect();
        }
        self.effects.run(batch, run).await
    }

    /// Waits for a signal with the decisions about the calls in `pending`. Returns `None` if no decisions arrived
    /// before the timeout. During the wait, the handler `pending` of the service's Restate object returns these calls,
    /// without the conversation.
    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        parse_signal(self.receive(signal_name, timeout, Some(pending)).await?)
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        if let (true, Err(LoopError::Durable(error))) = (self.is_nested, result) {
            // An error of the engine must not become the result of the tool call, even if middleware converts it. The
            // handler reads it from `fate`.
            self.journal.fate().fail(error);
        }
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        let json = |error: serde_json::Error| DurableError::Other(Box::new(error));
        let written = async {
            let (mut bytes, limit) = (Vec::new(), self.options.record_limit());
            // The value is wrapped in an array, so that it cannot look like a record that pins the run.
            stored_json::write(&mut bytes, &[&value]).map_err(json)?;
            if bytes.len() > limit {
                let length = bytes.len();
                let text = format!(
                    "the value `{name}` takes {length} bytes in the journal, where a record may have {limit}"
                );
                return Err(DurableError::Other(text.into()));
            }
            Ok(bytes)
        };
        let recorded = self.journal.step(name, written).await?;
        let recorded = stored_json::read(&recorded).map_err(json);
        self.journal.compared(recorded).map(|[value]: [Value; 1]| value)
    }

    /// Returns `true` if all steps since Restate called the service were read from the journal.
    ///
    /// The value becomes `false` when a step is executed, such as the step that stores the time after a wait.
    fn is_replaying(&self) -> bool {
        self.journal.is_replaying()
    }

    /// Returns the id of the run's first invocation.
    ///
    /// Returns `None` for an agent that runs inside a tool call. The idempotency keys of such an agent's calls are
    /// based on the key of that tool call.
    fn run_id(&self) -> Option<&str> {
        (!self.is_nested).then_some(&self.run_id)
    }
}

impl<P> fmt::Debug for RestateDurableContext<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestateDurableContext")
            .field("run_id", &self.run_id)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
