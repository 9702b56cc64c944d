//! A hook that logs the events of a run with tracing, within spans ([`TracingHook`]).

mod clocks;
mod errors;
mod events;
mod spans;

use std::sync::Arc;

use neuron_types::{
    HookAction, HookError, HookEvent, HookScope, ObservabilityHook, Operation, OperationScope,
};

use clocks::Clocks;

/// Tells [`tracing`] of a run. It watches and never interferes: it always answers
/// [`HookAction::Continue`].
///
/// # Events
///
/// | event of the run | level | name |
/// |---|---|---|
/// | [`SessionStart`](HookEvent::SessionStart), [`SessionEnd`](HookEvent::SessionEnd) | INFO | `neuron.session.start`, `neuron.session.end` |
/// | [`RunStart`](HookEvent::RunStart) | DEBUG | `neuron.run.start` |
/// | [`RunEnd`](HookEvent::RunEnd) | INFO; WARN if cancelled, ERROR if it failed | `neuron.run.end` |
/// | the run was dropped: it has no end | INFO | `neuron.run.dropped` |
/// | [`LoopIteration`](HookEvent::LoopIteration) | DEBUG | `neuron.loop.iteration` |
/// | [`PreLlmCall`](HookEvent::PreLlmCall), [`PostLlmCall`](HookEvent::PostLlmCall) | DEBUG | `neuron.llm.pre_call`, `neuron.llm.post_call` |
/// | [`FirstChunk`](HookEvent::FirstChunk) | DEBUG | `neuron.llm.first_chunk` |
/// | [`LlmError`](HookEvent::LlmError) | WARN | `neuron.llm.error` |
/// | [`PreToolExecution`](HookEvent::PreToolExecution), [`PostToolExecution`](HookEvent::PostToolExecution) | DEBUG | `neuron.tool.pre_execution`, `neuron.tool.post_execution` |
/// | [`ToolError`](HookEvent::ToolError) | WARN; DEBUG if it waits for an approval | `neuron.tool.error` |
/// | [`ContextCompaction`](HookEvent::ContextCompaction) | INFO | `neuron.context.compaction` |
///
/// Each is one tracing event whose name and message are the name above, and one span of this name that
/// ends at once, beside it and with the same fields, for collectors that keep spans only. The target of
/// all is `neuron_runtime`. The fields say where (`run_id`, `agent`, `turn`, `call_id`, `provider`, `model`; a
/// `replaying` that is true marks what a durable run repeats), how much (`input_tokens`,
/// `output_tokens` and their parts, `messages`, `tools`, `duration_ms`) and how it ended
/// (`stop_reason`, `is_error`, `error_kind`, `error`). What is unknown is left out.
///
/// # Spans
///
/// What happens runs inside spans, so that the lines of a tool or an HTTP client stand within the call
/// that they belong to, in parallel calls too: `neuron.run` at INFO; `neuron.llm.call`,
/// `neuron.tool.call` and `neuron.context.compact` at DEBUG. How each ended is recorded in its fields;
/// `outcome` is `ok`, `waiting`, `error` or `dropped`. The run of an agent inside a tool call names that
/// call (`within_run`, `within_call`), and stands within its span.
///
/// # Privacy
///
/// No text of a prompt, an answer, an argument or a result is told, unless
/// [`with_texts`](Self::with_texts) asks for it. Of errors that may quote one (those of tools, outputs
/// that do not fit, failed activities, answers that cannot be read) only the kind is told; the texts of
/// other errors are, with what a vendor's message says, the reason of a hook that ended the run, and the
/// names of tools.
///
/// # Example
///
/// ```
/// use neuron_loop::{Agent, Conversation};
/// use neuron_runtime::TracingHook;
/// # use neuron_testing::ScriptedProvider;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
///
/// # let provider = ScriptedProvider::new(["Hi!"]);
/// let agent = Agent::builder(provider).hook(TracingHook::new()).build();
/// agent.run(&mut Conversation::new(), "Hello").await?;
/// # Ok(())
/// # }
/// ```
///
/// A longer one: `RUST_LOG=debug cargo run -p neuron-runtime --example tracing_hook`.
#[derive(Debug, Clone, Default)]
pub struct TracingHook {
    /// Maximum number of characters of a text. `None` if texts are not logged.
    text_limit: Option<usize>,
    events_only: bool,
    clocks: Arc<Clocks>,
}

impl TracingHook {
    /// Tells of everything but texts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Logs texts too, with at most `max_chars` characters of each: `prompt` (the last message), `answer`,
    /// `arguments`, `result`, and `error`. They may be personal or secret. Use it only where readers of the
    /// logs may read the conversations.
    #[must_use]
    pub fn with_texts(mut self, max_chars: usize) -> Self {
        self.text_limit = Some(max_chars);
        self
    }

    /// Leaves out the spans that end at once. The events stay, and the spans around the run and its
    /// calls: all that a log and most traces need.
    #[must_use]
    pub fn without_event_spans(mut self) -> Self {
        self.events_only = true;
        self
    }

    /// A text as far as it is told.
    fn text(&self, text: impl FnOnce() -> String) -> Option<String> {
        let limit = self.text_limit?;
        let mut text = text();
        if let Some((end, _)) = text.char_indices().nth(limit) {
            text.truncate(end);
            text.push('…');
        }
        Some(text)
    }
}

impl ObservabilityHook for TracingHook {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.on_event_in(event, &HookScope::default()).await
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.tell(event, scope);
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.open_span(operation)
    }
}
