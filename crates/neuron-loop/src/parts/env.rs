//! Everything that a run uses except its ledger, which is the conversation with the run's state.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use neuron_tool::ToolRegistry;
use neuron_types::{
    Budget, CALL_TOOL, ContentBlock, Extensions, LoopConfig, LoopError, Message, ProviderInfo,
    RequestRef, Reservation, ResumedApproval, RunTools, SEARCH_TOOLS, TokenUsage, ToolContext,
    ToolDefinition, ToolDyn, ToolError, ToolUseRef, UsageMeter, is_search_tool,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{EnclosingRun, Frame, Parts, Reader, depth_in};
use crate::ledger::{KnownSize, Ledger, OutputRules};

/// Everything that a run uses except its ledger, which is the conversation with the run's state.
pub(crate) struct Env<'a> {
    pub(crate) parts: Parts<'a>,
    pub(crate) frame: Frame<'a>,
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
    /// Number of turns of the run before this process drove it.
    pub(crate) turns_before: usize,
    /// Number of responses of the model since. A layer may make several calls in a turn, or none.
    pub(crate) responses: AtomicUsize,
    /// Context of an ended call. The next call reuses it to save the allocations.
    pub(crate) spare: Mutex<Option<Box<ToolContext>>>,
}

/// Adds the budget `own` to the extensions of a context. A budget that is already there applies in addition. Returns the
/// budget that the extensions then have.
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

impl RunScope {
    /// Creates the scope of a run with the context `ctx`. `own_budget` is the budget of the run or of its agent. A
    /// budget in the context applies in addition. `waits` is `true` if the run waits for approval decisions instead of
    /// ending.
    pub(crate) fn new(
        parts: Parts<'_>,
        ctx: &ToolContext,
        ledger: &Ledger,
        own_budget: Option<&Budget>,
        waits: bool,
    ) -> Self {
        let mut extensions = ctx.extensions.clone();
        // The resumed approval belongs to the agent that runs with this context, not to agents inside its calls.
        // FAULT a decision reaches agents inside the call: without the line
        extensions.remove::<ResumedApproval>();
        let budget = add_budget(own_budget, &mut extensions);
        let pauses = waits || parts.config().pauses(parts.durability.is_some());
        EnclosingRun::extend_context(parts.definition, depth_in(ctx), pauses, &mut extensions);
        Self {
            run_id: ledger.tally().run.id.clone(),
            key: format!("{}/{}/", ledger.tally().run.id, ledger.tally().run.number),
            extensions,
            budget,
            tool_meter: UsageMeter::default(),
            turns_before: ledger.tally().run.turns,
            responses: AtomicUsize::new(0),
            spare: Mutex::default(),
        }
    }
}

impl<'a> Env<'a> {
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
            // FAULT changed tools have the size of the former ones: `size.with_frame(|| self.frame.size(strategy))` ->
            //     `size.tokens` (context_size::changing_tools_change_the_known_size)
            Some(size.with_frame(|| self.frame.size(strategy)).saturating_add(estimate))
        });
        known.unwrap_or_else(|| strategy.estimate_request_dyn(request))
    }

    /// Returns the provider of a request, and the model whose price applies before the response is known.
    ///
    /// The model is that of the request, or else the provider's default model. If the provider chooses the model itself,
    /// it is the default model, because the request may have the name of a route, which has no price.
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

    /// Reserves a model call with an estimate of its tokens.
    pub(crate) fn reserve_call(
        &self,
        budget: &Budget,
        request: RequestRef<'_>,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Reservation, LoopError> {
        let (info, model) = self.priced_model(request);
        match info.routes {
            [] => budget.reserve_call(info.name, model, input_tokens, output_tokens),
            routes => budget.reserve_routed_call(routes, input_tokens, output_tokens),
        }
    }

    /// Returns the estimated tokens of the system prompt and the tools. Returns `None` if the strategy does not count
    /// tokens.
    pub(crate) fn frame_size(&self) -> Option<usize> {
        let strategy = self.parts.strategy;
        strategy.counts_tokens_dyn().then(|| self.frame.size(strategy))
    }

    /// Returns the number of tokens of the conversation, as reported or estimated.
    pub(crate) fn current_tokens(&self, ledger: &Ledger) -> usize {
        self.tokens_of(self.frame.request(ledger.messages()), ledger.size())
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

    /// [Corrects](ToolDefinition::correct_arguments) the arguments of the calls in a response, before hooks, policies and
    /// validators see them.
    pub(crate) fn correct(&self, answer: &mut Message) {
        // FAULT arguments in a text are not read: without the statement
        //     (arguments::text_with_an_array_is_read_before_the_policy)
        for block in &mut answer.content {
            if let Some(ContentBlock::ToolUse { name, input, .. }) = block.portable_mut() {
                self.correct_input(name, input);
            }
        }
    }

    /// Corrects the arguments of a call, and of the call inside a call of [`CALL_TOOL`].
    pub(crate) fn correct_input(&self, name: &str, input: &mut Value) {
        let tools = &self.parts.definition.tools;
        // The registry does not know the output tool.
        let offered = || self.frame.tools.iter().find(|tool| tool.name == name);
        if let Some(definition) = tools.definition(name).or_else(offered) {
            definition.correct_arguments(input);
        }
        if name == CALL_TOOL
            && tools.defers_tools()
            && let Value::Object(fields) = input
            && let Some(target) = fields.get("name").and_then(Value::as_str)
            && let Some(definition) = tools.definition(target)
            && let Some(arguments) = fields.get_mut("arguments")
        {
            definition.correct_arguments(arguments);
        }
    }

    /// Returns the tools that a response can call. `hidden` has the names that its request did not offer.
    pub(crate) fn offered(&self, hidden: Arc<[String]>) -> Offered<'a> {
        Offered { tools: &self.parts.definition.tools, hidden }
    }
}

/// The tools that a response can call. Registered tools that its request did not offer are excluded.
#[derive(Clone)]
pub(crate) struct Offered<'a> {
    tools: &'a ToolRegistry,
    pub(crate) hidden: Arc<[String]>,
}

impl<'a> Offered<'a> {
    /// Returns `true` if the request did not offer the tool.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        if self.hides(name) { None } else { self.tools.get(name) }
    }

    pub(crate) fn definition(&self, name: &str) -> Option<&'a ToolDefinition> {
        if self.hides(name) { None } else { self.tools.definition(name) }
    }

    /// Returns the names of the tools in the request. If the vendor may have searched, the tools of the agent's own search
    /// are not included, because the model may not have seen them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        let is_omitted = |name: &str| self.tools.prefers_vendor_search() && is_search_tool(name);
        let is_offered =
            move |name: &&str| !self.hides(name) && !self.is_deferred(name) && !is_omitted(name);
        self.tools.names().filter(is_offered)
    }

    /// Returns `true` if the request did not have the tool's definition, because the model has to search for it.
    pub(crate) fn is_deferred(&self, name: &str) -> bool {
        self.tools.is_deferred(name)
    }

    /// Returns `true` if the agent defers tools. The model may then have found a tool that is not registered any more.
    pub(crate) fn defers_tools(&self) -> bool {
        self.tools.defers_tools()
    }

    /// Returns the error of a call of [`CALL_TOOL`] that remains after the loop has read the tool that it names. Such a
    /// call is incomplete, or names [`CALL_TOOL`] itself. Returns `None` for any other call.
    pub(crate) fn refuses(&self, call: ToolUseRef<'_>) -> Option<ToolError> {
        match self.is_call_tool(call.name) {
            true => self.get(CALL_TOOL)?.check_input(call.input).err(),
            false => None,
        }
    }

    /// Returns `true` for the name of [`CALL_TOOL`]. Without deferred tools, a tool with this name is an ordinary tool.
    pub(crate) fn is_call_tool(&self, name: &str) -> bool {
        self.defers_tools() && name == CALL_TOOL
    }

    /// Returns the end of the error for an unknown tool. It is empty if the model cannot search for tools that are not in
    /// the request.
    pub(crate) fn search_hint(&self) -> &'static str {
        if !self.defers_tools() || self.hides(SEARCH_TOOLS) {
            ""
        } else if self.tools.prefers_vendor_search() {
            ". Search for other tools before you call them"
        } else {
            ". Find other tools with `search_tools` before you call them"
        }
    }
}

/// Runs `work` until it ends or the token is cancelled. Does not start `work` if the token is already cancelled. If
/// `work` ends at the moment of the cancellation, its result is returned.
pub(crate) async fn or_cancelled<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, LoopError>>,
) -> Result<T, LoopError> {
    check(token)?;
    // The cancellation is polled only while the work is pending, so the result of finished work is never lost.
    let (mut work, mut cancelled) = (pin!(work), pin!(async { token.cancelled().await }));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        // FAULT a cancellation waits for the work: `cancelled.as_mut().poll(cx)` -> `Poll::Pending`
        Poll::Pending => cancelled.as_mut().poll(cx).map(|()| Err(LoopError::Cancelled)),
        done => done,
    })
    .await
}

/// Returns [`LoopError::Cancelled`] if the token is cancelled.
pub(crate) fn check(token: &CancellationToken) -> Result<(), LoopError> {
    // FAULT cancellation is not looked at before work: `token.is_cancelled()` -> `false`
    if token.is_cancelled() { Err(LoopError::Cancelled) } else { Ok(()) }
}
