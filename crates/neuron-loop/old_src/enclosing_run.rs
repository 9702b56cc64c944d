//! What a run hands on to agents inside its tool calls: its hooks, its permissions, and how deep they are.

use std::sync::Arc;

use neuron_types::{BoxedHook, OuterCall, PermissionPolicy, ToolContext};

use crate::{AgentLoop, AgentLoopBuilder};

/// A run, as an agent inside one of its calls finds it in the context's extensions.
#[derive(Clone)]
struct EnclosingRun {
    hooks: Arc<[BoxedHook]>,
    policy: Option<Arc<dyn PermissionPolicy>>,
    pauses: bool,
    #[cfg(feature = "signed-approvals")]
    approval_key: Option<crate::ApprovalKey>,
    /// How many agents are around it.
    depth: usize,
}

/// The call inside which a run is.
#[derive(Debug, Default)]
pub(crate) struct Within {
    run_id: String,
    call_id: String,
    depth: usize,
}

impl Within {
    pub(crate) fn outer_call(&self) -> OuterCall<'_> {
        OuterCall::new(&self.run_id, &self.call_id, self.depth)
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// Notes the call inside which the run is, and what agents inside its own calls may take over.
    pub(crate) fn enclose(&mut self, ctx: &ToolContext) {
        let enclosing = ctx.extensions.get::<EnclosingRun>();
        let is_within = !ctx.call_id.is_empty();
        let depth = match enclosing {
            Some(run) => run.depth.saturating_add(1),
            None => usize::from(is_within),
        };
        let (run_id, call_id) = (&ctx.run_id, &ctx.call_id);
        self.run.within =
            is_within.then(|| Within { run_id: run_id.clone(), call_id: call_id.clone(), depth });
        let pauses = self.config.pauses(self.durability.is_some());
        // An agent that is not inside another, and has nothing to hand on, need not allocate.
        if depth > 0 || pauses || !self.hooks.is_empty() || self.policy.is_some() {
            self.run.extensions.insert(EnclosingRun {
                hooks: self.hooks.as_slice().into(),
                policy: self.policy.clone(),
                pauses,
                #[cfg(feature = "signed-approvals")]
                approval_key: self.approval_key.clone(),
                depth,
            });
        }
    }
}

impl<P, C, D> AgentLoopBuilder<P, C, D> {
    /// Lets the hooks of the run around a tool call watch an agent inside it too: before its own, and
    /// with all that they may do. [`HookScope::within`](neuron_types::HookScope::within) tells them whose
    /// events they see. `ctx` is the tool's. Default: an agent has only its own hooks.
    pub fn inherit_hooks(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = ctx.extensions.get::<EnclosingRun>() {
            self.hooks.splice(..0, run.hooks.iter().cloned());
        }
        self
    }

    /// Lets who decides on the calls of the run around a tool call decide on those of an agent inside
    /// it too, in place of its own [policy](Self::permission_policy), which stays where nobody decides on
    /// those; it waits for approvals, and signs them, as that run does. `ctx` is the tool's. Without a run
    /// around the call nothing changes.
    pub fn inherit_permissions(mut self, ctx: &ToolContext) -> Self {
        let run = ctx.extensions.get::<EnclosingRun>();
        if let Some(policy) = run.and_then(|run| run.policy.as_ref()) {
            self.policy = Some(policy.clone());
        }
        self.inherit_pauses(ctx)
    }

    /// Lets an agent inside a tool call wait for approvals, and sign them, if the run around the call
    /// does: one that waits where the run around it does not is denied. Its
    /// [policy](Self::permission_policy) is its own. `ctx` is the tool's. Without a run around the call
    /// nothing changes.
    pub fn inherit_pauses(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = ctx.extensions.get::<EnclosingRun>() {
            self.config.pause_for_approval = run.pauses;
            #[cfg(feature = "signed-approvals")]
            self.approval_key.clone_from(&run.approval_key);
        }
        self
    }
}
