//! The context of a sub-agent, which is its caller's context one level deeper and with its own key.

use neuron_types::{AgentPath, ResumedApproval, ToolContext};

/// The depth at which an agent would run that is called with this context.
pub(crate) fn depth_below(ctx: &ToolContext) -> usize {
    AgentPath::of(ctx).len().saturating_add(1)
}

/// Returns the context of the agent of this name. `place` distinguishes agents that run at the same time.
pub(crate) fn child_context(ctx: &ToolContext, name: &str, place: Option<usize>) -> ToolContext {
    let mut child = ctx.clone();
    AgentPath::enter(&mut child, name);
    // The agent's run takes the key for its id, and the keys of its calls begin with it. No name of a
    // tool has a `#`.
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
        // It is the state of one run: all would go on with it.
        child.extensions.remove::<ResumedApproval>();
    }
    child
}
