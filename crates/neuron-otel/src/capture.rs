//! The capture of message content, and its redaction.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuron_types::RequestRef;
use serde_json::Value;

use crate::content;
use crate::run_state::RunState;

/// The telemetry that contains prompts, responses, arguments and results. Default: none, because content may be
/// personal or secret.
///
/// The variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` sets the default of new hooks. Its values are
/// `NO_CONTENT` or `false`, `SPAN_ONLY` or `true`, `EVENT_ONLY`, and `SPAN_AND_EVENT`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentCapture {
    /// No telemetry contains content.
    #[default]
    None,
    /// Spans contain content in attributes.
    Spans,
    /// Events named `gen_ai.client.inference.operation.details` contain content. Each model call has one event.
    Events,
    /// Spans and events contain content.
    SpansAndEvents,
}

impl ContentCapture {
    /// Returns `true` if spans contain content.
    pub(crate) fn in_spans(self) -> bool {
        matches!(self, Self::Spans | Self::SpansAndEvents)
    }

    /// Returns `true` if events contain content.
    pub(crate) fn in_events(self) -> bool {
        matches!(self, Self::Events | Self::SpansAndEvents)
    }
}

/// The kind of a piece of captured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// The system prompt, in `gen_ai.system_instructions`.
    SystemInstructions,
    /// The conversation that is sent to the model, in `gen_ai.input.messages`.
    InputMessages,
    /// The response, in `gen_ai.output.messages`.
    OutputMessages,
    /// The tools that the model may call, in `gen_ai.tool.definitions`.
    ToolDefinitions,
    /// The arguments of a tool call, in `gen_ai.tool.call.arguments`.
    ToolArguments,
    /// The result of a tool call, in `gen_ai.tool.call.result`.
    ToolResult,
}

type Redact = dyn Fn(ContentKind, Value) -> Option<Value> + Send + Sync;

/// The settings of content capture.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) capture: ContentCapture,
    pub(crate) redact: Option<Arc<Redact>>,
}

impl Content {
    /// Returns `gen_ai.input.messages` of a request, if the redaction permits it. Within a run each message is
    /// serialised once, unless a redaction needs the whole conversation.
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

    /// Returns a piece of content as JSON text, if the redaction permits it.
    pub(crate) fn captured(&self, kind: ContentKind, value: Value) -> Option<String> {
        let value = match &self.redact {
            // A panic in the application's function removes the piece, and does not end the run.
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
