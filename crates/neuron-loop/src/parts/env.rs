//! Everything that a run uses except its ledger, which is the conversation with the run's state. In a turn and in a tool
//! call, it dispatches the events to the hooks.

use std::borrow::Borrow;
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, OnceLock};

use neuron_types::{
    BoxedHook, Budget, DeltaSink, DurableContext, Extensions, HookAction, HookEvent, HookScope,
    LoopConfig, LoopError, Message, ObservabilityHook, Operation, OperationKind, ProviderInfo,
    RequestRef, RunTools, Scopes, StreamEvent, TokenUsage, ToolContext, ToolOutput, ToolUseRef,
    UsageMeter,
};
use tokio_util::sync::CancellationToken;

use super::{Parts, RunHandle, outer_call};
use crate::ledger::{KnownSize, Ledger, OutputRules};

/// Everything that a run uses except its ledger, which is the conversation with the run's state.
pub(crate) struct Env<'a> {
    pub(crate) parts: Parts<'a>,
    /// The requests of the run without their messages: the system prompt, the tools and the settings.
    pub(crate) frame: RequestRef<'a>,
    /// Estimated tokens of `frame`, computed on first use.
    pub(crate) frame_size: &'a OnceLock<usize>,
    /// The required output of a typed run.
    pub(crate) output: Option<&'a OutputRules>,
    /// The context of the caller.
    pub(crate) ctx: &'a ToolContext,
    /// Cancelled when the run should end. Work of the current turn stops only when `token` is cancelled.
    pub(crate) stop: &'a CancellationToken,
    /// Cancels work within a turn. With `CancelMode::AfterTurn` it is never cancelled, so the turn is finished.
    pub(crate) token: &'a CancellationToken,
    pub(crate) run: &'a RunScope,
    /// Set if a call waits when the policy requires an approval. Otherwise the call is denied.
    pub(crate) pauses: bool,
    /// The run's handle, if there is one. Messages and approval decisions arrive through it.
    pub(crate) handle: Option<&'a RunHandle>,
    /// Set if the run waits for approval decisions from its handle instead of ending.
    pub(crate) waits: bool,
    pub(crate) reader: Reader<'a>,
}

/// Values that belong to one run. They are created when the run begins.
pub(crate) struct RunScope {
    pub(crate) run_id: String,
    /// Prefix of the run's idempotency keys.
    pub(crate) key: String,
    /// Extensions that the tools of the run receive in their contexts.
    pub(crate) extensions: Extensions,
    /// The budget of the run. Other runs may share it.
    pub(crate) budget: Option<Budget>,
    /// Tokens that tools used and that are not yet in the counters of the conversation.
    pub(crate) tool_meter: UsageMeter,
    /// Number of responses of the model. A layer may make several calls in a turn, or none. Before this process drove
    /// the run, each turn counts as one response.
    pub(crate) responses: AtomicUsize,
    /// Context of an ended call. The next call reuses it to save the allocations.
    pub(crate) spare: Mutex<Option<Box<ToolContext>>>,
}

/// Adds the budget `own` to the extensions of a context. A budget that is already there applies in addition. Returns
/// the budget that the extensions then have.
pub(crate) fn add_budget(own: Option<&Budget>, extensions: &mut Extensions) -> Option<Budget> {
    let found = extensions.get::<Budget>();
    let Some(own) = own else {
        return found.cloned();
    };
    // FAULT the budget of a run replaces the budget around it: `own.together_with(found)` -> `own.clone()`
    //     (budget::nested_run_with_own_budget_respects_both_and_counts_once)
    let budget = found.map_or_else(|| own.clone(), |found| own.together_with(found));
    extensions.insert(budget.clone());
    Some(budget)
}

impl<'a> Env<'a> {
    /// Returns the context of the current turn.
    pub(crate) fn turn(&'a self, ledger: &Ledger) -> Turn<'a> {
        Turn { env: self, number: ledger.tally().run.turn, call_id: None }
    }

    pub(crate) fn config(&self) -> &'a LoopConfig {
        self.parts.config()
    }

    /// Returns the number of tokens of a request. It is the last size that the provider reported, plus an estimate of
    /// the messages added since. If no size was reported or the strategy does not count tokens, the whole request is
    /// estimated.
    pub(crate) fn tokens_of(&self, request: RequestRef<'_>, size: Option<KnownSize>) -> usize {
        let strategy = self.parts.strategy;
        let size = size.filter(|_| strategy.counts_tokens_dyn());
        let known = size.and_then(|size| {
            let later = request.messages.get(size.messages..)?;
            let estimate = if later.is_empty() { 0 } else { strategy.token_estimate_dyn(later) };
            // The system prompt and the tools may have changed since.
            // FAULT changed tools have the size of the former ones: `size.frame` -> `size.frame.filter(|_| false)`
            //     (context_size::changing_tools_change_the_known_size)
            let (now, then) = size.frame.map_or((0, 0), |then| (self.frame_tokens(), then));
            let tokens = size.tokens.saturating_add(now).saturating_sub(then);
            Some(tokens.saturating_add(estimate))
        });
        known.unwrap_or_else(|| strategy.estimate_request_dyn(request))
    }

    /// Returns the provider of a request, and the model whose price applies before the response is known.
    ///
    /// The model is that of the request, or else the provider's default model. If the provider chooses the model
    /// itself, it is the default model, because the request may have the name of a route, which has no price.
    pub(crate) fn priced_model<'r>(&self, request: RequestRef<'r>) -> (ProviderInfo<'r>, &'r str)
    where
        'a: 'r,
    {
        let info = self.parts.model.info_dyn();
        let model = match info.routes {
            [] => request.model_or(info.default_model),
            _ => info.default_model,
        };
        (info, model)
    }

    /// Returns a request of the run with these messages.
    pub(crate) fn request<'r>(&'r self, messages: &'r [Message]) -> RequestRef<'r> {
        RequestRef { messages, ..self.frame }
    }

    /// Returns the estimated tokens of the frame, as counted by the strategy of the first call.
    fn frame_tokens(&self) -> usize {
        let estimate = || self.parts.strategy.estimate_request_dyn(self.frame);
        *self.frame_size.get_or_init(estimate)
    }

    /// Returns the estimated tokens of the frame. Returns `None` if the strategy does not count tokens.
    pub(crate) fn counted_frame(&self) -> Option<usize> {
        self.parts.strategy.counts_tokens_dyn().then(|| self.frame_tokens())
    }

    /// Stores the conversation before the next step of the run. Does nothing if the run has no session.
    pub(crate) async fn store(&self, ledger: &Ledger) -> Result<(), LoopError> {
        match self.parts.session {
            Some(session) => Ok(Box::pin(session.write(ledger, true)).await?),
            None => Ok(()),
        }
    }

    /// Adds the tokens that tools used since the previous call of this method to the run and to the caller's meter.
    pub(crate) fn count_tool_usage(&self, ledger: &mut Ledger) {
        // FAULT what a tool took counts twice: `take()` -> `total()`
        let usage = self.run.tool_meter.take();
        if usage != TokenUsage::default() {
            self.ctx.usage.add(&usage);
            // FAULT what tools took is not counted: without the line
            ledger.add_tool_usage(&usage);
        }
    }

    /// Returns a guard for the usage meter of a tool call. On drop, the guard adds the meter's tokens to the run. The
    /// tokens therefore count even if the call fails or is cancelled.
    pub(crate) fn metered<M: Borrow<UsageMeter>>(&self, call: M) -> impl Drop + use<'a, M> {
        let run = &self.run.tool_meter;
        scopeguard::guard(call, |call| call.borrow().move_to(run))
    }

    /// Returns the tools of the agent, for layers and other callbacks.
    pub(crate) fn run_tools(&self) -> RunTools<'_> {
        let deferred = self.parts.definition.derived().deferred.as_deref();
        RunTools::new(self.frame.tools, deferred)
    }
}

/// The context of a run in one turn, and in one tool call of the turn. Dispatches events to the hooks.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) env: &'a Env<'a>,
    /// Number of the turn in its run, starting at zero.
    pub(crate) number: usize,
    call_id: Option<&'a str>,
}

impl<'a> Deref for Turn<'a> {
    type Target = Env<'a>;

    fn deref(&self) -> &Env<'a> {
        self.env
    }
}

impl<'a> Turn<'a> {
    /// Returns the context of a tool call of the turn.
    pub(crate) fn in_call(self, call_id: &'a str) -> Self {
        Self { call_id: Some(call_id), ..self }
    }

    pub(crate) fn hooks(self) -> &'a [BoxedHook] {
        &self.env.parts.definition.hooks
    }

    /// Returns the facts about the run that each event carries.
    fn scope(self) -> HookScope<'a> {
        let Env { parts, frame, ctx, run, .. } = self.env;
        let provider = parts.model.info_dyn();
        let model = frame.model_or(provider.default_model);
        let replaying = parts.durability.is_some_and(DurableContext::is_replaying);
        let scope = HookScope::new(&run.run_id, self.number, provider.name, model)
            .at_server(provider.server_address, provider.server_port)
            .with_replaying(replaying)
            .with_routed(!provider.routes.is_empty())
            .of_agent(&parts.config().name)
            .with_outer_call(outer_call(ctx));
        self.call_id.map_or(scope, |call_id| scope.in_call(call_id))
    }

    /// Dispatches an event to all hooks, in order. Returns the reason of the first hook that skips the tool call, or
    /// `None` if no hook skips it.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook ends the run. An error of a hook is only logged.
    pub(crate) async fn dispatch(self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        // Boxed only if there are hooks, so that an agent without hooks does not allocate.
        if self.hooks().is_empty() { Ok(None) } else { Box::pin(self.dispatch_to_all(event)).await }
    }

    async fn dispatch_to_all(self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        let (mut skip, mut terminate) = (None, None);
        let scope = self.scope();
        for hook in self.hooks() {
            match hook.on_event_in(event, &scope).await {
                Ok(HookAction::Continue) => {}
                Ok(HookAction::Skip { reason }) => skip = skip.or(Some(reason)),
                // FAULT the last hook's wish wins: `terminate.or(Some(reason))` -> `Some(reason)`
                Ok(HookAction::Terminate { reason }) => terminate = terminate.or(Some(reason)),
                // Outside of any span, because span exporters also export the log records inside a span.
                Err(error) => {
                    // FAULT a hook's failure ends the run: the line -> `terminate =
                    //     terminate.or(Some(error.to_string()));`
                    tracing::warn!(parent: None, %error, "a hook failed; the run goes on");
                }
            }
        }
        match terminate {
            Some(reason) => Err(LoopError::HookTerminated(reason)),
            None => Ok(skip),
        }
    }

    /// Dispatches an event and ignores the hooks' actions.
    pub(crate) async fn notify(self, event: HookEvent<'_>) {
        self.dispatch(event).await.ok();
    }

    /// Notifies the hooks that a tool call ended with an error instead of a result.
    pub(crate) async fn notify_failed(self, call: ToolUseRef<'_>, error: &LoopError) {
        // FAULT the error of a call names no call: `self.in_call(call.id)` -> `self`
        self.in_call(call.id).notify(HookEvent::ToolError { tool_name: call.name, error }).await;
    }

    /// Opens the hooks' scopes, such as tracing spans, around a tool call. Returns empty scopes if there are no hooks.
    pub(crate) fn open_call(self, call: ToolUseRef<'_>) -> Scopes {
        if self.hooks().is_empty() {
            return Scopes::default();
        }
        // The tools of the agent. A layer may have offered fewer to the model. A deferred tool is not among them.
        let tools = self.run_tools();
        let deferred =
            tools.deferred.and_then(|all| all.iter().find(|tool| tool.name == call.name));
        let offered = deferred.map_or(tools.visible, std::slice::from_ref);
        let call = &call.to_call();
        self.in_call(&call.id).open(OperationKind::ToolCall { call, offered })
    }

    /// Opens the hooks' scopes, such as tracing spans, around an operation. Returns empty scopes if there are no hooks.
    pub(crate) fn open(self, kind: OperationKind<'_>) -> Scopes {
        let hooks = self.hooks();
        if hooks.is_empty() {
            return Scopes::default();
        }
        Scopes::open(hooks, &Operation::new(self.scope(), kind))
    }
}

/// The receiver of a run's events and results.
#[derive(Clone, Copy)]
pub(crate) enum Reader<'a> {
    /// Receives only the outcome of the run.
    Nobody,
    /// Receives the run step by step.
    Step,
    /// Receives every event.
    Stream(&'a dyn DeltaSink),
}

impl<'a> Reader<'a> {
    /// Returns the receiver of text deltas, or `None` if the model's response is not streamed.
    pub(crate) fn deltas(self) -> Option<&'a dyn DeltaSink> {
        if let Self::Stream(sink) = self { Some(sink) } else { None }
    }

    /// Sends an event if the reader streams. Waits while the reader is slow. `event` is not called for other readers.
    pub(crate) async fn send(self, event: impl FnOnce() -> StreamEvent) {
        if let Self::Stream(sink) = self {
            sink.send(event()).await;
        }
    }

    /// Sends the result of a tool call.
    pub(crate) async fn send_result(self, id: &str, name: &str, output: &ToolOutput) {
        // FAULT the reader of a stream misses results: without the statement
        self.send(|| {
            let (id, name) = (id.to_owned(), name.to_owned());
            StreamEvent::ToolResult { id, name, output: output.clone() }
        })
        .await;
    }
}

/// Runs `work` until it ends or the token is cancelled. Does not start `work` if the token is already cancelled. If
/// `work` ends at the moment of the cancellation, its result is returned.
pub(crate) async fn or_cancelled<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, LoopError>>,
) -> Result<T, LoopError> {
    // FAULT a cancellation waits for the work: `token.run_until_cancelled(pin!(work)).await` -> `{ check(token)?;
    //     Some(work.await) }`
    token.run_until_cancelled(pin!(work)).await.unwrap_or(Err(LoopError::Cancelled))
}

/// Returns [`LoopError::Cancelled`] if the token is cancelled.
pub(crate) fn check(token: &CancellationToken) -> Result<(), LoopError> {
    // FAULT cancellation is not looked at before work: `token.is_cancelled()` -> `false`
    if token.is_cancelled() { Err(LoopError::Cancelled) } else { Ok(()) }
}
