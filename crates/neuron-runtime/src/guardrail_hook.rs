//! The hook that puts guardrails around the calls of an agent's model.

use std::sync::Arc;

use neuron_types::{
    BoxedLayer, BufferedDeltas, CompletionResponse, HookAction, HookError, HookEvent, LoopError,
    ModelCall, ModelLayer, ModelNext, ObservabilityHook,
};

use crate::guardrail::Findings;
use crate::guardrail_text::{input_text, output_text};
use crate::{ErasedInputGuardrail, ErasedOutputGuardrail, InputGuardrail, OutputGuardrail};

/// Puts guardrails around the calls of an agent's model. Add it to the agent as a hook.
///
/// # What is checked
///
/// - Before a call of the model, the input: what the user said since the model's last answer, in one
///   text, with all texts of a `ContentBlock::Raw` that has no portable form. What passed is not checked
///   again for a later call. [Results of tools](Self::check_tool_results) only if that is asked for.
/// - After a call, the output: the text of the answer. The output of a typed run counts as text, as
///   JSON, also where the model gives it by a tool; arguments of other tools do not, nor does the
///   model's reasoning. JSON in which characters are escaped (`\u0040`, `\n`) is followed by the same
///   with the characters themselves. An answer that the provider paused and continued is checked as one.
///
/// Without a text there is nothing to check. All guardrails run, one after another.
///
/// # What follows
///
/// - A tripwire ends the run with `LoopError::HookTerminated`, which names the guardrail. The rejected
///   text does not stay: rejected input leaves the conversation with the reminders behind it, a
///   rejected answer does not come into it, and no tool of that answer runs, but those that were
///   started early. What completed in earlier turns stays, and the error says so. The agent can go on
///   with another message.
/// - A warning is logged (`tracing::warn!`), and the run goes on.
/// - A guardrail that panics trips.
///
/// # Streams
///
/// What a stream shows of an answer before its end has not been checked.
/// [`hold_back_text`](Self::hold_back_text) lets it wait for the check.
///
/// # Limits
///
/// - Other hooks see what is rejected, and so does the journal of a durable engine. At a replay
///   guardrails are asked again and must say the same.
/// - A context strategy works before the check: one that asks a model may send it what is not checked
///   yet.
/// - Results of tools have been shown to a stream's reader when they are checked: the check keeps them
///   from the model.
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
    checks_tool_results: bool,
    holds_back_text: bool,
}

impl GuardrailHook {
    /// Creates a hook without guardrails.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts building a hook. The same as [`new`](Self::new) with a `build` at the end.
    pub fn builder() -> GuardrailHookBuilder {
        GuardrailHookBuilder::default()
    }

    /// Adds a guardrail for the input, after those added before.
    #[must_use]
    pub fn input_guardrail(mut self, guardrail: impl InputGuardrail + 'static) -> Self {
        self.input.push(Arc::new(guardrail));
        self
    }

    /// Adds a guardrail for the output, after those added before.
    #[must_use]
    pub fn output_guardrail(mut self, guardrail: impl OutputGuardrail + 'static) -> Self {
        self.output.push(Arc::new(guardrail));
        self
    }

    /// Makes the input guardrails also check the text of tool results, including resources and links to them,
    /// before the model sees them. The results and the input of the user are one text. After a tripwire a
    /// notice replaces each of the latest results. By default results are not checked.
    #[must_use]
    pub fn check_tool_results(mut self) -> Self {
        self.checks_tool_results = true;
        self
    }

    /// Delays a stream until the whole response has passed the output guardrails. After a tripwire nothing of
    /// it is shown. It takes memory for one response. By default a stream shows everything at once.
    #[must_use]
    pub fn hold_back_text(mut self) -> Self {
        self.holds_back_text = true;
        self
    }
}

/// Judges as a [layer](ModelLayer) around the calls of an agent's model. As a hook it only brings that layer.
impl ObservabilityHook for GuardrailHook {
    async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
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
            next.take_back_input(self.checks_tool_results);
            return Err(call.rejected(reason, self.checks_tool_results));
        }
        if self.output.is_empty() {
            return next.run(call).await;
        }
        let held = next.sink().filter(|_| self.holds_back_text).map(BufferedDeltas::new);
        let response = held.as_ref().map_or(next, |held| next.with_sink(held)).run(call).await?;
        if let Some(reason) = self.judge_output(&output_text(&response, &call)).await {
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
    async fn judge_input(&self, text: &str) -> Option<String> {
        let mut findings = Findings::default();
        if !text.is_empty() {
            for guardrail in &self.input {
                findings.add_input(&**guardrail, text).await;
            }
        }
        rejection("input", &findings)
    }

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

/// Logs the warnings, and returns the reason for a rejection.
fn rejection(side: &str, findings: &Findings) -> Option<String> {
    for (guardrail, reason) in findings.warnings() {
        // Outside of any span: exporters of spans export what is logged within them.
        tracing::warn!(parent: None, guardrail, reason, "a guardrail warns of the {side}");
    }
    let (name, reason) = findings.tripwire()?;
    Some(format!("{side} guardrail `{name}`: {reason}"))
}

/// Builds a [`GuardrailHook`].
#[derive(Debug, Clone, Default)]
#[must_use = "builders do nothing until `build` is called"]
pub struct GuardrailHookBuilder {
    hook: GuardrailHook,
}

impl GuardrailHookBuilder {
    /// [`GuardrailHook::input_guardrail`].
    pub fn input_guardrail(self, guardrail: impl InputGuardrail + 'static) -> Self {
        Self { hook: self.hook.input_guardrail(guardrail) }
    }

    /// [`GuardrailHook::output_guardrail`].
    pub fn output_guardrail(self, guardrail: impl OutputGuardrail + 'static) -> Self {
        Self { hook: self.hook.output_guardrail(guardrail) }
    }

    /// [`GuardrailHook::check_tool_results`].
    pub fn check_tool_results(self) -> Self {
        Self { hook: self.hook.check_tool_results() }
    }

    /// [`GuardrailHook::hold_back_text`].
    pub fn hold_back_text(self) -> Self {
        Self { hook: self.hook.hold_back_text() }
    }

    /// Builds the hook.
    #[must_use]
    pub fn build(self) -> GuardrailHook {
        self.hook
    }
}
