//! The environment of a run: everything that it uses except its ledger.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use neuron_tool::ToolRegistry;
use neuron_types::{
    Budget, Extensions, HistoryKey, LoopConfig, LoopError, RequestRef, ResumedApproval, TokenUsage,
    ToolContext, ToolDefinition, ToolDyn, UsageMeter,
};
use tokio_util::sync::CancellationToken;

use super::{EnclosingRun, Frame, Parts, Reader, depth_in};
use crate::ledger::{KnownSize, Ledger, OutputRules};

/// The environment of a run: everything that it uses except its ledger.
pub(crate) struct Env<'a> {
    pub(crate) parts: Parts<'a>,
    pub(crate) frame: Frame<'a>,
    /// The output of a typed run.
    pub(crate) output: Option<&'a OutputRules>,
    /// The context of the caller.
    pub(crate) ctx: &'a ToolContext,
    /// Cancelled when the run should end. Work of the current turn may continue, see `token`.
    pub(crate) stop: &'a CancellationToken,
    /// Cancels work within a turn. Differs from `stop` for `CancelMode::AfterTurn`.
    pub(crate) token: &'a CancellationToken,
    pub(crate) run: &'a RunScope,
    /// True if calls wait for a person when the policy requires an approval.
    pub(crate) pauses: bool,
    pub(crate) reader: Reader<'a>,
}

/// Values of one run that do not change during the run.
pub(crate) struct RunScope {
    pub(crate) run_id: String,
    /// Prefix of the run's idempotency keys.
    pub(crate) key: String,
    /// Key of the run's conversation, for readers that cache earlier messages.
    pub(crate) history: HistoryKey,
    /// Extensions for the contexts of tools.
    pub(crate) extensions: Extensions,
    /// The budget, which other runs may share.
    pub(crate) budget: Option<Budget>,
    /// Tool tokens that the ledger has not counted yet.
    pub(crate) tool_meter: UsageMeter,
    /// Context of an ended call, reused by the next call to save the allocations.
    pub(crate) spare: Mutex<Option<Box<ToolContext>>>,
}

impl RunScope {
    /// Takes the budget and the extensions for tools from the context. `own_budget` is the budget of the run or of its
    /// agent.
    pub(crate) fn new(
        parts: Parts<'_>,
        ctx: &ToolContext,
        ledger: &Ledger,
        own_budget: Option<&Budget>,
        waits: bool,
    ) -> Self {
        let mut extensions = ctx.extensions.clone();
        // It is meant for the agent that runs with this context, not for agents inside its calls.
        extensions.remove::<ResumedApproval>();
        let found = ctx.extensions.get::<Budget>();
        let budget = match (own_budget, found) {
            (Some(own), Some(found)) => Some(own.together_with(found)),
            (own, found) => own.or(found).cloned(),
        };
        if let (Some(_), Some(budget)) = (own_budget, &budget) {
            extensions.insert(budget.clone());
        }
        let pauses = waits || parts.config().pauses(parts.durability.is_some());
        EnclosingRun::hand_on(parts.definition, depth_in(ctx), pauses, &mut extensions);
        Self {
            run_id: ledger.tally.run.id.clone(),
            key: format!("{}/{}/", ledger.tally.run.id, ledger.tally.run.number),
            history: HistoryKey::unique(),
            extensions,
            budget,
            tool_meter: UsageMeter::default(),
            spare: Mutex::default(),
        }
    }
}

impl<'a> Env<'a> {
    pub(crate) fn config(&self) -> &'a LoopConfig {
        self.parts.config()
    }

    /// Returns the tokens of the next call: the size that the provider reported last, and an estimate of later
    /// messages. Without a reported size, and for strategies that do not count tokens, all is estimated.
    pub(crate) fn tokens_of(&self, request: RequestRef<'_>, size: Option<KnownSize>) -> usize {
        let strategy = self.parts.strategy;
        let size = size.filter(|_| strategy.counts_tokens_dyn());
        let known = size.and_then(|size| {
            let later = request.messages.get(size.messages..)?;
            let estimate = if later.is_empty() { 0 } else { strategy.token_estimate_dyn(later) };
            Some(size.with_frame(|| self.frame.size(strategy)).saturating_add(estimate))
        });
        known.unwrap_or_else(|| strategy.estimate_request_dyn(request))
    }

    /// Returns the estimate of system prompt and tools. `None` for a strategy that does not count tokens.
    pub(crate) fn frame_size(&self) -> Option<usize> {
        let strategy = self.parts.strategy;
        strategy.counts_tokens_dyn().then(|| self.frame.size(strategy))
    }

    /// Returns the number of tokens of the conversation, reported or estimated.
    pub(crate) fn current_tokens(&self, ledger: &Ledger) -> usize {
        self.tokens_of(self.frame.request(&ledger.messages), ledger.size)
    }

    /// Counts the tokens that tools have used since the last call of this method.
    pub(crate) fn count_tool_usage(&self, ledger: &mut Ledger) {
        let usage = self.run.tool_meter.take();
        if usage != TokenUsage::default() {
            self.ctx.usage.add(&usage);
            ledger.tally.add_tool_usage(&usage);
        }
    }

    /// Returns a guard that adds the tokens of a call to the run when it is dropped, however the call ends.
    pub(crate) fn metered<M: Borrow<UsageMeter>>(&self, call: M) -> impl Drop + use<'a, M> {
        let run = &self.run.tool_meter;
        scopeguard::guard(call, |call| call.borrow().hand_on(run))
    }

    /// Returns the tools that an answer can call.
    pub(crate) fn offered(&self, hidden: Arc<[String]>) -> Offered<'a> {
        Offered { tools: &self.parts.definition.tools, hidden }
    }
}

/// The tools that an answer can call, without tools that its request did not offer.
#[derive(Clone)]
pub(crate) struct Offered<'a> {
    tools: &'a ToolRegistry,
    pub(crate) hidden: Arc<[String]>,
}

impl<'a> Offered<'a> {
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        if self.hides(name) { None } else { self.tools.get(name) }
    }

    pub(crate) fn definition(&self, name: &str) -> Option<&'a ToolDefinition> {
        if self.hides(name) { None } else { self.tools.definition(name) }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.tools.names().filter(|name| !self.hides(name))
    }
}

/// Waits for `work` or for the cancellation. Work does not begin if the token is cancelled already. If both are ready,
/// the result of the work wins.
pub(crate) async fn or_cancelled<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, LoopError>>,
) -> Result<T, LoopError> {
    check(token)?;
    // The cancellation is polled only while the work is pending, so finished work is never lost.
    let (mut work, mut cancelled) = (pin!(work), pin!(async { token.cancelled().await }));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Pending => cancelled.as_mut().poll(cx).map(|()| Err(LoopError::Cancelled)),
        done => done,
    })
    .await
}

/// Returns an error if the token is cancelled.
pub(crate) fn check(token: &CancellationToken) -> Result<(), LoopError> {
    if token.is_cancelled() { Err(LoopError::Cancelled) } else { Ok(()) }
}
