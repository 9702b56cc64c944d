//! Asking and telling the hooks.

use neuron_types::{
    BoxedHook, HookAction, HookEvent, HookScope, LoopError, ObservabilityHook, Operation,
    OperationKind, Scopes, ToolCall, ToolDefinition,
};

/// The hooks of an agent, and where in the run they are called.
#[derive(Clone, Copy)]
pub(crate) struct Hooks<'a> {
    pub(crate) hooks: &'a [BoxedHook],
    pub(crate) scope: HookScope<'a>,
    /// The tools that the model is offered.
    pub(crate) offered: &'a [ToolDefinition],
}

impl<'a> Hooks<'a> {
    /// The same hooks, within a tool call.
    pub(crate) fn in_call<'b>(self, call_id: &'b str) -> Hooks<'b>
    where
        'a: 'b,
    {
        Hooks { scope: self.scope.in_call(call_id), ..self }
    }

    /// Lets every hook see an event. Returns the first reason to skip a tool call.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook ends the run.
    pub(crate) async fn ask(&self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        let (mut skip, mut terminate) = (None, None);
        for hook in self.hooks {
            match hook.on_event_in(event, &self.scope).await {
                Ok(HookAction::Continue) => {}
                Ok(HookAction::Skip { reason }) => skip = skip.or(Some(reason)),
                Ok(HookAction::Terminate { reason }) => terminate = terminate.or(Some(reason)),
                // Outside of any span: exporters of spans export what is logged within them.
                Err(error) => {
                    tracing::warn!(parent: None, %error, "a hook failed; the run goes on");
                }
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

    /// Tells that a tool call ended without a result of its own.
    pub(crate) async fn tell_failed(self, call: &ToolCall, error: &LoopError) {
        self.in_call(&call.id).tell(HookEvent::ToolError { tool_name: &call.name, error }).await;
    }

    /// Opens the hooks' scopes around a tool call.
    pub(crate) fn open_call(&self, call: &ToolCall) -> Scopes {
        self.in_call(&call.id).open(OperationKind::ToolCall { call, offered: self.offered })
    }

    /// Opens the hooks' scopes around an operation.
    pub(crate) fn open(&self, kind: OperationKind<'_>) -> Scopes {
        Scopes::open(self.hooks, &Operation::new(self.scope, kind))
    }
}
