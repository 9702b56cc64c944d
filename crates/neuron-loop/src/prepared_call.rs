//! One call of the model, with what is changed for it alone: undone however the call ends.

use std::mem::swap;

use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, LoopError, Provider, SystemPrompt,
    ToolContext, ToolDefinition,
};

use crate::prepare_turn::TurnSetup;
use crate::sink::Sink;
use crate::{AgentLoop, RequestSettings};

/// One call of the model. Dropping it undoes what was changed for it, so that after an answer, an
/// error, a cancellation, a dropped future or a panic the request is as before.
pub(crate) struct PreparedCall<'a, P, C, D> {
    agent: &'a mut AgentLoop<P, C, D>,
    /// What is exchanged with the request: first what the call sends, then what was there before.
    exchanged: Option<Exchanged>,
}

struct Exchanged {
    settings: RequestSettings,
    system: Option<SystemPrompt>,
    /// `None`: all tools are offered.
    tools: Option<Vec<ToolDefinition>>,
}

impl<'a, P, C, D> PreparedCall<'a, P, C, D> {
    /// Asks the callbacks what to change.
    pub(crate) fn new(agent: &'a mut AgentLoop<P, C, D>) -> Self {
        agent.refresh_request();
        let exchanged = agent.asked_to_change();
        agent.run.offered = exchanged.as_ref().and_then(|changes| agent.offered(changes));
        let mut call = Self { agent, exchanged };
        call.exchange();
        call
    }

    fn exchange(&mut self) {
        let Some(Exchanged { settings, system, tools }) = &mut self.exchanged else {
            return;
        };
        let request = &mut self.agent.request;
        settings.swap_with(request);
        swap(system, &mut request.system);
        if let Some(tools) = tools {
            swap(tools, &mut request.tools);
        }
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> PreparedCall<'_, P, C, D> {
    /// Makes the call.
    pub(crate) async fn make<S: Sink>(
        self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<CompletionResponse, LoopError> {
        self.agent.call_model(ctx, sink).await
    }
}

impl<P, C, D> Drop for PreparedCall<'_, P, C, D> {
    fn drop(&mut self) {
        self.exchange();
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    fn asked_to_change(&self) -> Option<Exchanged> {
        if self.prepare.is_empty() {
            return None;
        }
        let (settings, prompt) = (self.config.request.clone(), self.config.system_prompt.clone());
        let mut turn = TurnSetup::new(self.view(), settings, prompt, &self.request.tools);
        for callback in &self.prepare {
            callback.prepare(&mut turn);
        }
        let tools = turn.fewer_tools();
        let TurnSetup { settings, system_prompt, .. } = turn;
        let system = Some(system_prompt).filter(|prompt| !prompt.is_empty());
        Some(Exchanged { settings, system, tools })
    }

    /// The tools that can be called in this turn; `None` if these are all.
    fn offered(&self, changes: &Exchanged) -> Option<ToolRegistry> {
        let definitions = changes.tools.as_ref()?;
        let mut offered = self.tools.clone();
        for name in self.tools.names() {
            if definitions.iter().all(|definition| definition.name != name) {
                offered.remove(name);
            }
        }
        Some(offered)
    }
}
