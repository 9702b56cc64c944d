//! The hooks and permissions that a run passes to agents inside its tool calls, with the nesting depth of those agents.

use std::sync::Arc;

use neuron_types::{
    ApprovalSigner, BoxedHook, Extensions, OuterCall, PermissionPolicy, ToolContext,
};

use super::Definition;

/// The parent run of an agent, as found in the extensions of its context.
#[derive(Clone)]
pub(crate) struct EnclosingRun {
    pub(crate) hooks: Arc<[BoxedHook]>,
    pub(crate) policy: Option<Arc<dyn PermissionPolicy>>,
    pub(crate) pauses: bool,
    pub(crate) signer: Option<Arc<dyn ApprovalSigner>>,
    /// Number of agents around the parent run.
    depth: usize,
}

impl EnclosingRun {
    /// Returns the run around a tool call with this context.
    pub(crate) fn around(ctx: &ToolContext) -> Option<&Self> {
        ctx.extensions.get()
    }

    /// Adds a parent run to the extensions for its tools, unless it has no effect.
    pub(crate) fn hand_on(of: &Definition, depth: usize, pauses: bool, to: &mut Extensions) {
        let Definition { hooks, policy, signer, .. } = of;
        // Saves the allocation for a top-level agent that has nothing to pass on.
        if depth > 0 || pauses || !hooks.is_empty() || policy.is_some() {
            let (policy, signer) = (policy.clone(), signer.clone());
            to.insert(Self { hooks: hooks.as_slice().into(), policy, pauses, signer, depth });
        }
    }

    /// Returns the number of agents around an agent whose tool runs with this context in another process.
    pub(crate) fn depth_around(ctx: &ToolContext) -> usize {
        Self::around(ctx).map_or(0, |run| run.depth.saturating_add(1))
    }
}

/// Returns the number of agents around an agent with this context.
pub(crate) fn depth_in(ctx: &ToolContext) -> usize {
    match EnclosingRun::around(ctx) {
        Some(run) => run.depth.saturating_add(1),
        None => usize::from(!ctx.call_id.is_empty()),
    }
}

/// Returns the tool call around a run with this context.
pub(crate) fn outer_call(ctx: &ToolContext) -> Option<OuterCall<'_>> {
    let call = || OuterCall::new(&ctx.run_id, &ctx.call_id, depth_in(ctx));
    (!ctx.call_id.is_empty()).then(call)
}
