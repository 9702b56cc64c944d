//! One call of the model, with what is changed for it alone: undone however the call ends.

use std::mem::swap;

use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, LoopError, Message, Provider,
    SystemPrompt, ToolChoice, ToolContext, ToolDefinition,
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
    /// Where the notice stands in the conversation, which is taken back if there is no answer.
    notice: Option<usize>,
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
        let mut call = Self::unchanged(agent);
        if !call.agent.prepare.is_empty() {
            let changes = call.agent.asked_to_change();
            call.change(changes);
        }
        call
    }

    /// The last call of a run: the model is told why, and no tool can be called.
    pub(crate) fn last(agent: &'a mut AgentLoop<P, C, D>, notice: Option<String>) -> Self {
        let mut call = Self::unchanged(agent);
        if let Some(notice) = notice {
            call.notice = Some(call.agent.request.messages.len());
            call.agent.request.messages.push(Message::system(notice.as_str()));
            call.agent.reminders.note(notice);
        }
        let mut changes = call.agent.asked_to_change();
        let tools = changes.tools.as_ref().unwrap_or(&call.agent.request.tools);
        let output = call.agent.run.output.as_ref().and_then(|output| output.tool_name());
        changes.settings.tool_choice = match output {
            Some(name) => Some(ToolChoice::Specific { name: name.to_owned() }),
            // Some vendors reject the choice where there are no tools.
            None => (!tools.is_empty()).then_some(ToolChoice::None),
        };
        call.change(changes);
        call
    }

    fn unchanged(agent: &'a mut AgentLoop<P, C, D>) -> Self {
        agent.refresh_request();
        agent.run.offered = None;
        Self { agent, exchanged: None, notice: None }
    }

    fn change(&mut self, changes: Exchanged) {
        self.agent.run.offered = self.agent.offered(&changes);
        self.exchanged = Some(changes);
        self.exchange();
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
        mut self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<CompletionResponse, LoopError> {
        let response = self.agent.call_model(ctx, sink).await?;
        // The answer follows it.
        self.notice = None;
        Ok(response)
    }
}

impl<P, C, D> Drop for PreparedCall<'_, P, C, D> {
    fn drop(&mut self) {
        self.exchange();
        if let Some(index) = self.notice {
            self.agent.request.messages.truncate(index);
        }
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    fn asked_to_change(&self) -> Exchanged {
        let (settings, prompt) = (self.config.request.clone(), self.config.system_prompt.clone());
        let mut turn = TurnSetup::new(self.view(), settings, prompt, &self.request.tools);
        for callback in &self.prepare {
            callback.prepare(&mut turn);
        }
        let tools = turn.fewer_tools();
        let TurnSetup { settings, system_prompt, .. } = turn;
        let system = Some(system_prompt).filter(|prompt| !prompt.is_empty());
        Exchanged { settings, system, tools }
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
