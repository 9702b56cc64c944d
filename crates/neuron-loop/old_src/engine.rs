//! The engine: one run, turn by turn. `run`, `run_stream` and `run_step` are drivers of it.

use neuron_types::{
    AgentResult, ApprovalDecisions, ApprovalError, CompletionResponse, ContentBlock,
    ContextStrategy, DurableContext, HookEvent, LoopError, Message, OperationKind, Outcome,
    Provider, ProviderError, Role, Scopes, StopReason, StreamEvent, ToolCall, ToolContext,
};

use crate::AgentLoop;
use crate::approval;
use crate::cancel;
use crate::hooks::Hooks;
use crate::limits;
use crate::overflow::{cut_off_by_the_window, is_overflow};
use crate::permits::has_invalid_arguments;
use crate::prepared_call::PreparedCall;
use crate::run_state::RunState;
use crate::sink::Sink;
use crate::tool_results::ToolResults;

/// How often in a row the provider may pause its turn before the paused answer is returned.
const MAX_PAUSES: usize = 16;

/// What a step of the engine did.
pub(crate) enum Step {
    Tools { calls: Vec<ToolCall> },
    Compacted { old_tokens: usize, new_tokens: usize },
    Final(AgentResult),
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Starts a run with the user's message.
    pub(crate) fn begin(&mut self, message: Message, ctx: &ToolContext) {
        self.begin_without_message(ctx);
        self.add_message(message);
    }

    /// Starts a run from the conversation as it is.
    pub(crate) fn begin_without_message(&mut self, ctx: &ToolContext) {
        let budget = self.budget.as_ref();
        self.run = RunState::new(self.runs, ctx, self.durability.as_ref(), budget);
        self.enclose(ctx);
        self.runs = self.runs.saturating_add(1);
        self.pending = None;
        self.refresh_request();
        self.context_budget.begin_run();
    }

    /// Lets the run that waits go on with what was decided.
    pub(crate) fn begin_again(
        &mut self,
        decisions: ApprovalDecisions,
        ctx: &ToolContext,
    ) -> Result<(), LoopError> {
        self.accept(decisions)?;
        // Of a part that was dropped, the hooks hear no end later on.
        self.run.announced = false;
        self.run.take_from(ctx, self.budget.as_ref());
        self.enclose(ctx);
        self.refresh_request();
        Ok(())
    }

    /// Takes decisions that fit the calls that wait.
    pub(crate) fn accept(&mut self, decisions: ApprovalDecisions) -> Result<(), ApprovalError> {
        let pending = self.pending.as_ref().ok_or(ApprovalError::NothingPending)?;
        #[cfg(feature = "signed-approvals")]
        self.check_signatures(pending)?;
        approval::check(pending, &decisions, &self.tools)?;
        self.run.decisions = Some(decisions);
        Ok(())
    }

    /// Runs to the end.
    pub(crate) async fn drive<S: Sink>(
        &mut self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<AgentResult, LoopError> {
        let mut scopes = self.open_run(ctx);
        let whole = async {
            let result = self.take_turns(ctx, sink).await;
            self.conclude(ctx, result.as_ref()).await;
            result
        };
        let result = scopes.run(whole).await;
        scopes.end(run_outcome(result.as_ref()));
        result
    }

    async fn take_turns<S: Sink>(
        &mut self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<AgentResult, LoopError> {
        self.announce(ctx).await?;
        loop {
            if let Step::Final(result) = self.step(ctx, sink).await? {
                return Ok(result);
            }
        }
    }

    /// Opens the hooks' scopes around the run.
    pub(crate) fn open_run(&self, ctx: &ToolContext) -> Scopes {
        match cancel::check(ctx) {
            Ok(()) => self.hooks().open(OperationKind::Run {
                session_id: &ctx.session_id,
                request: &self.request.view(),
            }),
            Err(_) => Scopes::default(),
        }
    }

    /// Tells the hooks that the run starts. A run that is cancelled already is none.
    pub(crate) async fn announce(&mut self, ctx: &ToolContext) -> Result<(), LoopError> {
        self.hooks().ask(HookEvent::SessionStart { session_id: &ctx.session_id }).await?;
        cancel::check(ctx)?;
        self.run.announced = true;
        self.hooks().ask(HookEvent::RunStart { run_id: &self.run.id }).await?;
        Ok(())
    }

    /// Tells the hooks that the run ended, and the durable engine how.
    pub(crate) async fn conclude(
        &mut self,
        ctx: &ToolContext,
        result: Result<&AgentResult, &LoopError>,
    ) {
        if std::mem::take(&mut self.run.announced) {
            self.hooks().tell(HookEvent::RunEnd { result }).await;
            if let Some(durability) = &self.durability {
                durability.run_ended(result).await;
            }
        }
        self.hooks().tell(HookEvent::SessionEnd { session_id: &ctx.session_id }).await;
    }

    /// Advances the run until there is something to report: tools ran, the history was compacted,
    /// or the answer is there.
    pub(crate) async fn step<S: Sink>(
        &mut self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<Step, LoopError> {
        let within = self.config.cancel_mode.within_turn(ctx);
        if let Some((stop_reason, response)) = self.run.stopped.take() {
            return Ok(Step::Final(AgentResult { response, ..self.result(stop_reason) }));
        }
        loop {
            if self.awaits_signal() {
                Box::pin(self.await_decisions(ctx)).await?;
            }
            let step = match self.run.decisions.take() {
                Some(decisions) => {
                    cancel::check(ctx)?;
                    Box::pin(self.run_decided(decisions, &within, sink)).await
                }
                // In a box: the run of an agent inside this one stands on the same stack, and each
                // future that holds this one would have room for a copy of it there.
                None => Box::pin(self.advance(ctx, &within, sink)).await,
            };
            if let Some(limit) = step.as_ref().err().and_then(|error| self.limit_to_land_on(error))
            {
                cancel::check(ctx)?;
                return Box::pin(self.finalize(limit, &within, sink)).await;
            }
            let is_pause = matches!(step, Err(LoopError::ApprovalRequired(_)));
            if !(is_pause && self.awaits_signal()) {
                return step;
            }
        }
    }

    /// `ctx` says whether another turn may begin, `within` whether what it does may go on.
    async fn advance<S: Sink>(
        &mut self,
        ctx: &ToolContext,
        within: &ToolContext,
        sink: &S,
    ) -> Result<Step, LoopError> {
        loop {
            if std::mem::take(&mut self.run.turn_open) {
                cancel::check(ctx)?;
            } else {
                self.open_turn(ctx).await?;
                if let Some(compacted) = self.compact_if_needed(within).await? {
                    self.run.turn_open = true;
                    return Ok(compacted);
                }
            }
            // Again: compacting may have cost tokens.
            limits::before_call(&self.config, &self.run)
                .inspect_err(|_| self.run.turn_open = true)?;
            self.remind(within);
            let answered = Box::pin(PreparedCall::new(self).make(within, sink)).await;
            if is_overflow(&answered) {
                if let Some(compacted) = self.make_room(within).await? {
                    // An answer that was cut off was a turn; a call that was refused was none.
                    self.run.turn_open = answered.is_err();
                    if S::DELTAS {
                        let error = answered.err().unwrap_or_else(cut_off_by_the_window).into();
                        sink.emit(StreamEvent::Reset { attempt: 2, error }).await;
                    }
                    return Ok(compacted);
                }
            } else {
                self.run.overflowed = false;
            }
            let response = answered?;
            let stop_reason = response.stop_reason.clone();
            let step = Box::pin(self.take_answer(response, within, sink)).await;
            let early = std::mem::take(&mut self.run.early);
            self.give_up(early, step.as_ref().err()).await;
            if let Some(step) = step? {
                self.stop_if_asked(&step, stop_reason);
                return Ok(step);
            }
        }
    }

    /// Checks whether another turn may start, and announces it.
    async fn open_turn(&mut self, ctx: &ToolContext) -> Result<(), LoopError> {
        cancel::check(ctx)?;
        if self.request.messages.iter().all(|message| message.role == Role::System) {
            let text = "the conversation has only system messages: there is nothing to answer";
            return Err(ProviderError::InvalidRequest(text.into()).into());
        }
        self.continue_as_new_if_due().await?;
        limits::before_call(&self.config, &self.run)?;
        self.announce_turn().await
    }

    /// Tells the hooks that a turn begins.
    pub(crate) async fn announce_turn(&mut self) -> Result<(), LoopError> {
        self.run.turn = self.run.turns;
        self.hooks().ask(HookEvent::LoopIteration { turn: self.run.turn }).await?;
        Ok(())
    }

    /// Decides what an answer means: the end, a pause, or tools to run.
    pub(crate) async fn take_answer<S: Sink>(
        &mut self,
        response: CompletionResponse,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<Option<Step>, LoopError> {
        let CompletionResponse { mut message, stop_reason, usage, .. } = response;
        // Whatever a provider calls it, it is the answer.
        message.role = Role::Assistant;
        let calls = approval::calls_of(&message);
        self.run.is_paused = calls.is_empty() && is_pause(&stop_reason);
        // Providers reject a message without content.
        if !message.content.is_empty() {
            self.request.messages.push(message);
        }
        self.note_size(&usage);
        if calls.is_empty() {
            if self.run.is_paused && self.run.pauses < MAX_PAUSES {
                self.run.pauses += 1;
                return Ok(None);
            }
            return self.end_with_answer(stop_reason);
        }
        self.run.pauses = 0;
        let is_invalid =
            |call: &ToolCall| has_invalid_arguments(call, self.tools.definition(&call.name));
        if let Some(why) = calls_must_not_run(&stop_reason, calls.iter().any(is_invalid)) {
            ToolResults::open(&mut self.request.messages, &calls).because(why);
            return self.end_with_answer(stop_reason);
        }
        self.run_tools(calls, None, stop_reason, ctx, sink).await.map(Some)
    }

    /// Ends the run with the last answer, unless a typed run lacks its output: then the model is told
    /// so, and goes on.
    fn end_with_answer(&mut self, stop_reason: StopReason) -> Result<Option<Step>, LoopError> {
        if let Some(output) = &mut self.run.output
            && let Some(complaint) = output.take_answer(&self.request.messages, &stop_reason)?
        {
            self.request.messages.push(Message::user(complaint));
            return Ok(None);
        }
        Ok(Some(Step::Final(self.result(stop_reason))))
    }

    pub(crate) fn result(&self, stop_reason: StopReason) -> AgentResult {
        let messages = self.request.messages.clone();
        AgentResult {
            response: answer_text(&messages),
            messages,
            usage: self.run.usage.clone(),
            turns: self.run.turns,
            stop_reason,
            limit_reached: self.run.limit.as_ref().map(|limit| limit.error().to_string()),
        }
    }

    /// The hooks, at this point of the run.
    pub(crate) fn hooks(&self) -> Hooks<'_> {
        Hooks::new(
            &self.hooks,
            &self.run.id,
            self.run.turn,
            self.provider.info(),
            &self.request.model,
            &self.request.tools,
            self.durability.as_ref(),
        )
        .of_agent(&self.config.name, self.run.within.as_ref())
    }
}

/// The text of the assistant's messages since the last user message; results of calls that a cut-off
/// answer made do not count as one.
pub(crate) fn answer_text(messages: &[Message]) -> String {
    let is_result = |block: &ContentBlock| block.as_tool_result_id().is_some();
    let messages = match messages {
        [rest @ .., last] if last.content.iter().any(is_result) => rest,
        all => all,
    };
    let start = messages.iter().rposition(|message| message.role == Role::User);
    let answer = messages.iter().skip(start.map_or(0, |index| index + 1));
    answer.filter(|message| message.role == Role::Assistant).map(Message::text).collect()
}

/// How a run ended, for its scopes.
pub(crate) fn run_outcome<'a>(result: Result<&'a AgentResult, &'a LoopError>) -> Outcome<'a> {
    match result {
        Ok(result) => Outcome::Run(result),
        Err(error) => Outcome::Error(error),
    }
}

/// Whether the model goes on with what it said when it is called again.
fn is_pause(stop_reason: &StopReason) -> bool {
    matches!(stop_reason, StopReason::PauseTurn | StopReason::Compaction)
}

/// Says why the calls of an answer must not run: it was refused, or cut off within one.
fn calls_must_not_run(stop_reason: &StopReason, cut_off: bool) -> Option<&'static str> {
    match stop_reason {
        StopReason::Refusal => Some("the model refused to go on"),
        StopReason::MaxTokens | StopReason::ContentFilter | StopReason::ContextWindowExceeded
            if cut_off =>
        {
            Some("the model's answer was cut off within the arguments of a tool call")
        }
        _ => None,
    }
}
