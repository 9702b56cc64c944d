//! Asking and telling the hooks.

use neuron_types::{
    BoxedHook, DurableContext, HookAction, HookEvent, HookScope, LoopError, ObservabilityHook,
    Operation, OperationKind, ProviderInfo, Scopes, ToolCall, ToolDefinition,
};

use crate::enclosing_run::Within;

/// The hooks of an agent, and where in the run they are called.
#[derive(Clone, Copy)]
pub(crate) struct Hooks<'a> {
    pub(crate) hooks: &'a [BoxedHook],
    pub(crate) scope: HookScope<'a>,
    /// The tools that the model is offered.
    offered: &'a [ToolDefinition],
}

impl<'a> Hooks<'a> {
    pub(crate) fn new(
        hooks: &'a [BoxedHook],
        run_id: &'a str,
        turn: usize,
        provider: ProviderInfo<'a>,
        model: &'a str,
        offered: &'a [ToolDefinition],
        durability: Option<&impl DurableContext>,
    ) -> Self {
        let model = if model.is_empty() { provider.default_model } else { model };
        let replaying = durability.is_some_and(DurableContext::is_replaying);
        let scope = HookScope::new(run_id, turn, provider.name, model)
            .at_server(provider.server_address, provider.server_port)
            .with_replaying(replaying);
        Self { hooks, scope, offered }
    }

    /// The same hooks, of an agent with a name, inside a call of another.
    pub(crate) fn of_agent(self, name: &'a str, within: Option<&'a Within>) -> Self {
        let scope = self.scope.of_agent(name).with_outer_call(within.map(Within::outer_call));
        Self { scope, ..self }
    }

    /// The same hooks, within a tool call.
    pub(crate) fn in_call(self, call_id: &'a str) -> Self {
        Self { scope: self.scope.in_call(call_id), ..self }
    }

    /// The same hooks, before a call of the model.
    pub(crate) fn before_call(self, passed_messages: usize) -> Self {
        Self { scope: self.scope.with_passed_messages(passed_messages), ..self }
    }

    /// The same hooks, after an answer of the model.
    pub(crate) fn of_answer(self, said_before: &'a str, output_tool: Option<&'a str>) -> Self {
        Self { scope: self.scope.of_answer(said_before, output_tool), ..self }
    }

    /// Whether a hook may want an answer not to be told.
    pub(crate) fn keep_text_from_readers(&self) -> bool {
        self.hooks.iter().any(|hook| hook.rejects_text() || hook.holds_back_text())
    }

    /// Whether a hook wants the deltas of an answer to wait for the whole.
    pub(crate) fn hold_back_text(&self) -> bool {
        self.hooks.iter().any(ObservabilityHook::holds_back_text)
    }

    /// Lets every hook see an event, and returns the strongest wish: the reason to skip, if one
    /// wants that.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook wants the run to end.
    pub(crate) async fn ask(&self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        self.wishes(event).await.into_result()
    }

    /// Lets every hook see an event, and returns what they want.
    pub(crate) async fn wishes(&self, event: HookEvent<'_>) -> Wishes {
        let mut wishes = Wishes::default();
        for hook in self.hooks {
            let reason = match hook.on_event_in(event, &self.scope).await {
                Ok(HookAction::Continue) => continue,
                Ok(HookAction::Skip { reason }) => {
                    wishes.skip.get_or_insert(reason);
                    continue;
                }
                Ok(HookAction::Terminate { reason }) => reason,
                // Both of no span: whoever exports spans exports what is logged within them.
                Err(error) if hook.fails_closed() => {
                    tracing::error!(parent: None, %error, "a hook that guards failed");
                    format!("a guarding hook failed: {error}")
                }
                Err(error) => {
                    tracing::warn!(parent: None, %error, "a hook failed; the run goes on");
                    continue;
                }
            };
            wishes.terminate.get_or_insert(reason);
            let rejects_text = hook.rejects_text();
            wishes.rejects_text |= rejects_text;
            wishes.rejects_tool_results |= rejects_text && hook.rejects_tool_results();
        }
        wishes
    }

    /// Lets every hook see an event that it cannot change.
    pub(crate) async fn tell(&self, event: HookEvent<'_>) {
        self.ask(event).await.ok();
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

/// What the hooks want done after an event.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// The first reason to skip a tool call.
    skip: Option<String>,
    /// The first reason to end the run.
    terminate: Option<String>,
    /// Whether one of those that end the run rejects the text.
    rejects_text: bool,
    /// Whether one of them rejects the results of tools too.
    pub(crate) rejects_tool_results: bool,
}

impl Wishes {
    pub(crate) fn is_termination(&self) -> bool {
        self.terminate.is_some()
    }

    /// Whether the run ends, and the text on which it does must not stay.
    pub(crate) fn is_rejection(&self) -> bool {
        self.rejects_text
    }

    /// Why the run ends.
    pub(crate) fn into_reason(self) -> String {
        self.terminate.unwrap_or_default()
    }

    /// The strongest wish: to end the run, else to skip.
    pub(crate) fn into_result(self) -> Result<Option<String>, LoopError> {
        match self.terminate {
            Some(reason) => Err(LoopError::HookTerminated(reason)),
            None => Ok(self.skip),
        }
    }
}
