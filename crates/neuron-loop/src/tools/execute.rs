//! Runs a tool call in this process, creates its context, and classifies its error.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use neuron_types::clock::within;
use neuron_types::{
    LoopError, ToolContext, ToolError, ToolErrorPolicy, ToolOutput, UsageMeter, WasmBoxedFuture,
};
use scopeguard::ScopeGuard;
use tokio_util::sync::CancellationToken;

use super::decide::{Calling, denial};
use crate::lock::lock;
use crate::parts::{Turn, or_cancelled};

/// The result of a tool call, or the error that ends the run.
pub(super) type CallOutcome = Result<ToolOutput, LoopError>;

/// The work of a started tool call.
pub(super) enum Work<'a> {
    /// The call has a context, but its tool starts only when [`end`](Self::end) is called.
    Ready(Box<ToolContext>),
    /// The call is running. The mutex is never locked. It only makes the future `Sync`.
    Running(Mutex<WasmBoxedFuture<'a, CallOutcome>>),
    /// The call has ended with this result.
    Ended(Box<CallOutcome>),
}

impl Work<'_> {
    /// Waits for the result of the call. Starts the call if it is not running.
    pub(super) async fn end(self, calling: Calling<'_>) -> CallOutcome {
        match self {
            Self::Ready(ctx) => pin!(calling.execute(ctx)).await,
            Self::Running(work) => work.into_inner().unwrap_or_else(PoisonError::into_inner).await,
            // FAULT the result of an early call is lost: `*ran` -> `Ok(Default::default())`
            Self::Ended(ran) => *ran,
        }
    }
}

impl Calling<'_> {
    /// Runs the call until it ends, its timeout expires, or the run is cancelled. The call runs inside the scopes of its
    /// hooks, such as tracing spans.
    pub(super) async fn execute(self, ctx: Box<ToolContext>) -> CallOutcome {
        let Self { turn, call, .. } = self;
        let env = turn.env;
        let mut scopes = turn.open_call(call);
        // If this future is dropped, the guard cancels work that the tool started elsewhere.
        let guard = scopeguard::guard(&ctx.cancellation_token, CancellationToken::cancel);
        let ran = {
            // FAULT what a call took that was dropped is not counted: without the line,
            //     `env.parts.definition.tools.execute_ref(call, &ctx)` -> `async { let done =
            //     env.parts.definition.tools.execute_ref(call, &ctx).await; drop(env.metered(&ctx.usage)); done }`
            let _metered = env.metered(&ctx.usage);
            // Pinned in place, because an unoptimised build copies a future each time it is moved.
            // FAULT a second execution: `env.parts.definition.tools.execute_ref(call, &ctx)` -> `async { let tools =
            //     &env.parts.definition.tools; tools.execute_ref(call, &ctx).await.ok(); tools.execute_ref(call,
            //     &ctx).await }`
            let mut work = pin!(env.parts.definition.tools.execute_ref(call, &ctx));
            let limited = pin!(async {
                let limit = env.config().tool_timeout;
                let done = within(limit, work.as_mut()).await;
                Ok(done.unwrap_or_else(|| {
                    // FAULT a tool is not told that its time is over: without the line
                    //     (regressions::tool_timeout_cancels_the_token_of_the_call)
                    ctx.cancellation_token.cancel();
                    let limit = limit.unwrap_or_default();
                    let text = format!("`{}` took longer than {limit:?}", call.name);
                    Err(ToolError::ExecutionFailed(text.into()))
                })?)
            });
            scopes.run(or_cancelled(env.token, limited)).await
        };
        let ran = ran.or_else(|error| self.settle(error));
        // FAULT a scope that is not ended: without the line
        scopes.end((&ran).into());
        ScopeGuard::into_inner(guard);
        *lock(&env.run.spare) = Some(ctx);
        ran
    }

    /// Handles the error of the call. Returns a result for the model, or an error if the run must end.
    pub(super) fn settle(self, error: LoopError) -> CallOutcome {
        let env = self.turn.env;
        match error {
            // FAULT a hint for the model ends the run: without the line
            LoopError::Tool(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),
            LoopError::Tool(ToolError::HookTerminated(reason)) => {
                Err(LoopError::HookTerminated(reason))
            }
            // A tool that stops because the run was cancelled must not end the run with an error of its own.
            // FAULT a tool that says that it was cancelled cancels the run: without `if env.token.is_cancelled()`
            LoopError::Tool(ToolError::Cancelled) if env.token.is_cancelled() => {
                Err(LoopError::Cancelled)
            }
            // FAULT an agent waits inside a run that cannot: `env.pauses` -> `env.pauses || true`
            //     (approval::nested_ask_is_a_denial_without_pausing)
            LoopError::Tool(ToolError::ApprovalRequired(nested)) => match env.pauses {
                true => Err(ToolError::ApprovalRequired(nested).into()),
                false => Ok(denial("an agent inside the call needs an approval")),
            },
            LoopError::Tool(error)
                if env.config().tool_errors == ToolErrorPolicy::ReturnToModel =>
            {
                let text = match &error {
                    ToolError::NotFound(name) => self.tools.not_found(name),
                    error => error.to_string(),
                };
                // FAULT failures that the model should see end the run: the line -> `drop(text); Err(error.into())`
                Ok(ToolOutput::error(text))
            }
            error => Err(error),
        }
    }

    /// Returns the context of the call, whose cancellation token is a child of `cancellation`. `index` is the position
    /// of the call in its response. `attempt` is the number of earlier, discarded responses of the turn that had started
    /// tool calls while streaming.
    pub(super) fn context(
        self,
        (attempt, index): (usize, usize),
        cancellation: &CancellationToken,
    ) -> Box<ToolContext> {
        let Self { turn: Turn { env, number: turn, .. }, call, .. } = self;
        let make = || ToolContext { run_id: env.run.run_id.clone(), ..env.ctx.clone() };
        let mut ctx = lock(&env.run.spare).take().unwrap_or_else(|| Box::new(make()));
        // FAULT a call keeps the id of the one before: the line -> `if ctx.call_id.is_empty() { call.id.clone_into(&mut
        //     ctx.call_id); }`
        call.id.clone_into(&mut ctx.call_id);
        // The position makes the key unique within the conversation. The model's id makes it unique among agents with
        // the same run id.
        let key = &mut ctx.idempotency_key;
        key.clone_from(&env.run.key);
        let mut digits = itoa::Buffer::new();
        for number in [turn, index] {
            key.extend([digits.format(number), "/"]);
        }
        // FAULT equal idempotency keys: the line -> `key.truncate(env.run.key.len()); key.push_str(call.name);`
        key.push_str(call.id);
        // FAULT a call of a second answer has the key of the first: `attempt > 0` -> `attempt > usize::MAX - 1`
        //     (early_tools::call_of_another_attempt_has_its_own_key)
        if attempt > 0 {
            // A call of a discarded response may have had the same position and id.
            key.extend(["/", digits.format(attempt)]);
        }
        // FAULT a call keeps the token of the one before: the line -> `if ctx.turn.is_none() { ctx.cancellation_token =
        //     cancellation.child_token(); }`
        ctx.cancellation_token = cancellation.child_token();
        // FAULT a call keeps the turn of the one before: `Some(turn)` -> `ctx.turn.or(Some(turn))`
        ctx.turn = Some(turn);
        // FAULT a call keeps the meter of the one before: without the line
        ctx.usage = UsageMeter::default();
        // FAULT a call keeps what was given to the one before: the line -> `if
        //     ctx.extensions.get::<neuron_types::ResumedApproval>().is_none() { ctx.extensions =
        //     env.run.extensions.clone(); }` (approval::resumed_approval_reaches_only_its_own_call)
        ctx.extensions = env.run.extensions.clone();
        ctx
    }
}
