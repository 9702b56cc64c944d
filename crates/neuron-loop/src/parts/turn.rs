//! The context of a turn, and the dispatch of its events to the hooks.

use std::ops::Deref;

use neuron_types::{
    BoxedHook, DurableContext, HookAction, HookEvent, HookScope, LoopError, ObservabilityHook,
    Operation, OperationKind, Scopes, ToolUseRef,
};

use super::{Env, outer_call};
use crate::ledger::Ledger;

/// The context of a run in one turn, and in one tool call of the turn. Dispatches events to the hooks.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) env: &'a Env<'a>,
    /// Number of the turn in its run, starting at zero.
    pub(crate) number: usize,
    call_id: Option<&'a str>,
}

impl<'a> Env<'a> {
    /// Returns the context of the current turn.
    pub(crate) fn turn(&'a self, ledger: &Ledger) -> Turn<'a> {
        Turn { env: self, number: ledger.tally().run.turn, call_id: None }
    }
}

impl<'a> Deref for Turn<'a> {
    type Target = Env<'a>;

    fn deref(&self) -> &Env<'a> {
        self.env
    }
}

impl<'a> Turn<'a> {
    /// Returns the context of a tool call of the turn.
    pub(crate) fn in_call(self, call_id: &'a str) -> Self {
        Self { call_id: Some(call_id), ..self }
    }

    pub(crate) fn hooks(self) -> &'a [BoxedHook] {
        &self.env.parts.definition.hooks
    }

    /// Returns the facts about the run that each event carries.
    fn scope(self) -> HookScope<'a> {
        let Env { parts, frame, ctx, run, .. } = self.env;
        let provider = parts.model.info_dyn();
        let model = frame.settings.model.as_str();
        let model = if model.is_empty() { provider.default_model } else { model };
        let replaying = parts.durability.is_some_and(DurableContext::is_replaying);
        let scope = HookScope::new(&run.run_id, self.number, provider.name, model)
            .at_server(provider.server_address, provider.server_port)
            .with_replaying(replaying)
            .with_routed(!provider.routes.is_empty())
            .of_agent(&parts.config().name)
            .with_outer_call(outer_call(ctx));
        self.call_id.map_or(scope, |call_id| scope.in_call(call_id))
    }

    /// Dispatches an event to all hooks, in order. Returns the reason of the first hook that skips the tool call, or
    /// `None` if no hook skips it.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook ends the run. An error of a hook is only logged.
    pub(crate) async fn dispatch(self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        // Boxed only if there are hooks, so that an agent without hooks does not allocate.
        if self.hooks().is_empty() { Ok(None) } else { Box::pin(self.dispatch_to_all(event)).await }
    }

    async fn dispatch_to_all(self, event: HookEvent<'_>) -> Result<Option<String>, LoopError> {
        let (mut skip, mut terminate) = (None, None);
        let scope = self.scope();
        for hook in self.hooks() {
            match hook.on_event_in(event, &scope).await {
                Ok(HookAction::Continue) => {}
                Ok(HookAction::Skip { reason }) => skip = skip.or(Some(reason)),
                // FAULT the last hook's wish wins: `terminate.or(Some(reason))` -> `Some(reason)`
                Ok(HookAction::Terminate { reason }) => terminate = terminate.or(Some(reason)),
                // Outside of any span, because span exporters also export the log records inside a span.
                Err(error) => {
                    // FAULT a hook's failure ends the run: the line -> `terminate =
                    //     terminate.or(Some(error.to_string()));`
                    tracing::warn!(parent: None, %error, "a hook failed; the run goes on");
                }
            }
        }
        match terminate {
            Some(reason) => Err(LoopError::HookTerminated(reason)),
            None => Ok(skip),
        }
    }

    /// Dispatches an event and ignores the hooks' actions.
    pub(crate) async fn notify(self, event: HookEvent<'_>) {
        self.dispatch(event).await.ok();
    }

    /// Notifies the hooks that a tool call ended with an error instead of a result.
    pub(crate) async fn notify_failed(self, call: ToolUseRef<'_>, error: &LoopError) {
        // FAULT the error of a call names no call: `self.in_call(call.id)` -> `self`
        self.in_call(call.id).notify(HookEvent::ToolError { tool_name: call.name, error }).await;
    }

    /// Opens the hooks' scopes, such as tracing spans, around a tool call. Returns empty scopes if there are no hooks.
    pub(crate) fn open_call(self, call: ToolUseRef<'_>) -> Scopes {
        if self.hooks().is_empty() {
            return Scopes::default();
        }
        // The tools of the agent. A layer may have offered fewer to the model. A deferred tool is not among them.
        let tools = self.run_tools();
        let deferred =
            tools.deferred.and_then(|all| all.iter().find(|tool| tool.name == call.name));
        let offered = deferred.map_or(tools.visible, std::slice::from_ref);
        let call = &call.to_call();
        self.in_call(&call.id).open(OperationKind::ToolCall { call, offered })
    }

    /// Opens the hooks' scopes, such as tracing spans, around an operation. Returns empty scopes if there are no hooks.
    pub(crate) fn open(self, kind: OperationKind<'_>) -> Scopes {
        match self.hooks().is_empty() {
            true => Scopes::default(),
            false => Scopes::open(self.hooks(), &Operation::new(self.scope(), kind)),
        }
    }
}
