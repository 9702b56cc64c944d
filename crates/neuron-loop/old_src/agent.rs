//! The agent: what it is made of, and the ways to run it.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, ApprovalError, BoxedHook, CompletionRequest, ContentBlock,
    ContextStrategy, Durability, DurableContext, LoopError, Message, ObservabilityHook,
    PendingApproval, PendingCall, PermissionPolicy, Provider, ProviderError, Role, TokenUsage,
    ToolContext, WasmCompatSend, transcript,
};

#[cfg(feature = "signed-approvals")]
use crate::ApprovalKey;
use crate::approval;
use crate::compaction::KnownSize;
use crate::context_budget::ContextBudget;
use crate::prepare_turn::PrepareTurn;
use crate::reminders::Reminders;
use crate::run_state::RunState;
use crate::sink::Quiet;
use crate::snapshot::is_open;
use crate::stop_when::StopCondition;
use crate::{AgentLoopBuilder, AgentStream, Budget, LoopConfig, StepIterator};

/// An agent: a model, its tools, a strategy for its context, and a conversation.
///
/// Each run continues the conversation with one more message of the user; limits and usage count
/// for each run anew. The loop is described at the [crate's page](crate).
///
/// `D` is the durable context's type; almost always its default, [`Durability`], which holds any.
pub struct AgentLoop<P, C, D = Durability<'static>> {
    pub(crate) provider: P,
    pub(crate) context: C,
    pub(crate) tools: ToolRegistry,
    pub(crate) hooks: Vec<BoxedHook>,
    pub(crate) durability: Option<D>,
    pub(crate) config: LoopConfig,
    /// The conversation, with what is sent beside it. Every turn borrows it.
    pub(crate) request: CompletionRequest,
    /// The current run, or the last.
    pub(crate) run: RunState,
    /// Who decides which calls may run.
    pub(crate) policy: Option<Arc<dyn PermissionPolicy>>,
    /// Signs the calls that wait.
    #[cfg(feature = "signed-approvals")]
    pub(crate) approval_key: Option<ApprovalKey>,
    /// The run waits for decisions on these calls; the conversation is in the request.
    pub(crate) pending: Option<PendingApproval>,
    /// How many runs there have been.
    pub(crate) runs: usize,
    /// Over all runs.
    pub(crate) total_usage: TokenUsage,
    /// How many of its messages, from the start, the hooks let pass to the model.
    pub(crate) passed_messages: usize,
    /// How large the conversation was when that was last known.
    pub(crate) size: Option<KnownSize>,
    /// What came of the compactions so far.
    pub(crate) context_budget: ContextBudget,
    /// What is said to the model in the middle of a conversation.
    pub(crate) reminders: Reminders,
    /// What it shares with other agents.
    pub(crate) budget: Option<Budget>,
    /// What may change the request for one call.
    pub(crate) prepare: Vec<Box<dyn PrepareTurn>>,
    /// What may end a run after tools ran.
    pub(crate) stop_conditions: Vec<Box<dyn StopCondition>>,
    /// Whether the request's definitions are out of date.
    pub(crate) tools_changed: bool,
    /// Whether the request's settings and system prompt are out of date.
    pub(crate) settings_changed: bool,
}

impl<P: Provider, C: ContextStrategy> AgentLoop<P, C> {
    /// Starts building an agent.
    pub fn builder(provider: P, context: C) -> AgentLoopBuilder<P, C> {
        AgentLoopBuilder::new(provider, context)
    }

    /// Creates an agent from its parts.
    pub fn new(provider: P, tools: ToolRegistry, context: C, config: LoopConfig) -> Self {
        Self::assemble(provider, context, tools, config, Vec::new())
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    pub(crate) fn assemble(
        provider: P,
        context: C,
        tools: ToolRegistry,
        config: LoopConfig,
        hooks: Vec<BoxedHook>,
    ) -> Self {
        Self {
            provider,
            context,
            tools,
            hooks,
            durability: None,
            config,
            request: CompletionRequest::default(),
            run: RunState::default(),
            policy: None,
            #[cfg(feature = "signed-approvals")]
            approval_key: None,
            pending: None,
            runs: 0,
            total_usage: TokenUsage::default(),
            passed_messages: 0,
            size: None,
            context_budget: ContextBudget::default(),
            reminders: Reminders::default(),
            budget: None,
            prepare: Vec::new(),
            stop_conditions: Vec::new(),
            tools_changed: true,
            settings_changed: true,
        }
    }

    /// Returns the conversation. It is valid
    /// ([`transcript::validate`](neuron_types::transcript::validate)) at any time, however a run
    /// ended.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.request.messages
    }

    /// Returns the tokens of the current run, or the last, with [those that its tools
    /// took](Self::tool_usage).
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        &self.run.usage
    }

    /// Returns the tokens of all runs together.
    #[must_use]
    pub fn total_usage(&self) -> &TokenUsage {
        &self.total_usage
    }

    /// Returns the answered calls of the model in the current run, or the last.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.run.turns
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(&self) -> &ToolRegistry {
        &self.tools
    }

    /// Returns the tools, to change them for the next call of the model.
    pub fn tools_mut(&mut self) -> &mut ToolRegistry {
        self.tools_changed = true;
        &mut self.tools
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &LoopConfig {
        &self.config
    }

    /// Returns the configuration, to change it for the next run: a higher limit or another model, for
    /// instance. A changed system prompt or model costs the provider's cache of the conversation.
    ///
    /// # Example
    ///
    /// ```
    /// # use neuron_loop::AgentLoop;
    /// # use neuron_types::{ContextStrategy, Provider, ThinkingConfig};
    /// # fn cool<P: Provider, C: ContextStrategy>(agent: &mut AgentLoop<P, C>) {
    /// agent.config_mut().request.temperature = Some(0.0);
    /// agent.config_mut().request.thinking = Some(ThinkingConfig::Disabled);
    /// # }
    /// ```
    pub fn config_mut(&mut self) -> &mut LoopConfig {
        self.settings_changed = true;
        &mut self.config
    }

    /// Returns the calls that need an approval before the run can go on.
    #[must_use]
    pub fn pending_calls(&self) -> &[PendingCall] {
        self.pending.as_ref().map_or(&[], |pending| &pending.calls)
    }

    /// Puts the agent where a run stopped with [`LoopError::ApprovalRequired`], in another process
    /// perhaps: its conversation, its counters, and the calls that wait. Then
    /// [`resume`](Self::resume) goes on.
    ///
    /// Build the agent as the one that stopped: the state holds neither tools nor settings, nor what
    /// was taken of a [`Budget`], and no count of turns in which a tool failed.
    /// [`total_usage`](Self::total_usage) counts from here on.
    ///
    /// A stored state does not know whether it was resumed: whoever restores it twice runs its calls
    /// twice. Take it out of the store before. The calls have the same
    /// [`ToolContext::idempotency_key`] each time.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::UnsupportedVersion`], or [`ApprovalError::Malformed`] when the state does not
    /// fit together; the agent is as before.
    pub fn restore(&mut self, mut pending: PendingApproval) -> Result<(), ApprovalError> {
        approval::check_whole(&pending)?;
        self.request.messages = std::mem::take(&mut pending.messages);
        self.run = approval::restored(&pending);
        self.runs = pending.run_number.saturating_add(1);
        self.passed_messages = 0;
        self.size = None;
        self.context_budget = ContextBudget::default();
        self.pending = Some(pending);
        Ok(())
    }

    /// Returns the budget that the agent was given. A run may share another one, which it finds in its
    /// context.
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// Adds a hook, after those added before. What the model has not answered is new to all of them
    /// again.
    pub fn add_hook(&mut self, hook: impl ObservabilityHook + 'static) {
        self.hooks.push(BoxedHook::new(hook));
        self.passed_messages = 0;
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// Adds a message that did not come from the engine. Only a plain one of the user's cannot break
    /// the history.
    pub(crate) fn add_message(&mut self, message: Message) {
        let is_plain = |block: &ContentBlock| {
            block.as_tool_use().is_none() && block.as_tool_result_id().is_none()
        };
        let is_safe = message.role == Role::User && message.content.iter().all(is_plain);
        self.request.messages.push(message);
        if !is_safe {
            self.repair_messages();
        }
    }

    /// Repairs the conversation if no provider would accept it.
    fn repair_messages(&mut self) {
        if let Err(violation) = transcript::validate(&self.request.messages) {
            tracing::warn!(%violation, "providers would reject the history; it is repaired");
            let messages = std::mem::take(&mut self.request.messages);
            self.request.messages = transcript::repair(messages);
            self.passed_messages = 0;
        }
    }

    /// Notes that what is sent beside the conversation is out of date.
    pub(crate) fn request_changed(&mut self) {
        self.tools_changed = true;
        self.settings_changed = true;
    }

    /// Replaces the conversation, for an agent that continues an earlier one.
    pub(crate) fn set_messages(&mut self, messages: Vec<Message>) {
        self.request.messages = messages;
        self.passed_messages = 0;
        self.repair_messages();
    }
}

impl<'d, P, C> AgentLoop<P, C, Durability<'d>> {
    /// Lets a durable engine carry out all calls of the model and of tools from now on.
    pub fn set_durability(&mut self, context: impl DurableContext + 'd) {
        self.durability = Some(Durability::new(context));
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Adds a message to the conversation and runs to the model's answer.
    ///
    /// The message is added when this is called; the rest happens while the future is polled.
    ///
    /// # Errors
    ///
    /// See [`LoopError`]. The conversation is valid after any of them, and the next run continues
    /// it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the run: what finished is in the conversation, and tool calls that
    /// did not have a result that says so. To stop it with an answer, cancel
    /// [`ToolContext::cancellation_token`]; [`CancelMode`](crate::CancelMode) says when the run ends
    /// then.
    pub fn run(
        &mut self,
        message: Message,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        self.begin(message, ctx);
        async move { self.drive(ctx, &Quiet).await }
    }

    /// [`run`](Self::run) with a text.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub fn run_text<'a>(
        &'a mut self,
        text: &str,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend + use<'a, P, C, D>
    {
        self.run(Message::user(text), ctx)
    }

    /// Runs from the conversation as it is, without another message: after an error that has passed, a
    /// cancellation, or a limit that was raised. It is another run, with counters of its own.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); also [`ProviderError::InvalidRequest`](neuron_types::ProviderError) when
    /// the conversation ends with the model's answer, so that there is nothing to go on from. A turn
    /// that the provider paused is continued by the agent that made it.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub fn continue_run(
        &mut self,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        let is_paused = self.run.is_paused;
        let is_open = is_open(&self.request.messages, is_paused);
        if is_open {
            self.begin_without_message(ctx);
            // Until it is answered.
            self.run.is_paused = is_paused;
        }
        async move {
            if !is_open {
                let text = "the conversation does not end with something that the model can answer";
                return Err(ProviderError::InvalidRequest(text.into()).into());
            }
            self.drive(ctx, &Quiet).await
        }
    }

    /// [`run`](Self::run) as a stream of events: text as it comes, tool calls and their results.
    ///
    /// The run happens while the stream is polled; see [`AgentStream`].
    ///
    /// # Example
    ///
    /// ```
    /// # use neuron_loop::AgentLoop;
    /// # use neuron_types::*;
    /// # async fn explain<P: Provider, C: ContextStrategy>(mut agent: AgentLoop<P, C>) {
    /// let ctx = ToolContext::default();
    /// let mut events = agent.run_stream(Message::user("Explain ownership"), &ctx).await;
    /// while let Some(event) = events.recv().await {
    ///     match event {
    ///         StreamEvent::TextDelta(text) => print!("{text}"),
    ///         StreamEvent::ToolUse { name, .. } => println!("[calling {name}]"),
    ///         StreamEvent::RunComplete(result) => println!("[{} turns]", result.turns),
    ///         StreamEvent::Error(error) => eprintln!("{error}"),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn run_stream<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        self.begin(message, ctx);
        ready(AgentStream::new(|slot| async move { self.drive(ctx, &slot).await }))
    }

    /// [`run_stream`](Self::run_stream) as a stream that owns the agent, for servers that hand it
    /// on. The conversation is in [`StreamEvent::RunComplete`](neuron_types::StreamEvent); after an
    /// error it is gone with the agent, so use [`run_stream`](Self::run_stream) where it must not be.
    pub fn into_stream<'a>(mut self, message: Message, ctx: ToolContext) -> AgentStream<'a>
    where
        Self: 'a,
    {
        self.begin(message, &ctx);
        AgentStream::new(|slot| async move { self.drive(&ctx, &slot).await })
    }

    /// [`run`](Self::run) turn by turn, with control in between; see [`StepIterator`].
    pub fn run_step<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        self.begin(message, ctx);
        StepIterator::new(self, ctx)
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Goes on with a run that stopped with [`LoopError::ApprovalRequired`], with what was decided on
    /// the calls that wait: they run, are denied or get the result that was supplied, and then the
    /// model is called again. The policy may still deny an approved call.
    ///
    /// The run's usage and limits go on where they were. Instead of resuming, [`run`](Self::run)
    /// begins another run: then the calls stay unexecuted for good.
    ///
    /// # Errors
    ///
    /// [`LoopError::Approval`] when the decisions do not fit: then nothing was executed, and the run
    /// still waits. So it does after [`LoopError::UsageLimitExceeded`] if there is no room for the calls
    /// that were approved, unless the run [lands softly](crate::OnLimit::Finalize), and after
    /// [`LoopError::Cancelled`] if the run was cancelled before.
    /// [`LoopError::ApprovalRequired`] when further calls need an approval. Else as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run). Once a call has begun the decisions are used up.
    ///
    /// # Example
    ///
    /// ```
    /// # use neuron_loop::AgentLoop;
    /// # use neuron_types::*;
    /// # fn ask_a_person(_: &PendingCall) -> bool { true }
    /// # async fn example<P: Provider, C: ContextStrategy>(mut agent: AgentLoop<P, C>) -> Result<(), LoopError> {
    /// let ctx = ToolContext::default();
    /// let mut outcome = agent.run_text("Clean up the folder", &ctx).await;
    /// while let Err(LoopError::ApprovalRequired(pending)) = outcome {
    ///     let mut decisions = ApprovalDecisions::new();
    ///     for waiting in &pending.calls {
    ///         decisions = match ask_a_person(waiting) {
    ///             true => decisions.approve(&waiting.call.id),
    ///             false => decisions.deny(&waiting.call.id, "the user said no"),
    ///         };
    ///     }
    ///     outcome = agent.resume(decisions, &ctx).await;
    /// }
    /// println!("{}", outcome?.response);
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(
        &mut self,
        decisions: ApprovalDecisions,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        let begun = self.begin_again(decisions, ctx);
        async move {
            begun?;
            self.drive(ctx, &Quiet).await
        }
    }

    /// [`resume`](Self::resume) as a stream of events.
    pub fn resume_stream<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        let begun = self.begin_again(decisions, ctx);
        ready(AgentStream::new(|slot| async move {
            begun?;
            self.drive(ctx, &slot).await
        }))
    }

    /// [`resume`](Self::resume) turn by turn. The calls on which was decided are the first turn.
    pub fn resume_step<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        match self.begin_again(decisions, ctx) {
            Ok(()) => StepIterator::new(self, ctx),
            Err(error) => StepIterator::ended(self, ctx, error),
        }
    }
}

impl<P, C, D> fmt::Debug for AgentLoop<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("messages", &self.request.messages.len())
            .field("tools", &self.tools)
            .field("hooks", &self.hooks.len())
            .field("durable", &self.durability.is_some())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
