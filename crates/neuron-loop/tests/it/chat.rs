//! A test helper that holds an agent and its conversation. It can run the agent awaited, streamed and stepped.

use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_loop::{
    Agent, AgentBuilder, AgentResult, Budget, CancelMode, Conversation, EndStrategy, LoopConfig,
    LoopError, OnLimit, OutputMode, RequestSettings, Run, RunEvent, RunHandle, RunStream, RunView,
    SessionHandle, Steps, ToolErrorPolicy, TurnSetup,
};
use neuron_tool::{ToolCall, ToolRegistry};
use neuron_types::{
    ApprovalDecisions, ApprovalError, ContextStrategy, Durability, DurableContext, Injector,
    Message, ObservabilityHook, PendingApproval, PendingCall, PermissionPolicy, Provider, Session,
    Start, StreamEvent, SystemPrompt, TokenUsage, ToolChoice, ToolContext, ToolOutput, UsageLimits,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// An agent with one conversation.
pub(crate) struct Chat<'d> {
    pub(crate) agent: Agent,
    pub(crate) conversation: Conversation,
    durability: Option<Durability<'d>>,
    /// If set, the handle of each run is stored here when the run begins.
    pub(crate) handle: Option<Arc<Mutex<Option<RunHandle>>>>,
    /// The session in which each run stores the conversation, if set.
    pub(crate) session: Option<SessionHandle<'static>>,
}

/// Builds a [`Chat`] without the production defaults of [`AgentBuilder`].
pub(crate) struct ChatBuilder<'d> {
    builder: AgentBuilder,
    conversation: Conversation,
    durability: Option<Durability<'d>>,
}

/// The value and the outcome of a typed run.
#[derive(Debug)]
pub(crate) struct TypedResult<T> {
    pub(crate) value: T,
    pub(crate) result: AgentResult,
}

impl Chat<'static> {
    pub(crate) fn builder(
        provider: impl Provider + 'static,
        context: impl ContextStrategy + 'static,
    ) -> ChatBuilder<'static> {
        let builder = Agent::builder(provider).context(context);
        let builder = builder.config(|config| *config = LoopConfig::default());
        ChatBuilder { builder, conversation: Conversation::new(), durability: None }
    }
}

/// Defines methods of [`ChatBuilder`]. Each sets one field of [`LoopConfig`], including its request settings.
macro_rules! settings {
    ($($name:ident: $type:ty => |$config:ident, $value:ident| $set:expr;)*) => {$(
        pub(crate) fn $name(self, $value: $type) -> Self {
            self.with(|builder| builder.config(|$config| $set))
        }
    )*};
}

impl<'d> ChatBuilder<'d> {
    fn with(mut self, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    settings! {
        parallel_tool_execution: bool => |config, value| config.parallel_tool_execution = value;
        pause_for_approval: bool => |config, value| config.pause_for_approval = value;
        retries: usize => |config, value| config.retries = value;
        tool_retry_limit: usize => |config, value| config.tool_retry_limit = Some(value);
        on_limit: OnLimit => |config, value| config.on_limit = value;
        output_mode: OutputMode => |config, value| config.output_mode = value;
        output_retries: usize => |config, value| config.output_retries = value;
        end_strategy: EndStrategy => |config, value| config.end_strategy = value;
        cancel_mode: CancelMode => |config, value| config.cancel_mode = value;
        tool_errors: ToolErrorPolicy => |config, value| config.tool_errors = value;
        max_parallel_tools: usize => |config, value| config.max_parallel_tools = Some(value);
        early_tools: bool => |config, value| config.early_tools = value;
        temperature: f32 => |config, value| config.request.temperature = Some(value);
        top_p: f32 => |config, value| config.request.top_p = Some(value);
        max_tokens: usize => |config, value| config.request.max_tokens = Some(value);
        tool_choice: ToolChoice => |config, value| config.request.tool_choice = Some(value);
        config: LoopConfig => |config, value| *config = value;
    }

    pub(crate) fn tools(self, tools: ToolRegistry) -> Self {
        self.with(|builder| builder.tools(tools))
    }

    pub(crate) fn name(self, name: &str) -> Self {
        self.with(|builder| builder.name(name))
    }

    pub(crate) fn model(self, name: &str) -> Self {
        self.with(|builder| builder.model(name))
    }

    pub(crate) fn system_prompt(self, prompt: impl Into<SystemPrompt>) -> Self {
        self.with(|builder| builder.system_prompt(prompt))
    }

    pub(crate) fn max_turns(self, turns: usize) -> Self {
        self.with(|builder| builder.max_turns(turns))
    }

    pub(crate) fn usage_limits(self, limits: UsageLimits) -> Self {
        self.with(|builder| builder.usage_limits(limits))
    }

    pub(crate) fn budget(self, budget: Budget) -> Self {
        self.with(|builder| builder.budget(budget))
    }

    pub(crate) fn hook(self, hook: impl ObservabilityHook + 'static) -> Self {
        self.with(|builder| builder.hook(hook))
    }

    pub(crate) fn stop_sequences<const N: usize>(self, sequences: [&str; N]) -> Self {
        let sequences = sequences.map(str::to_owned).to_vec();
        self.with(|builder| builder.request(|request| request.stop_sequences = sequences))
    }

    pub(crate) fn request(self, change: impl FnOnce(&mut RequestSettings)) -> Self {
        self.with(|builder| builder.request(change))
    }

    pub(crate) fn injector(self, injector: impl Injector + 'static) -> Self {
        self.with(|builder| builder.injector(injector))
    }

    pub(crate) fn permission_policy(self, policy: impl PermissionPolicy + 'static) -> Self {
        self.with(|builder| builder.permission_policy(policy))
    }

    pub(crate) fn prepare_turn(
        self,
        callback: impl Fn(&mut TurnSetup<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.with(|builder| builder.prepare_turn(callback))
    }

    pub(crate) fn stop_when(
        self,
        condition: impl Fn(&RunView<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(|builder| builder.stop_when(condition))
    }

    pub(crate) fn approval_signal(self, name: &str, timeout: std::time::Duration) -> Self {
        let signal = neuron_loop::ApprovalSignal { name: name.into(), timeout };
        self.with(|builder| builder.config(|config| config.approval_signal = Some(signal)))
    }

    pub(crate) fn approval_signer(self, key: neuron_runtime::ApprovalKey) -> Self {
        self.with(|builder| builder.approval_signer(key))
    }

    pub(crate) fn layer(self, layer: impl neuron_types::ModelLayer + 'static) -> Self {
        self.with(|builder| builder.layer(layer))
    }

    pub(crate) fn inherit_hooks(self, ctx: &ToolContext) -> Self {
        self.with(|builder| builder.inherit_hooks(ctx))
    }

    pub(crate) fn inherit_permissions(self, ctx: &ToolContext) -> Self {
        self.with(|builder| builder.inherit_permissions(ctx))
    }

    pub(crate) fn messages(mut self, history: Vec<Message>) -> Self {
        self.conversation = history.into();
        self
    }

    pub(crate) fn durability<'c>(self, context: impl DurableContext + 'c) -> ChatBuilder<'c> {
        let Self { builder, conversation, .. } = self;
        ChatBuilder { builder, conversation, durability: Some(Durability::new(context)) }
    }

    pub(crate) fn build(self) -> Chat<'d> {
        let Self { builder, conversation, durability } = self;
        Chat { agent: builder.build(), conversation, durability, handle: None, session: None }
    }
}

impl<'d> Chat<'d> {
    fn begin<'a>(&'a mut self, start: impl Into<Start>, ctx: &'a ToolContext) -> Run<'a> {
        let mut run = self.agent.run(&mut self.conversation, start).context(ctx);
        if let Some(place) = &self.handle {
            *place.lock().unwrap() = Some(run.handle());
        }
        if let Some(session) = &self.session {
            run = run.store(session);
        }
        match &self.durability {
            Some(durability) => run.durable(durability),
            None => run,
        }
    }

    async fn whole(
        &mut self,
        start: impl Into<Start>,
        ctx: &ToolContext,
    ) -> Result<AgentResult, LoopError> {
        let result = self.begin(start, ctx).await?;
        Ok(result.with_messages(&self.conversation))
    }

    async fn typed<T: DeserializeOwned + JsonSchema>(
        &mut self,
        start: impl Into<Start>,
        ctx: &ToolContext,
    ) -> Result<TypedResult<T>, LoopError> {
        let result = self.begin(start, ctx).typed::<T>().await?;
        let of_run = result.with_messages(&self.conversation);
        Ok(TypedResult { value: result.output, result: of_run })
    }

    pub(crate) fn run<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + Send {
        self.whole(message, ctx)
    }

    pub(crate) fn run_text<'a>(
        &'a mut self,
        text: &str,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + Send + use<'a, 'd> {
        self.run(Message::user(text), ctx)
    }

    /// Starts a run that continues the conversation without a new message.
    pub(crate) fn continue_run<'a>(
        &'a mut self,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + Send {
        self.whole(Start::Continue, ctx)
    }

    pub(crate) fn resume<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + Send {
        self.whole(decisions, ctx)
    }

    pub(crate) fn run_from<'a>(
        &'a mut self,
        start: impl Into<Start>,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + Send {
        self.whole(start.into(), ctx)
    }

    pub(crate) fn run_typed<'a, T: DeserializeOwned + JsonSchema>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + Send {
        self.typed(message, ctx)
    }

    pub(crate) fn resume_typed<'a, T: DeserializeOwned + JsonSchema>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + Send {
        self.typed(decisions, ctx)
    }

    pub(crate) fn run_typed_from<'a, T: DeserializeOwned + JsonSchema>(
        &'a mut self,
        start: impl Into<Start>,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + Send {
        self.typed(start.into(), ctx)
    }

    pub(crate) async fn run_stream<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> ChatStream<'a> {
        ChatStream::of(self.begin(message, ctx).stream())
    }

    pub(crate) async fn resume_stream<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> ChatStream<'a> {
        ChatStream::of(self.begin(decisions, ctx).stream())
    }

    pub(crate) async fn run_from_stream<'a>(
        &'a mut self,
        start: impl Into<Start>,
        ctx: &'a ToolContext,
    ) -> ChatStream<'a> {
        ChatStream::of(self.begin(start.into(), ctx).stream())
    }

    pub(crate) fn run_step<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> ChatSteps<'a> {
        ChatSteps(self.begin(message, ctx).steps())
    }

    pub(crate) fn resume_step<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> ChatSteps<'a> {
        ChatSteps(self.begin(decisions, ctx).steps())
    }

    pub(crate) fn run_from_step<'a>(
        &'a mut self,
        start: impl Into<Start>,
        ctx: &'a ToolContext,
    ) -> ChatSteps<'a> {
        ChatSteps(self.begin(start.into(), ctx).steps())
    }

    pub(crate) fn messages(&self) -> &[Message] {
        self.conversation.messages()
    }

    pub(crate) fn usage(&self) -> &TokenUsage {
        self.conversation.usage()
    }

    pub(crate) fn tool_usage(&self) -> &TokenUsage {
        self.conversation.tool_usage()
    }

    pub(crate) fn estimated_usage(&self) -> &TokenUsage {
        self.conversation.estimated_usage()
    }

    pub(crate) fn total_usage(&self) -> &TokenUsage {
        self.conversation.total_usage()
    }

    pub(crate) fn turns(&self) -> usize {
        self.conversation.turns()
    }

    pub(crate) fn pending_calls(&self) -> Vec<PendingCall> {
        self.conversation.pending().map(|pending| pending.calls).unwrap_or_default()
    }

    pub(crate) fn config(&self) -> &LoopConfig {
        self.agent.config()
    }

    pub(crate) fn config_mut(&mut self) -> Change<'_, LoopConfig> {
        let value = self.agent.config().clone();
        let set = |builder: AgentBuilder, value| builder.config(|config| *config = value);
        Change { agent: &mut self.agent, value, set }
    }

    pub(crate) fn tools_mut(&mut self) -> Change<'_, ToolRegistry> {
        let value = self.agent.tools().clone();
        Change { agent: &mut self.agent, value, set: AgentBuilder::tools }
    }

    pub(crate) fn add_hook(&mut self, hook: impl ObservabilityHook + 'static) {
        self.agent = self.agent.to_builder().hook(hook).build();
    }

    /// Returns the messages added after the session was stored. Returns `None` if the conversation does not begin with
    /// the messages of the session.
    pub(crate) fn messages_since(&self, session: &Session) -> Option<&[Message]> {
        self.messages().strip_prefix(session.messages.as_slice())
    }

    pub(crate) fn into_stream(self, message: Message, ctx: ToolContext) -> ChatStream<'static> {
        assert!(self.durability.is_none(), "an owned run borrows no engine");
        let run = self.agent.run_owned(self.conversation, message).context(ctx);
        ChatStream { events: Box::pin(run.stream()) }
    }

    pub(crate) fn restore(&mut self, pending: PendingApproval) -> Result<(), ApprovalError> {
        self.conversation = pending.try_into()?;
        Ok(())
    }

    pub(crate) fn restore_session(&mut self, session: &Session) {
        self.conversation = Conversation::from_session(session.clone());
    }

    pub(crate) fn write_session(&self, session: &mut Session) {
        self.conversation.write_session(session).unwrap();
    }

    pub(crate) fn set_durability(&mut self, context: impl DurableContext + 'd) {
        self.durability = Some(Durability::new(context));
    }
}

/// Mutable access to a part of the agent, such as its tools. On drop, the agent is rebuilt with the new value.
pub(crate) struct Change<'a, T: Default> {
    agent: &'a mut Agent,
    value: T,
    set: fn(AgentBuilder, T) -> AgentBuilder,
}

impl<T: Default> Deref for Change<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for Change<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Drop for Change<'_, T> {
    fn drop(&mut self) {
        let (value, set) = (std::mem::take(&mut self.value), self.set);
        *self.agent = set(self.agent.to_builder(), value).build();
    }
}

/// A run as a stream of events. Its last event is the outcome. The [`AgentResult`] in this event contains no messages.
pub(crate) struct ChatStream<'a> {
    events: Pin<Box<dyn Stream<Item = Result<RunEvent, LoopError>> + Send + 'a>>,
}

impl<'a> ChatStream<'a> {
    fn of(events: RunStream<'a>) -> Self {
        Self { events: Box::pin(events) }
    }

    pub(crate) fn recv(&mut self) -> impl Future<Output = Option<StreamEvent>> + Send {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

impl Stream for ChatStream<'_> {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.events.as_mut().poll_next(cx).map(|event| {
            Some(match event? {
                Ok(RunEvent::Event(event)) => event,
                Ok(RunEvent::Ended(result)) => {
                    let result = result.with_messages(&Conversation::new());
                    StreamEvent::RunComplete(Box::new(result))
                }
                Ok(other) => unreachable!("a new event: {other:?}"),
                Err(LoopError::ApprovalRequired(pending)) => StreamEvent::ApprovalRequired(pending),
                Err(error) => StreamEvent::Error(error.into()),
            })
        })
    }
}

/// A step of a run. Unlike `neuron_loop::Step`, its outcome in `Ended` also contains the messages.
#[derive(Debug)]
pub(crate) enum Step {
    Tools { calls: Vec<ToolCall>, results: Vec<ToolOutput> },
    Compacted { old_tokens: usize, new_tokens: usize },
    Ended(AgentResult),
}

/// A run as a sequence of steps.
pub(crate) struct ChatSteps<'a>(Steps<'a>);

impl ChatSteps<'_> {
    pub(crate) async fn next(&mut self) -> Option<Result<Step, LoopError>> {
        let step = match self.0.next().await? {
            Ok(step) => step,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(match step {
            neuron_loop::Step::Tools { calls, results } => Step::Tools { calls, results },
            neuron_loop::Step::Compacted { old_tokens, new_tokens } => {
                Step::Compacted { old_tokens, new_tokens }
            }
            neuron_loop::Step::Ended(result) => {
                Step::Ended(result.with_messages(self.0.conversation()))
            }
            other => unreachable!("a new step: {other:?}"),
        }))
    }

    pub(crate) fn inject_message(&mut self, message: Message) {
        self.0.inject(message);
    }

    pub(crate) fn messages(&self) -> &[Message] {
        self.0.conversation().messages()
    }

    pub(crate) fn usage(&self) -> &TokenUsage {
        self.0.conversation().usage()
    }

    pub(crate) fn turns(&self) -> usize {
        self.0.conversation().turns()
    }

    /// Changes the tools from the next step on.
    pub(crate) fn change_tools(&mut self, change: impl FnOnce(&mut ToolRegistry)) {
        let mut tools = self.0.agent().tools().clone();
        change(&mut tools);
        self.0.set_agent(self.0.agent().to_builder().tools(tools).build());
    }
}
