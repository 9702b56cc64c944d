//! The context of a tool call.

use std::fmt::Write;

use neuron_types::{ToolCall, ToolContext, UsageMeter};
use tokio_util::sync::CancellationToken;

use crate::parts::Env;

/// The context of a call: the one at `index` in the answer of a turn in which prefetched calls were given up `attempt`
/// times before. The token is a child of `cancellation`.
pub(crate) fn call_context(
    env: &Env<'_>,
    (turn, attempt, index): (usize, usize, usize),
    call: &ToolCall,
    cancellation: &CancellationToken,
) -> ToolContext {
    let (outer, run) = (env.ctx, env.run);
    let (run_id, run_number) = (&run.run_id, run.run_number);
    let mut idempotency_key = String::with_capacity(run_id.len() + call.id.len() + 24);
    // The position makes it unique in the conversation, the model's id between agents that were given the same run id.
    // Writing to a string cannot fail.
    write!(idempotency_key, "{run_id}/{run_number}/{turn}/{index}/{}", call.id).ok();
    if attempt > 0 {
        // A call of an answer that was given up may have had the same place and id.
        write!(idempotency_key, "/{attempt}").ok();
    }
    // Field by field: a clone of the whole would clone fields that are replaced.
    ToolContext {
        cwd: outer.cwd.clone(),
        session_id: outer.session_id.clone(),
        environment: outer.environment.clone(),
        cancellation_token: cancellation.child_token(),
        progress_reporter: outer.progress_reporter.clone(),
        call_id: call.id.clone(),
        run_id: run_id.clone(),
        idempotency_key,
        turn: Some(turn),
        usage: UsageMeter::default(),
        extensions: run.extensions.clone(),
    }
}
