//! Everything that a run uses except its ledger, which is the conversation with the run's state.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use neuron_types::{
    Budget, Extensions, LoopConfig, LoopError, ProviderInfo, RequestRef, ResumedApproval, RunTools,
    TokenUsage, ToolContext, UsageMeter,
};
use tokio_util::sync::CancellationToken;

use super::{EnclosingRun, Frame, Parts, Reader, RunHandle, depth_in};
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
            responses: AtomicUsize::new(ledger.tally().run.turns),
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
