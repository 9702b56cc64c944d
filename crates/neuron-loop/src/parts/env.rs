//! Everything that the work of a run needs beside its ledger.

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

/// Everything that the work of a run needs beside its ledger.
pub(crate) struct Env<'a> {
    pub(crate) parts: Parts<'a>,
    pub(crate) frame: Frame<'a>,
    /// The output of a typed run.
    pub(crate) output: Option<&'a OutputRules>,
    /// The context of the caller.
    pub(crate) ctx: &'a ToolContext,
    /// Asks the run to end.
    pub(crate) stop: &'a CancellationToken,
    /// Ends work within a turn.
    pub(crate) token: &'a CancellationToken,
    pub(crate) run: &'a RunScope,
    /// True if calls wait for a person when the policy asks.
    pub(crate) pauses: bool,
    pub(crate) reader: Reader<'a>,
}

/// Values that belong to one run and do not change in it.
pub(crate) struct RunScope {
    pub(crate) run_id: String,
    /// The start of its idempotency keys.
    pub(crate) key: String,
    /// The name of its conversation.
    pub(crate) history: HistoryKey,
    /// Extensions of the context of its tools.
    pub(crate) extensions: Extensions,
    /// The budget that it shares with other runs.
    pub(crate) budget: Option<Budget>,
    /// Tokens of tools that the ledger does not have yet.
    pub(crate) tool_meter: UsageMeter,
    /// The context of a call that has ended, for the next.
    pub(crate) spare: Mutex<Option<Box<ToolContext>>>,
}

impl RunScope {
    /// Takes the budget and the extensions for tools from the context. `own_budget` is the
    /// budget of the run or of its agent.
    pub(crate) fn new(
        parts: Parts<'_>,
        ctx: &ToolContext,
        ledger: &Ledger,
        own_budget: Option<&Budget>,
        waits: bool,
    ) -> Self {
        let mut extensions = ctx.extensions.clone();
        // It is for the agent that finds it, and not for agents inside its calls.
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

    /// The tokens of the next call, from the size that the provider reported last and an estimate of later messages. An
    /// estimate of the whole at first, and for strategies that count something else than tokens.
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

    /// The estimate of system prompt and tools. `None` for a strategy that counts something else than tokens.
    pub(crate) fn frame_size(&self) -> Option<usize> {
        let strategy = self.parts.strategy;
        strategy.counts_tokens_dyn().then(|| self.frame.size(strategy))
    }

    /// The tokens of the conversation as it is.
    pub(crate) fn current_tokens(&self, ledger: &Ledger) -> usize {
        self.tokens_of(self.frame.request(&ledger.messages), ledger.size)
    }

    /// Counts the tokens that tools took since this was last done.
    pub(crate) fn count_tool_usage(&self, ledger: &mut Ledger) {
        let usage = self.run.tool_meter.take();
        if usage != TokenUsage::default() {
            self.ctx.usage.add(&usage);
            ledger.tally.add_tool_usage(&usage);
        }
    }

    /// A meter that hands its tokens on to the run when it is dropped, however the call ends.
    pub(crate) fn metered<M: Borrow<UsageMeter>>(&self, call: M) -> impl Drop + use<'a, M> {
        let run = &self.run.tool_meter;
        scopeguard::guard(call, |call| call.borrow().hand_on(run))
    }

    /// The tools that an answer can call.
    pub(crate) fn offered(&self, hidden: Arc<[String]>) -> Offered<'a> {
        Offered { tools: &self.parts.definition.tools, hidden }
    }
}

/// The tools that an answer can call. Tools that its request did not offer are hidden.
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

/// Waits for `work`, or for the cancellation of the run. Work of a run that is cancelled already does not begin. Work
/// that is done counts, also when both are.
pub(crate) async fn or_cancelled<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, LoopError>>,
) -> Result<T, LoopError> {
    check(token)?;
    // The wait for the cancellation begins once the work waits.
    let (mut work, mut cancelled) = (pin!(work), pin!(async { token.cancelled().await }));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Pending => cancelled.as_mut().poll(cx).map(|()| Err(LoopError::Cancelled)),
        done => done,
    })
    .await
}

/// Fails if the run was cancelled.
pub(crate) fn check(token: &CancellationToken) -> Result<(), LoopError> {
    if token.is_cancelled() { Err(LoopError::Cancelled) } else { Ok(()) }
}
