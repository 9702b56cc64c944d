//! The hooks and permissions that a run hands on to agents inside its tool calls, with the depth of those agents.

use std::sync::Arc;

use neuron_types::{
    ApprovalSigner, BoxedHook, Extensions, OuterCall, PermissionPolicy, ToolContext,
};

use super::Definition;

/// A run, as an agent inside one of its calls finds it in the extensions of its context.
#[derive(Clone)]
pub(crate) struct EnclosingRun {
    pub(crate) hooks: Arc<[BoxedHook]>,
    pub(crate) policy: Option<Arc<dyn PermissionPolicy>>,
    pub(crate) pauses: bool,
    pub(crate) signer: Option<Arc<dyn ApprovalSigner>>,
    /// Number of agents around it.
    depth: usize,
}

impl EnclosingRun {
    /// The run around a tool call with this context.
    pub(crate) fn around(ctx: &ToolContext) -> Option<&Self> {
        ctx.extensions.get()
    }

    /// Adds the run of an agent to the extensions for its tools, unless nobody could make use of it.
    pub(crate) fn hand_on(of: &Definition, depth: usize, pauses: bool, to: &mut Extensions) {
        let Definition { hooks, policy, signer, .. } = of;
        // An agent that is not inside another, and has nothing to hand on, need not allocate.
        if depth > 0 || pauses || !hooks.is_empty() || policy.is_some() {
            let (policy, signer) = (policy.clone(), signer.clone());
            to.insert(Self { hooks: hooks.as_slice().into(), policy, pauses, signer, depth });
        }
    }

    /// Number of agents around an agent whose tool is called with this context, in a process of its own.
    pub(crate) fn depth_around(ctx: &ToolContext) -> usize {
        Self::around(ctx).map_or(0, |run| run.depth.saturating_add(1))
    }
}

/// Number of agents around an agent with this context.
pub(crate) fn depth_in(ctx: &ToolContext) -> usize {
    match EnclosingRun::around(ctx) {
        Some(run) => run.depth.saturating_add(1),
        None => usize::from(!ctx.call_id.is_empty()),
    }
}

/// The call inside which a run with this context is.
pub(crate) fn outer_call(ctx: &ToolContext) -> Option<OuterCall<'_>> {
    let call = || OuterCall::new(&ctx.run_id, &ctx.call_id, depth_in(ctx));
    (!ctx.call_id.is_empty()).then(call)
}
