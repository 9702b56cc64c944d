//! The context of a sub-agent, which is the caller's context with a longer agent path and a different idempotency key.

use neuron_types::{AgentPath, ResumedApproval, ToolContext};

/// Returns the nesting depth of an agent that is called with this context. The depth is 1 if a top-level agent calls
/// it.
pub(crate) fn depth_below(ctx: &ToolContext) -> usize {
    AgentPath::of(ctx).len().saturating_add(1)
}

/// Returns the context for a run of the agent `name`, derived from the caller's context `ctx`.
///
/// `place` is the index of the agent if several agents run concurrently in one call. It becomes a part of the
/// idempotency key. `None` means a single agent.
pub(crate) fn child_context(ctx: &ToolContext, name: &str, place: Option<usize>) -> ToolContext {
    let mut child = ctx.clone();
    AgentPath::enter(&mut child, name);
    // The agent's run uses this key as its id, and the keys of its calls begin with it. Tool names never contain `#`.
    let key = match ctx.idempotency_key.as_str() {
        "" => &mut child.run_id,
        _ => &mut child.idempotency_key,
    };
    if !key.is_empty() {
        key.push('/');
        key.push_str(name);
        if let Some(place) = place {
            key.push_str(&format!("#{place}"));
        }
    }
    if place.is_some() {
        // The approval belongs to one run. With several agents in the call, all of them would resume that run.
        child.extensions.remove::<ResumedApproval>();
    }
    child
}
