//! The hooks and permissions that a run hands on to agents inside its tool calls, with the depth of those agents.

use std::sync::Arc;

use neuron_types::{ApprovalSigner, BoxedHook, OuterCall, PermissionPolicy, ToolContext};

use super::Parts;

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

    /// The run of an agent inside a call, unless nobody could make use of it.
    pub(crate) fn new(parts: Parts<'_>, ctx: &ToolContext, waits: bool) -> Option<Self> {
        let (definition, is_durable) = (parts.definition, parts.durability.is_some());
        let (depth, pauses) = (depth_in(ctx), waits || definition.config.pauses(is_durable));
        // An agent that is not inside another, and has nothing to hand on, need not allocate.
        if depth == 0 && !pauses && definition.hooks.is_empty() && definition.policy.is_none() {
            return None;
        }
        Some(Self {
            hooks: definition.hooks.as_slice().into(),
            policy: definition.policy.clone(),
            pauses,
            signer: definition.signer.clone(),
            depth,
        })
    }
}

/// Number of agents around an agent with this context.
fn depth_in(ctx: &ToolContext) -> usize {
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
