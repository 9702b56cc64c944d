//! Whether what is said leaves the process, and what is taken out of it first.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use neuron_types::RequestRef;
use serde_json::Value;

use crate::content;
use crate::run_state::RunState;

/// Where prompts, answers, arguments and results are told. By default nowhere: they may be personal or secret.
///
/// The variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` sets it for hooks that are not told
/// otherwise: `NO_CONTENT` or `false`, `SPAN_ONLY` or `true`, `EVENT_ONLY`, `SPAN_AND_EVENT`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentCapture {
    /// Nowhere.
    #[default]
    None,
    /// As attributes of spans.
    Spans,
    /// As events `gen_ai.client.inference.operation.details`, one for each call of a model.
    Events,
    /// Both.
    SpansAndEvents,
}

impl ContentCapture {
    /// Whether spans tell it.
    pub(crate) fn in_spans(self) -> bool {
        matches!(self, Self::Spans | Self::SpansAndEvents)
    }

    /// Whether events tell it.
    pub(crate) fn in_events(self) -> bool {
        matches!(self, Self::Events | Self::SpansAndEvents)
    }
}

/// What a piece of captured content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// The system prompt: `gen_ai.system_instructions`.
    SystemInstructions,
    /// The conversation that the model is sent: `gen_ai.input.messages`.
    InputMessages,
    /// The answer: `gen_ai.output.messages`.
    OutputMessages,
    /// The tools that the model is offered: `gen_ai.tool.definitions`.
    ToolDefinitions,
    /// The arguments of a call: `gen_ai.tool.call.arguments`.
    ToolArguments,
    /// What a call gave: `gen_ai.tool.call.result`.
    ToolResult,
}

type Redact = dyn Fn(ContentKind, Value) -> Option<Value> + Send + Sync;

/// What is captured, and what it passes through.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) capture: ContentCapture,
    pub(crate) redact: Option<Arc<Redact>>,
}

impl Content {
    /// `gen_ai.input.messages` of a request, if it may be told. Within a run, each message is written once, unless the
    /// application redacts the whole conversation.
    pub(crate) fn input_messages(
        &self,
        run: Option<&RunState>,
        request: &RequestRef<'_>,
    ) -> Option<String> {
        match run.filter(|_| self.redact.is_none()) {
            Some(run) => Some(run.input_messages(request)),
            None => {
                let messages = content::input_messages(request.messages);
                self.told(ContentKind::InputMessages, messages)
            }
        }
    }

    /// A piece as JSON text, if it may be told.
    pub(crate) fn told(&self, kind: ContentKind, value: Value) -> Option<String> {
        let value = match &self.redact {
            // It is the application's: what panics in it is not told, and ends no run.
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
