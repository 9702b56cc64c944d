//! The settings that select, capture and redact content.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuron_types::RequestRef;
use serde_json::Value;

use crate::content;
use crate::run_state::RunState;

/// Selects the telemetry that contains content (prompts, responses, arguments and results). By default no telemetry
/// contains content, because content may be personal or secret.
///
/// The environment variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` sets the default of new hooks. Its
/// values are `NO_CONTENT` or `false`, `SPAN_ONLY` or `true`, `EVENT_ONLY`, and `SPAN_AND_EVENT`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentCapture {
    /// No telemetry contains content.
    #[default]
    None,
    /// Spans contain content in attributes.
    Spans,
    /// Events named `gen_ai.client.inference.operation.details` contain content. Each model call emits one event.
    Events,
    /// Spans and events contain content.
    SpansAndEvents,
}

impl ContentCapture {
    /// Returns `true` if this setting records content in the attributes of spans.
    pub(crate) fn in_spans(self) -> bool {
        matches!(self, Self::Spans | Self::SpansAndEvents)
    }

    /// Returns `true` if this setting records content in events.
    pub(crate) fn in_events(self) -> bool {
        matches!(self, Self::Events | Self::SpansAndEvents)
    }
}

/// The kind of a piece of captured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// The system prompt, recorded in `gen_ai.system_instructions`.
    SystemInstructions,
    /// The conversation that is sent to the model, recorded in `gen_ai.input.messages`.
    InputMessages,
    /// The response of the model, recorded in `gen_ai.output.messages`.
    OutputMessages,
    /// The definitions of the tools that the model may call, recorded in `gen_ai.tool.definitions`.
    ToolDefinitions,
    /// The arguments of a tool call, recorded in `gen_ai.tool.call.arguments`.
    ToolArguments,
    /// The result of a tool call, recorded in `gen_ai.tool.call.result`.
    ToolResult,
}

/// The application's redaction function. It returns the content to record, or `None` to omit it.
type Redact = dyn Fn(ContentKind, Value) -> Option<Value> + Send + Sync;

/// The content settings of a hook. They select the telemetry that contains content, and redact the content. Content is
/// prompts, responses, arguments and results.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) capture: ContentCapture,
    pub(crate) redact: Option<Arc<Redact>>,
}

impl Content {
    /// Returns the value of `gen_ai.input.messages` for a request, or `None` if the redaction function omits it.
    ///
    /// Within a run, each message is serialised only once. If a redaction function is set, each request serialises the
    /// whole conversation instead, because the function receives all of it.
    pub(crate) fn input_messages(
        &self,
        run: Option<&RunState>,
        request: &RequestRef<'_>,
    ) -> Option<String> {
        match run.filter(|_| self.redact.is_none()) {
            Some(run) => Some(run.input_messages(request)),
            None => {
                let messages = content::input_messages(request.messages);
                self.captured(ContentKind::InputMessages, messages)
            }
        }
    }

    /// Redacts a piece of content and returns it as JSON text. Returns `None` if the redaction omits it.
    pub(crate) fn captured(&self, kind: ContentKind, value: Value) -> Option<String> {
        let value = match &self.redact {
            // If the application's function panics, the content is omitted. Telemetry must not end the run.
            Some(redact) => {
                catch_unwind(AssertUnwindSafe(|| redact(kind, value))).unwrap_or_default()?
            }
            None => value,
        };
        Some(value.to_string())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("capture", &self.capture)
            .field("redacts", &self.redact.is_some())
            .finish()
    }
}
