//! A hook that runs guardrails before and after each model call of an agent ([`GuardrailHook`]).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_types::{
    BoxedLayer, BufferedDeltas, CompletionResponse, HookAction, HookError, HookEvent, LoopError,
    Message, ModelCall, ModelLayer, ModelNext, ObservabilityHook, Role,
};

use crate::guardrail::Findings;
use crate::guardrail_text::{input_text, output_text};
use crate::{ErasedInputGuardrail, ErasedOutputGuardrail, InputGuardrail, OutputGuardrail};

/// Runs guardrails before and after each model call of an agent. Add it to the agent as a hook.
///
/// # Checked texts
///
/// - Before a model call, the input guardrails check all of the user's text since the last response, as one text. Text
///   that has passed is not checked again. If a vendor-specific block (`ContentBlock::Raw`) contains no standard block,
///   all of its strings are checked. Tool results are checked only if [`check_tool_results`](Self::check_tool_results)
///   is set.
/// - After a model call, the output guardrails check the text of the response. The output of a typed run is checked as
///   JSON, even if the model returns it as a tool call. Arguments of other tools and the model's reasoning are not
///   checked. If JSON contains escaped characters (`\u0040`, `\n`), an unescaped copy is appended to the text. A
///   response that the provider paused and continued is checked as one text.
///
/// An empty text is not checked. All guardrails run, one after another.
///
/// # Results
///
/// - A tripwire is the rejection of a text. It ends the run with `LoopError::HookTerminated`, which names the
///   guardrail.
/// - Rejected input is removed from the conversation, with the reminders that the agent added after it.
/// - A rejected response is not added to the conversation. Its tool calls do not run, except calls that began while the
///   response was still streaming.
/// - Messages of earlier turns remain, and the error says so. The agent can continue with another message.
/// - A warning is logged with `tracing::warn!`, and the run continues.
/// - A panic of a guardrail is a tripwire.
///
/// # Streams
///
/// A stream shows the deltas of a response before the response is checked. [`hold_back_text`](Self::hold_back_text)
/// delays them until the check has passed.
///
/// # Limits
///
/// - Rejected text is visible to other hooks and to the journal of a durable engine. A replay runs the guardrails
///   again, and they must return the same results.
/// - A context strategy runs before the check. A strategy that calls a model may send unchecked text to this model.
/// - Results of tools are shown to a stream's reader before they are checked. The check only prevents their use by the
///   model.
///
/// # Inside another hook
///
/// A hook of your own may hold this hook. It should forward [`layer`](ObservabilityHook::layer). If it forwards only
/// events, the guardrails check the text at [`HookEvent::PreLlmCall`] and [`HookEvent::PostLlmCall`], and a tripwire is
/// [`HookAction::Terminate`]. Then
///
/// - rejected input stays in the conversation, so that the next call is rejected too,
/// - a text is checked again if the call is repeated,
/// - deltas are not held back,
/// - the output of a typed run is checked only if it is text, and
/// - the parts of a paused response are checked alone.
///
/// # Example
///
/// ```
/// use neuron_loop::{Agent, Conversation, LoopError};
/// use neuron_runtime::{GuardrailHook, GuardrailResult, OutputGuardrail};
/// # use neuron_testing::{Reply, ScriptedProvider};
///
/// struct NoAddresses;
///
/// impl OutputGuardrail for NoAddresses {
///     async fn check(&self, output: &str) -> GuardrailResult {
///         match output.contains('@') {
///             true => GuardrailResult::Tripwire("the answer has an e-mail address".into()),
///             false => GuardrailResult::Pass,
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let provider = ScriptedProvider::new([Reply::text("john@example.com")]);
/// let hook = GuardrailHook::builder().output_guardrail(NoAddresses).build();
/// let agent = Agent::builder(provider).hook(hook).build();
/// let mut conversation = Conversation::new();
///
/// match agent.run(&mut conversation, "What is John's address?").await {
///     Err(LoopError::HookTerminated(reason)) => {
///         assert_eq!(reason, "output guardrail `NoAddresses`: the answer has an e-mail address");
///     }
///     other => panic!("{other:?}"),
/// }
/// assert_eq!(conversation.messages().len(), 1, "the answer is not kept");
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct GuardrailHook {
    input: Vec<Arc<dyn ErasedInputGuardrail>>,
    output: Vec<Arc<dyn ErasedOutputGuardrail>>,
    /// Set if input guardrails also check tool results.
    checks_tool_results: bool,
    /// Set if deltas are delayed until the response has passed the output guardrails.
    holds_back_text: bool,
    /// The same for all clones.
    identity: Identity,
}

/// Number that tells hooks apart. Clones of a hook have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(usize);

impl Default for Identity {
    fn default() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

thread_local! {
    /// The hooks whose layers this thread is polling. They check the call that is being made.
    static LAYERS: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

impl Identity {
    /// Returns `true` inside a call around which the hook is a layer.
    fn is_layer(self) -> bool {
        LAYERS.with_borrow(|layers| layers.contains(&self))
    }

    /// Polls a call around which the hook is a layer.
    async fn around<T>(self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|cx| {
            /// Also ends after a panic.
            struct Polled;
            impl Drop for Polled {
                fn drop(&mut self) {
                    LAYERS.with_borrow_mut(|layers| {
                        layers.pop();
                    });
                }
            }
            LAYERS.with_borrow_mut(|layers| layers.push(self));
            let _polled = Polled;
            call.as_mut().poll(cx)
        })
        .await
    }
}

impl GuardrailHook {
    /// Creates a hook without guardrails.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a builder for a hook without guardrails. Its `build` method returns the hook.
    pub fn builder() -> GuardrailHookBuilder {
        GuardrailHookBuilder::default()
    }

    /// Adds a guardrail for the input. Guardrails run in the order in which they were added.
    #[must_use]
    pub fn input_guardrail(mut self, guardrail: impl InputGuardrail + 'static) -> Self {
        self.input.push(Arc::new(guardrail));
        self
    }

    /// Adds a guardrail for the output. Guardrails run in the order in which they were added.
    #[must_use]
    pub fn output_guardrail(mut self, guardrail: impl OutputGuardrail + 'static) -> Self {
        self.output.push(Arc::new(guardrail));
        self
    }

    /// Makes the input guardrails also check tool results before the model receives them. Resources and links in the
    /// results are included. By default results are not checked.
    ///
    /// The new tool results and the user's input are checked as one text. After a tripwire, a placeholder text replaces
    /// each of these results.
    #[must_use]
    pub fn check_tool_results(mut self) -> Self {
        self.checks_tool_results = true;
        self
    }

    /// Delays the deltas of a response until the whole response has passed the output guardrails. After a tripwire no
    /// delta of the response is shown. The hook holds one whole response in memory. By default deltas are shown
    /// immediately.
    #[must_use]
    pub fn hold_back_text(mut self) -> Self {
        self.holds_back_text = true;
        self
    }
}

/// Adds the guardrails as a [layer](ModelLayer) around the agent's model calls. Without this layer, the guardrails check
/// at the events of the run.
impl ObservabilityHook for GuardrailHook {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        let rejected = match event {
            // The layer checks this call.
            _ if self.identity.is_layer() => None,
            HookEvent::PreLlmCall { request } => {
                let is_answer = |message: &Message| message.role == Role::Assistant;
                let new = request.messages.rsplit(is_answer).next().unwrap_or_default();
                self.judge_input(&input_text(new, self.checks_tool_results)).await
            }
            HookEvent::PostLlmCall { response } => {
                self.judge_output(&output_text(response, "", None)).await
            }
            _ => None,
        };
        Ok(rejected.map_or(HookAction::Continue, |reason| HookAction::Terminate { reason }))
    }

    fn layer(&self) -> Option<BoxedLayer> {
        Some(BoxedLayer::new(self.clone()))
    }
}

impl ModelLayer for GuardrailHook {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        if !self.input.is_empty()
            && let Some(reason) =
                self.judge_input(&input_text(call.new_messages, self.checks_tool_results)).await
        {
            // The rejected input is removed, so that the agent can continue with another message.
            next.take_back_input(self.checks_tool_results);
            return Err(call.rejected(reason, self.checks_tool_results));
        }
        if self.output.is_empty() {
            return self.identity.around(next.run(call)).await;
        }
        // Only a streamed call has a sink.
        let held = next.sink().filter(|_| self.holds_back_text).map(BufferedDeltas::new);
        let next = held.as_ref().map_or(next, |held| next.with_sink(held));
        let response = self.identity.around(next.run(call)).await?;
        if let Some(reason) =
            self.judge_output(&output_text(&response, call.said_before, call.output_tool)).await
        {
            next.take_back_paused_answer();
            return Err(call.rejected(reason, false));
        }
        if let Some(held) = &held {
            held.release().await;
        }
        Ok(response)
    }
}

impl GuardrailHook {
    /// Runs the input guardrails on a text. Returns the reason if the text is rejected.
    async fn judge_input(&self, text: &str) -> Option<String> {
        let mut findings = Findings::default();
        if !text.is_empty() {
            for guardrail in &self.input {
                findings.add_input(&**guardrail, text).await;
            }
        }
        rejection("input", &findings)
    }

    /// Runs the output guardrails on a text. Returns the reason if the text is rejected.
    async fn judge_output(&self, text: &str) -> Option<String> {
        let mut findings = Findings::default();
        if !text.is_empty() {
            for guardrail in &self.output {
                findings.add_output(&**guardrail, text).await;
            }
        }
        rejection("output", &findings)
    }
}

/// Logs all warnings, and returns the reason of the first tripwire. Returns `None` if there is no tripwire. `side` is
/// `input` or `output`, for the reason and the log lines.
fn rejection(side: &str, findings: &Findings) -> Option<String> {
    for (guardrail, reason) in findings.warnings() {
        // The event has no parent span, because span exporters export all events within a span, and the reason may
        // quote a conversation.
        tracing::warn!(parent: None, guardrail, reason, "a guardrail warns of the {side}");
    }
    let (name, reason) = findings.tripwire()?;
    Some(format!("{side} guardrail `{name}`: {reason}"))
}

/// Builder of a [`GuardrailHook`].
#[derive(Debug, Clone, Default)]
#[must_use = "builders do nothing until `build` is called"]
pub struct GuardrailHookBuilder {
    hook: GuardrailHook,
}

impl GuardrailHookBuilder {
    /// Adds a guardrail for the input, see [`GuardrailHook::input_guardrail`].
    pub fn input_guardrail(self, guardrail: impl InputGuardrail + 'static) -> Self {
        Self { hook: self.hook.input_guardrail(guardrail) }
    }

    /// Adds a guardrail for the output, see [`GuardrailHook::output_guardrail`].
    pub fn output_guardrail(self, guardrail: impl OutputGuardrail + 'static) -> Self {
        Self { hook: self.hook.output_guardrail(guardrail) }
    }

    /// Makes the input guardrails check tool results, see [`GuardrailHook::check_tool_results`].
    pub fn check_tool_results(self) -> Self {
        Self { hook: self.hook.check_tool_results() }
    }

    /// Delays deltas until the response is checked, see [`GuardrailHook::hold_back_text`].
    pub fn hold_back_text(self) -> Self {
        Self { hook: self.hook.hold_back_text() }
    }

    /// Builds the hook.
    #[must_use]
    pub fn build(self) -> GuardrailHook {
        self.hook
    }
}
