//! The definition of an agent, which all its conversations share.

use std::sync::{Arc, OnceLock};

use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalSigner, BoxedHook, BoxedLayer, Budget, ContextStrategyDyn, Durability, Injector,
    LoopConfig, Message, ObservabilityHook, PermissionPolicy, ProviderDyn, RequestRef,
    RequestSettings, Retry, RunView, SystemPrompt, ToolDefinition, WasmCompatSend, WasmCompatSync,
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
            Derived {
                tools: self.tools.visible_definitions(),
                deferred: self.tools.defers_tools().then(|| self.tools.deferred_definitions()),
                layers: self.layers.iter().cloned().chain(of_hooks).chain(retry).collect(),
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

/// The system prompt, the tools and the settings of a request. The messages are added per request.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) system: Option<&'a SystemPrompt>,
    pub(crate) tools: &'a [ToolDefinition],
    pub(crate) settings: &'a RequestSettings,
    /// Estimated tokens of the system prompt, the tools and the settings, computed on first use.
    size: &'a OnceLock<usize>,
}

impl<'a> Frame<'a> {
    /// Returns a request with these messages and with the system prompt, the tools and the settings of the frame.
    pub(crate) fn request(self, messages: &'a [Message]) -> RequestRef<'a> {
        let Self { system, tools, settings, .. } = self;
        RequestRef { messages, system, tools, ..RequestRef::default() }.with_settings(settings)
    }

    /// Returns the estimated tokens of the frame. The estimate is computed once, with the strategy of the first call.
    pub(crate) fn size(self, strategy: &dyn ContextStrategyDyn) -> usize {
        *self.size.get_or_init(|| strategy.estimate_request_dyn(self.request(&[])))
    }
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

    /// Returns the frame of the agent's requests, which is the system prompt, the tools and the settings. The `changes`
    /// of a typed run replace parts of the frame.
    pub(crate) fn frame(self, changes: Option<&'a FrameChanges>) -> Frame<'a> {
        let (config, derived) = (self.config(), self.definition.derived());
        let system = changes.and_then(|changes| changes.system.as_ref());
        let system = system.unwrap_or(&config.system_prompt);
        let tools = changes.and_then(|changes| changes.tools.as_deref());
        let settings = changes.and_then(|changes| changes.settings.as_ref());
        let size = || self.frame_size.unwrap_or(&derived.size);
        Frame {
            system: (!system.is_empty()).then_some(system),
            tools: tools.unwrap_or(&derived.tools),
            settings: settings.unwrap_or(&config.request),
            size: changes.map_or_else(size, |changes| &changes.size),
        }
    }
}
