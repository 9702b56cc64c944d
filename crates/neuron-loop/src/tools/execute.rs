//! Running a call in this process, and the meaning of its error.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use neuron_types::{LoopError, Outcome, Scopes, ToolCall, ToolContext, ToolError, ToolOutput};

use super::decide::denial;
use super::metered::CallMeter;
use crate::parts::{Env, Offered, or_cancelled, wait};
use crate::settings::ToolErrorPolicy;

/// The end of a call.
pub(crate) type Ran = Result<ToolOutput, LoopError>;

/// Runs a call inside its scopes, until it ends or the run is cancelled.
pub(crate) async fn execute(
    env: Env<'_>,
    tools: Offered<'_>,
    call: &ToolCall,
    ctx: ToolContext,
    mut scopes: Scopes,
) -> Ran {
    // Dropped while the call runs, it tells work that the tool started elsewhere.
    let guard = ctx.cancellation_token.clone().drop_guard();
    let _metered = CallMeter { call: ctx.usage.clone(), run: &env.run.tool_meter };
    let work = tools.execute(call, &ctx);
    let limited = async { Ok(within(env.config().tool_timeout, &call.name, work).await?) };
    let ran = scopes.run(or_cancelled(env.token, limited)).await;
    let ran = ran.or_else(|error| settle(&env, &tools, error));
    scopes.end(outcome(&ran));
    guard.disarm();
    ran
}

/// Fails if work takes longer than the limit, where there is a clock.
async fn within(
    limit: Option<Duration>,
    tool: &str,
    work: impl Future<Output = Result<ToolOutput, ToolError>>,
) -> Result<ToolOutput, ToolError> {
    let Some(limit) = limit else {
        return work.await;
    };
    let timer = async {
        if !wait(limit).await {
            std::future::pending().await
        }
    };
    match select(pin!(work), pin!(timer)).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => {
            let text = format!("`{tool}` took longer than {limit:?}");
            Err(ToolError::ExecutionFailed(text.into()))
        }
    }
}

/// Decides whether the error of a call is a result for the model, or ends the run.
pub(crate) fn settle(env: &Env<'_>, tools: &Offered<'_>, error: LoopError) -> Ran {
    match error {
        LoopError::Tool(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),
        LoopError::Tool(ToolError::HookTerminated(reason)) => {
            Err(LoopError::HookTerminated(reason))
        }
        // A tool that stops because the run was cancelled does not end it with an error of its own.
        LoopError::Tool(ToolError::Cancelled) if env.token.is_cancelled() => {
            Err(LoopError::Cancelled)
        }
        LoopError::Tool(ToolError::ApprovalRequired(nested)) => match env.pauses {
            true => Err(ToolError::ApprovalRequired(nested).into()),
            false => Ok(denial("an agent inside the call needs an approval")),
        },
        LoopError::Tool(ToolError::NotFound(name))
            if env.config().tool_errors == ToolErrorPolicy::ReturnToModel =>
        {
            let names: Vec<&str> = tools.names().collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Ok(ToolOutput::error(format!("tool not found: {name}; the tools are: {known}")))
        }
        LoopError::Tool(error) if env.config().tool_errors == ToolErrorPolicy::ReturnToModel => {
            Ok(ToolOutput::error(error.to_string()))
        }
        error => Err(error),
    }
}

pub(crate) fn outcome(ran: &Ran) -> Outcome<'_> {
    match ran {
        Ok(output) => Outcome::ToolOutput(output),
        Err(error) => Outcome::Error(error),
    }
}
