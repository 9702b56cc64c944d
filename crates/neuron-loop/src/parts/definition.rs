//! The definition of an agent, which all its conversations share, and what agents inside its tool calls inherit of it.

use std::sync::{Arc, OnceLock};

use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalSigner, BoxedHook, BoxedLayer, Budget, ContextStrategyDyn, Durability, Extensions,
    Injector, LoopConfig, ObservabilityHook, OuterCall, PermissionPolicy, ProviderDyn, RequestRef,
    RequestSettings, Retry, RunView, SystemPrompt, ToolContext, ToolDefinition, WasmCompatSend,
    WasmCompatSync,
};

use crate::conversation::SessionHandle;

/// A condition that ends a run after the tools of a response ran.
pub(crate) trait StopCondition:
    Fn(&RunView<'_>) -> bool + WasmCompatSend + WasmCompatSync
{
}

impl<F: Fn(&RunView<'_>) -> bool + WasmCompatSend + WasmCompatSync> StopCondition for F {}

/// Settings that all conversations of an agent share. The model and the context strategy are stored elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Definition {
    pub(crate) tools: ToolRegistry,
    pub(crate) hooks: Vec<BoxedHook>,
    /// Layers around the model calls, the outermost first. The layers of the hooks go inside them.
    pub(crate) layers: Vec<BoxedLayer>,
    pub(crate) config: LoopConfig,
    pub(crate) policy: Option<Arc<dyn PermissionPolicy>>,
    pub(crate) signer: Option<Arc<dyn ApprovalSigner>>,
    pub(crate) budget: Option<Budget>,
    pub(crate) injectors: Vec<Arc<dyn Injector>>,
    pub(crate) stop_conditions: Vec<Arc<dyn StopCondition>>,
    /// Values computed from the other fields on first use.
    derived: OnceLock<Derived>,
}

/// Values computed from a definition.
#[derive(Clone)]
pub(crate) struct Derived {
    pub(crate) tools: Vec<ToolDefinition>,
    /// The definitions of the deferred tools. `None` if tools are not deferred.
    pub(crate) deferred: Option<Vec<ToolDefinition>>,
    /// All layers around model calls, the outermost first.
    pub(crate) layers: Vec<BoxedLayer>,
    /// Set if a layer other than that of the retries may return a response of its own.
    pub(crate) has_own_layers: bool,
    /// All injectors. The injectors of the hooks are called last.
    pub(crate) injectors: Vec<Arc<dyn Injector>>,
    /// Estimated tokens of the agent's frame (system prompt, tools and settings), as counted by the agent's strategy.
    size: OnceLock<usize>,
}

impl Definition {
    /// Returns the values computed from the definition. Computes them on the first call.
    pub(crate) fn derived(&self) -> &Derived {
        self.derived.get_or_init(|| {
            // FAULT only the last hook guards: `ObservabilityHook::layer)` -> `ObservabilityHook::layer).last()`
            let of_hooks = self.hooks.iter().filter_map(ObservabilityHook::layer);
            let injectors = self.hooks.iter().filter_map(ObservabilityHook::injector);
            let retries = self.config.retries;
            let retry = (retries > 0).then(|| BoxedLayer::new(Retry::new(retries)));
            let mut layers: Vec<_> = self.layers.iter().cloned().chain(of_hooks).collect();
            let has_own_layers = !layers.is_empty();
            layers.extend(retry);
            Derived {
                tools: self.tools.visible_definitions(),
                deferred: self.tools.defers_tools().then(|| self.tools.deferred_definitions()),
                layers,
                has_own_layers,
                // FAULT injectors of hooks are left out: `chain(injectors)` -> `chain(injectors.take(0))`
                injectors: self.injectors.iter().cloned().chain(injectors).collect(),
                size: OnceLock::new(),
            }
        })
    }

    /// Returns the definition for a change, and discards the computed values.
    pub(crate) fn changed(&mut self) -> &mut Self {
        // FAULT a changed agent offers its former tools: without the line
        //     (lifecycle::messages_and_tools_can_change_between_steps)
        self.derived = OnceLock::new();
        self
    }
}

/// Changes that a typed run makes to the frame of its requests, which is all of a request except the messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameChanges {
    pub(crate) system: Option<SystemPrompt>,
    pub(crate) tools: Option<Vec<ToolDefinition>>,
    pub(crate) settings: Option<RequestSettings>,
    size: OnceLock<usize>,
}

/// Borrowed view of an agent's definition, model, strategy, durable engine and session.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) model: &'a dyn ProviderDyn,
    pub(crate) strategy: &'a dyn ContextStrategyDyn,
    pub(crate) definition: &'a Definition,
    /// Cache for the estimated tokens of the system prompt and the tools, if this run has its own context strategy.
    /// `None` if the run uses the agent's strategy, whose estimate the definition caches.
    pub(crate) frame_size: Option<&'a OnceLock<usize>>,
    /// The durable engine that executes model calls and tool calls.
    pub(crate) durability: Option<&'a Durability<'a>>,
    /// The session in which the conversation is stored while it runs.
    pub(crate) session: Option<&'a SessionHandle<'a>>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(
        model: &'a dyn ProviderDyn,
        strategy: &'a dyn ContextStrategyDyn,
        definition: &'a Definition,
    ) -> Self {
        Self { model, strategy, definition, frame_size: None, durability: None, session: None }
    }

    pub(crate) fn config(self) -> &'a LoopConfig {
        &self.definition.config
    }

    /// Returns `true` if a call waits when the policy requires an approval. `waits` is set if the run waits for
    /// decisions instead of ending.
    pub(crate) fn pauses(self, waits: bool) -> bool {
        waits || self.config().pauses(self.durability.is_some())
    }

    /// Returns the frame of the agent's requests, which is a request without messages, and the cell for its estimated
    /// tokens. The `changes` of a typed run replace parts of the frame.
    pub(crate) fn frame(
        self,
        changes: Option<&'a FrameChanges>,
    ) -> (RequestRef<'a>, &'a OnceLock<usize>) {
        let (config, derived) = (self.config(), self.definition.derived());
        let system = changes.and_then(|changes| changes.system.as_ref());
        let system = system.unwrap_or(&config.system_prompt);
        let tools = changes.and_then(|changes| changes.tools.as_deref());
        let settings = changes.and_then(|changes| changes.settings.as_ref());
        let frame = RequestRef {
            system: (!system.is_empty()).then_some(system),
            tools: tools.unwrap_or(&derived.tools),
            ..RequestRef::default()
        };
        let size = || self.frame_size.unwrap_or(&derived.size);
        let size = changes.map_or_else(size, |changes| &changes.size);
        (frame.with_settings(settings.unwrap_or(&config.request)), size)
    }
}

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
        ctx.extensions.get::<Self>().map_or(0, |run| run.depth.saturating_add(1))
    }
}

/// Returns the number of agents around an agent that runs with this context.
pub(crate) fn depth_in(ctx: &ToolContext) -> usize {
    EnclosingRun::depth_around(ctx).max(usize::from(!ctx.call_id.is_empty()))
}

/// Returns the tool call around a run with this context, or `None` for a top-level run.
pub(crate) fn outer_call(ctx: &ToolContext) -> Option<OuterCall<'_>> {
    let call = || OuterCall::new(&ctx.run_id, &ctx.call_id, depth_in(ctx));
    (!ctx.call_id.is_empty()).then(call)
}
