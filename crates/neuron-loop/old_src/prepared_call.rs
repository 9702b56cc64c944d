//! One call of the model, with what is changed for it alone: undone however the call ends.

use std::mem::swap;

use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, LoopError, Message, Provider,
    ProviderError, SystemPrompt, TokenUsage, ToolChoice, ToolContext, ToolDefinition,
};

use crate::budget::{Amount, Reservation};
use crate::compaction::KnownSize;
use crate::held_back::HeldBack;
use crate::model_call::Broken;
use crate::prepare_turn::TurnSetup;
use crate::sink::Sink;
use crate::{AgentLoop, RequestSettings};

/// The tokens that a run's first answer is estimated at.
const FIRST_ANSWER: usize = 1_000;

/// One call of the model. Dropping it undoes what was changed for it, so that after an answer, an
/// error, a cancellation, a dropped future or a panic the request is as before.
pub(crate) struct PreparedCall<'a, P, C, D> {
    agent: &'a mut AgentLoop<P, C, D>,
    /// What is exchanged with the request: first what the call sends, then what was there before.
    exchanged: Option<Exchanged>,
    /// Where the notice stands in the conversation, which is taken back if there is no answer.
    notice: Option<usize>,
    /// What is reserved of the budget for it, and what the run had used before.
    reserved: Option<(Reservation, (usize, Amount))>,
    /// Whether the provider refused the call: then it took no tokens.
    is_refused: bool,
    /// Whether the answer was handed on, with the calls that it started early.
    is_answered: bool,
}

struct Exchanged {
    settings: RequestSettings,
    system: Option<SystemPrompt>,
    /// `None`: all tools are offered.
    tools: Option<Vec<ToolDefinition>>,
}

impl<'a, P: Provider, C: ContextStrategy, D: DurableContext> PreparedCall<'a, P, C, D> {
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
        Self {
            agent,
            exchanged: None,
            notice: None,
            reserved: None,
            is_refused: false,
            is_answered: false,
        }
    }

    fn change(&mut self, changes: Exchanged) {
        self.agent.run.offered = self.agent.offered(&changes);
        self.exchanged = Some(changes);
        self.exchange();
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> PreparedCall<'_, P, C, D> {
    /// Makes the call, if there is room for it in the budget. A stream that breaks is tried again as
    /// often as the configuration says.
    pub(crate) async fn make<S: Sink>(
        mut self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<CompletionResponse, LoopError> {
        let held = HeldBack::new(sink, self.agent.hooks().hold_back_text());
        let mut attempt = 1;
        let response = loop {
            self.reserve()?;
            let mut broken = Broken::default();
            match self.agent.attempt(ctx, &held, &mut broken).await {
                Ok(response) => break response,
                Err(error) => {
                    self.is_refused = is_refusal(&error);
                    self.settle();
                    if !broken.may_pass || attempt > self.agent.config.stream_retries {
                        return Err(error);
                    }
                    attempt += 1;
                    held.forget();
                    self.agent.reset(error, attempt, ctx, sink).await?;
                }
            }
        };
        if let Err(error) = self.agent.tell_of_answer(&response, &held).await {
            let early = std::mem::take(&mut self.agent.run.early);
            self.agent.give_up(early, Some(&error)).await;
            return Err(error);
        }
        // The answer follows it.
        self.notice = None;
        self.is_answered = true;
        Ok(response)
    }

    fn reserve(&mut self) -> Result<(), LoopError> {
        let Some(budget) = &self.agent.run.budget else {
            return Ok(());
        };
        let (input_tokens, output_tokens) = self.agent.estimated_call();
        let before = self.agent.spent();
        match budget.reserve(input_tokens, output_tokens) {
            Ok(reservation) => self.reserved = Some((reservation, before)),
            Err(error) => {
                // The turn was announced: should the run land softly, that is not done again.
                self.agent.run.turn_open = true;
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<P, C, D> PreparedCall<'_, P, C, D> {
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

    /// Exchanges what was reserved for what the call took, as far as that is known.
    fn settle(&mut self) {
        let Some((mut reservation, (turns, before))) = self.reserved.take() else {
            return;
        };
        let (turns_now, now) = self.agent.spent();
        let spent = now.minus(before);
        let is_known = turns_now > turns || self.is_refused || spent.requests == 0;
        reservation.close(match is_known {
            true => spent,
            false => spent.or_at_least(Amount { requests: 0, ..reservation.amount() }),
        });
    }
}

impl<P, C, D> Drop for PreparedCall<'_, P, C, D> {
    fn drop(&mut self) {
        self.settle();
        self.exchange();
        if !self.is_answered {
            // What still runs stops with the call.
            let early = std::mem::take(&mut self.agent.run.early);
            self.agent.run.count_given_up(&early);
            drop(early);
            self.agent.count_tool_usage();
        }
        if let Some(index) = self.notice {
            self.agent.request.messages.truncate(index);
            self.agent.passed_messages = self.agent.passed_messages.min(index);
        }
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// What the next call takes, as well as that is known: the tokens of the prompt and the answer.
    fn estimated_call(&self) -> (usize, usize) {
        let prompt = match self.context.counts_tokens() {
            true => self.current_tokens(),
            false => self.size.map(KnownSize::tokens).unwrap_or_default(),
        };
        let most = self.request.max_tokens.unwrap_or(usize::MAX);
        let (_, Amount { output_tokens, .. }) = self.spent();
        let answer = output_tokens.checked_div(self.run.turns);
        (prompt, answer.unwrap_or(FIRST_ANSWER).min(most))
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// The answered calls of the run, and what it has taken of a budget for calls of the model. What its
    /// tools took is none of it.
    fn spent(&self) -> (usize, Amount) {
        let of = |TokenUsage { input_tokens, output_tokens, .. }: &TokenUsage| Amount {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            requests: 0,
            tool_calls: 0,
        };
        let own = of(&self.run.usage).minus(of(&self.run.tool_usage));
        (self.run.turns, Amount { requests: self.run.requests, ..own })
    }

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

/// Whether the provider refused a call, so that it took no tokens.
fn is_refusal(error: &LoopError) -> bool {
    use ProviderError as E;
    matches!(
        error,
        LoopError::Provider(
            E::RateLimit { .. }
                | E::ModelLoading(_)
                | E::ServiceUnavailable(_)
                | E::Authentication(_)
                | E::InvalidRequest(_)
                | E::ContextWindowExceeded(_)
                | E::ModelNotFound(_)
                | E::InsufficientResources(_)
        )
    )
}
