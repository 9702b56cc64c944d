//! A hook that logs the events of a run with tracing, within spans ([`TracingHook`]).

mod clocks;
mod errors;
mod events;
mod spans;

use std::sync::Arc;

use neuron_types::{
    HookAction, HookAttachment, HookError, HookEvent, HookScope, ObservabilityHook, Operation,
    OperationScope,
};

use clocks::Clocks;

/// Records the events of a run with [`tracing`]. The hook never changes a run, because it always returns
/// [`HookAction::Continue`].
///
/// # Events
///
/// | event of the run | level | name |
/// |---|---|---|
/// | [`SessionStart`](HookEvent::SessionStart), [`SessionEnd`](HookEvent::SessionEnd) | INFO | `neuron.session.start`, `neuron.session.end` |
/// | [`RunStart`](HookEvent::RunStart) | DEBUG | `neuron.run.start` |
/// | [`RunEnd`](HookEvent::RunEnd) | INFO; WARN if cancelled, ERROR if it failed | `neuron.run.end` |
/// | the run was dropped, so it has no [`RunEnd`](HookEvent::RunEnd) | INFO | `neuron.run.dropped` |
/// | [`LoopIteration`](HookEvent::LoopIteration) | DEBUG | `neuron.loop.iteration` |
/// | [`PreLlmCall`](HookEvent::PreLlmCall), [`PostLlmCall`](HookEvent::PostLlmCall) | DEBUG | `neuron.llm.pre_call`, `neuron.llm.post_call` |
/// | [`FirstChunk`](HookEvent::FirstChunk) | DEBUG | `neuron.llm.first_chunk` |
/// | [`LlmError`](HookEvent::LlmError) | WARN | `neuron.llm.error` |
/// | [`PreToolExecution`](HookEvent::PreToolExecution), [`PostToolExecution`](HookEvent::PostToolExecution) | DEBUG | `neuron.tool.pre_execution`, `neuron.tool.post_execution` |
/// | [`ToolError`](HookEvent::ToolError) | WARN; DEBUG if it waits for an approval | `neuron.tool.error` |
/// | [`ContextCompaction`](HookEvent::ContextCompaction) | INFO | `neuron.context.compaction` |
///
/// Each event of the run is recorded as one tracing event. Its name and its message are the name in the table. The hook
/// also records a span with the same name and fields, and closes it immediately. This span is for collectors that keep
/// only spans. The target of all events and spans is `neuron_runtime`.
///
/// The fields have these purposes:
///
/// - They identify the call: `run_id`, `agent`, `turn`, `call_id`, `provider`, `model`.
/// - They contain counts: `input_tokens`, `output_tokens` and their parts, `cost`, `messages`, `tools`,
///   `duration_ms`.
/// - They contain the outcome: `stop_reason`, `is_error`, `error_kind`, `error`.
/// - `replaying` is `true` while a durable run repeats work from its journal.
///
/// Unknown values are left out.
///
/// # Spans
///
/// The run and its operations run inside spans. The log lines of a tool or an HTTP client therefore belong to the right
/// call, even if calls are parallel.
///
/// - The span `neuron.run` has the level INFO.
/// - The spans `neuron.llm.call`, `neuron.tool.call` and `neuron.context.compact` have the level DEBUG.
/// - At its end each span records the `outcome`, which is `ok`, `waiting`, `error` or `dropped`.
/// - If an agent runs inside a tool call, its run has the fields `within_run` and `within_call`. Its span is a child of
///   the span of the tool call.
///
/// # Privacy
///
/// Texts of prompts, responses, arguments and results are recorded only with [`with_texts`](Self::with_texts). Some
/// errors may quote such a text. These are errors of tools, invalid typed output, failed activities and unreadable
/// responses. Without `with_texts`, only the kind of such an error is recorded.
///
/// The texts of all other errors are always recorded, including a vendor's message and the reason of a hook that ended
/// the run. The names of tools are always recorded too.
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
/// For a longer example run `cargo run -p neuron-examples -- tracing_log`.
#[derive(Debug, Clone, Default)]
pub struct TracingHook {
    /// Maximum number of characters of a text. `None` if texts are not logged.
    text_limit: Option<usize>,
    /// Set if each event of a run is recorded only as a tracing event, without an additional span.
    events_only: bool,
    /// Start times of the open runs and calls, shared by all clones.
    clocks: Arc<Clocks>,
    attachment: HookAttachment,
}

impl TracingHook {
    /// Creates a hook that records all events and spans, without the texts of the conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records texts too, each cut to `max_chars` characters. The texts are the fields `prompt` (the last message),
    /// `answer`, `arguments`, `result`, and every `error`. They may be personal or secret. Enable this only if all
    /// readers of the logs may read the conversations.
    #[must_use]
    pub fn with_texts(mut self, max_chars: usize) -> Self {
        self.text_limit = Some(max_chars);
        self
    }

    /// Stops recording a span for each event. The events remain, and so do the spans around the run and its calls. Logs
    /// and most traces need only these.
    #[must_use]
    pub fn without_event_spans(mut self) -> Self {
        self.events_only = true;
        self
    }

    /// Returns a text cut to the limit of [`with_texts`](Self::with_texts). Returns `None` if texts are not recorded.
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
        self.attachment.warn(&event, "TracingHook", "on_event_in and scope");
        self.tell(event, scope);
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.attachment.attach();
        self.open_span(operation)
    }
}
