//! Asking and telling the hooks.

use neuron_types::{
    BoxedHook, DurableContext, HookAction, HookEvent, HookScope, LoopError, ObservabilityHook,
    Operation, OperationKind, ProviderInfo, Scopes,
};

/// The hooks of an agent, and where in the run they are called.
#[derive(Clone, Copy)]
pub(crate) struct Hooks<'a> {
    pub(crate) hooks: &'a [BoxedHook],
    pub(crate) scope: HookScope<'a>,
}

impl<'a> Hooks<'a> {
    pub(crate) fn new(
        hooks: &'a [BoxedHook],
        run_id: &'a str,
        turn: usize,
        provider: ProviderInfo<'a>,
        model: &'a str,
        durability: Option<&impl DurableContext>,
    ) -> Self {
        let model = if model.is_empty() { provider.default_model } else { model };
        let replaying = durability.is_some_and(DurableContext::is_replaying);
        let scope = HookScope::new(run_id, turn, provider.name, model).with_replaying(replaying);
        Self { hooks, scope }
    }

    /// The same hooks, within a tool call.
    pub(crate) fn in_call(self, call_id: &'a str) -> Self {
        Self { scope: self.scope.in_call(call_id), ..self }
    }

    /// Lets every hook see an event, and returns the strongest wish: the reason to skip, if one
    /// wants that.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook wants the run to end.
    pub(crate) async fn ask(&self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        let (mut skip, mut terminate) = (None, None);
        for hook in self.hooks {
            match hook.on_event_in(event, &self.scope).await {
                Ok(HookAction::Continue) => {}
                Ok(HookAction::Skip { reason }) => skip = skip.or(Some(reason)),
                Ok(HookAction::Terminate { reason }) => terminate = terminate.or(Some(reason)),
                Err(error) if hook.fails_closed() => {
                    tracing::error!(%error, "a hook that guards failed");
                    terminate = terminate.or(Some(format!("a guarding hook failed: {error}")));
                }
                Err(error) => tracing::warn!(%error, "a hook failed; the run goes on"),
            }
        }
        match terminate {
            Some(reason) => Err(LoopError::HookTerminated(reason)),
            None => Ok(skip),
        }
    }

    /// Lets every hook see an event that it cannot change.
    pub(crate) async fn tell(&self, event: HookEvent<'_>) {
        self.ask(event).await.ok();
    }

    /// Opens the hooks' scopes around an operation.
    pub(crate) fn open(&self, kind: OperationKind<'_>) -> Scopes {
        Scopes::open(self.hooks, &Operation::new(self.scope, kind))
    }
}
