//! The hooks and permissions that a run passes to agents inside its tool calls, and the nesting depth of these agents.

use std::sync::Arc;

use neuron_types::{
    ApprovalSigner, BoxedHook, Extensions, OuterCall, PermissionPolicy, ToolContext,
};

use super::Definition;

/// The parent run of an agent. Stored in the extensions of the agent's context.
#[derive(Clone)]
pub(crate) struct EnclosingRun {
    pub(crate) hooks: Arc<[BoxedHook]>,
    pub(crate) policy: Option<Arc<dyn PermissionPolicy>>,
    /// Set if calls of the parent run that need an approval wait for it. Otherwise such calls are denied.
    pub(crate) pauses: bool,
    pub(crate) signer: Option<Arc<dyn ApprovalSigner>>,
    /// Number of agents around the agent of the parent run.
    depth: usize,
}

impl EnclosingRun {
    /// Returns the run around a tool call with this context, or `None` outside of a tool call.
    pub(crate) fn around(ctx: &ToolContext) -> Option<&Self> {
        ctx.extensions.get()
    }

    /// Adds the settings of the agent `of` to the context extensions `to`, so that agents inside its tools can inherit
    /// them. Adds nothing for a top-level agent without hooks, policy and pauses.
    pub(crate) fn extend_context(of: &Definition, depth: usize, pauses: bool, to: &mut Extensions) {
        let Definition { hooks, policy, signer, .. } = of;
        // Saves the allocation for a top-level agent that has nothing to pass on.
        if depth > 0 || pauses || !hooks.is_empty() || policy.is_some() {
            let (policy, signer) = (policy.clone(), signer.clone());
            to.insert(Self { hooks: hooks.as_slice().into(), policy, pauses, signer, depth });
        }
    }

    /// Returns the number of agents around the agent that makes a tool call. `ctx` is the context of this tool call.
    pub(crate) fn depth_around(ctx: &ToolContext) -> usize {
        Self::around(ctx).map_or(0, |run| run.depth.saturating_add(1))
    }
}

/// Returns the number of agents around an agent that runs with this context.
pub(crate) fn depth_in(ctx: &ToolContext) -> usize {
    match EnclosingRun::around(ctx) {
        Some(run) => run.depth.saturating_add(1),
        None => usize::from(!ctx.call_id.is_empty()),
    }
}

/// Returns the tool call around a run with this context, or `None` for a top-level run.
pub(crate) fn outer_call(ctx: &ToolContext) -> Option<OuterCall<'_>> {
    let call = || OuterCall::new(&ctx.run_id, &ctx.call_id, depth_in(ctx));
    (!ctx.call_id.is_empty()).then(call)
}
