//! A scripted response: its content, its pace, and the point at which it breaks.

use std::future::pending;
use std::time::Duration;

use neuron_types::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason, StreamError,
    TokenUsage,
};
use serde_json::Value;

/// A scripted response of a model.
///
/// It says what comes; the methods that return `Self` say how. What is not set follows from what
/// is, and is the same in every run:
///
/// - the id is `msg_1` for the first call of a script, `msg_2` for the second;
/// - the model is the one that the request asks for;
/// - the usage is estimated from the lengths of prompt and answer, and never zero;
/// - the stop reason is [`StopReason::ToolUse`] if tools are called, else [`StopReason::EndTurn`].
///
/// What breaks a stream ([`end_early_after`](Self::end_early_after),
/// [`fail_after`](Self::fail_after), [`hang_after`](Self::hang_after)) breaks an answer that is
/// not streamed too, if it would not have been complete by then. The last one set counts.
///
/// # Example
///
/// ```
/// use neuron_testing::Reply;
/// use serde_json::json;
///
/// let reply = Reply::tool_calls([
///     ("call_1", "weather", json!({"city": "Paris"})),
///     ("call_2", "weather", json!({"city": "Oslo"})),
/// ])
/// .thinking("Two cities, two calls.", "signature")
/// .with_text("Let me look.");
/// # let _ = reply;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Reply {
    content: Vec<ContentBlock>,
    /// Takes the place of the response.
    instead: Option<Cut>,
    id: Option<String>,
    model: Option<String>,
    usage: Option<TokenUsage>,
    stop_reason: Option<StopReason>,
    pace: Pace,
}

/// The pace of a response.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    pub(crate) delay: Duration,
    pub(crate) event_delay: Duration,
    pub(crate) chunk_chars: usize,
    /// After how many events a stream breaks, and how.
    pub(crate) cut: Option<(usize, Cut)>,
}

/// The way in which a response breaks.
#[derive(Debug, Clone)]
pub(crate) enum Cut {
    End,
    /// A stream error, because a provider's error cannot be cloned.
    Fail(StreamError),
    Hang,
}

/// The request values from which the defaults of a reply follow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The number of the call, from 1.
    pub(crate) call: usize,
    pub(crate) model: &'a str,
    pub(crate) prompt_chars: usize,
}

impl Reply {
    /// Answers with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message(vec![ContentBlock::Text(text.into())])
    }

    /// Calls one tool.
    pub fn tool_call(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::tool_calls([(id, name, input)])
    }

    /// Calls several tools at once: for each its id, its name and the arguments.
    ///
    /// [`ToolCall::invalid_json_input`](neuron_types::ToolCall::invalid_json_input) gives
    /// arguments that are no JSON: they are streamed as their raw text.
    pub fn tool_calls(
        calls: impl IntoIterator<Item = (impl Into<String>, impl Into<String>, Value)>,
    ) -> Self {
        Self::message(
            calls
                .into_iter()
                .map(|(id, name, input)| ContentBlock::ToolUse {
                    id: id.into(),
                    name: name.into(),
                    input,
                })
                .collect(),
        )
    }

    /// Answers with any content.
    pub fn message(content: Vec<ContentBlock>) -> Self {
        Self {
            content,
            instead: None,
            id: None,
            model: None,
            usage: None,
            stop_reason: None,
            pace: Pace {
                delay: Duration::ZERO,
                event_delay: Duration::ZERO,
                chunk_chars: 16,
                cut: None,
            },
        }
    }

    /// Answers with this response.
    pub fn response(response: CompletionResponse) -> Self {
        Self {
            id: Some(response.id),
            model: Some(response.model),
            usage: Some(response.usage),
            stop_reason: Some(response.stop_reason),
            ..Self::message(response.message.content)
        }
    }

    /// Answers with an error, before any event of a stream.
    ///
    /// A server sends the HTTP status and body from which a provider makes this error.
    pub fn error(error: ProviderError) -> Self {
        Self { instead: Some(Cut::Fail(error.into())), ..Self::message(Vec::new()) }
    }

    /// Never answers.
    pub fn hang() -> Self {
        Self { instead: Some(Cut::Hang), ..Self::message(Vec::new()) }
    }

    /// Adds a text: after the content there is, but before the tool calls.
    ///
    /// Changes nothing of an error or a reply that hangs.
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        let first_call = self.content.iter().position(|block| block.as_tool_use().is_some());
        let before_calls = first_call.unwrap_or(self.content.len());
        self.content.insert(before_calls, ContentBlock::Text(text.into()));
        self
    }

    /// Adds reasoning: before all other content, but after reasoning that is there.
    ///
    /// Changes nothing of an error or a reply that hangs.
    pub fn thinking(mut self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        let is_thinking = |block: &&ContentBlock| matches!(block, ContentBlock::Thinking { .. });
        let after_thinking = self.content.iter().take_while(is_thinking).count();
        let block = ContentBlock::Thinking { thinking: text.into(), signature: signature.into() };
        self.content.insert(after_thinking, block);
        self
    }

    /// Sets the tokens that the call took.
    pub fn usage(self, usage: TokenUsage) -> Self {
        Self { usage: Some(usage), ..self }
    }

    /// Sets why the model stopped.
    pub fn stop_reason(self, stop_reason: StopReason) -> Self {
        Self { stop_reason: Some(stop_reason), ..self }
    }

    /// Sets the model that answers.
    pub fn model(self, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Sets the answer's id.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Waits so long before the answer begins, an error included.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.pace.delay = delay;
        self
    }

    /// Waits so long between two events of a stream.
    pub fn event_delay(mut self, delay: Duration) -> Self {
        self.pace.event_delay = delay;
        self
    }

    /// Sets the number of characters in a delta of text, reasoning or arguments. Default: 16. Minimum: 1.
    pub fn chunk_chars(mut self, chars: usize) -> Self {
        self.pace.chunk_chars = chars.max(1);
        self
    }

    /// Ends the stream after so many events, without an error and without the rest.
    pub fn end_early_after(self, events: usize) -> Self {
        self.cut(events, Cut::End)
    }

    /// Breaks the stream with an error after so many events.
    pub fn fail_after(self, events: usize, error: ProviderError) -> Self {
        self.cut(events, Cut::Fail(error.into()))
    }

    /// Sends nothing more after so many events, and does not end the stream.
    pub fn hang_after(self, events: usize) -> Self {
        self.cut(events, Cut::Hang)
    }

    fn cut(mut self, events: usize, cut: Cut) -> Self {
        self.pace.cut = Some((events, cut));
        self
    }

    /// Fills in the defaults. The error says how the reply breaks before it begins.
    pub(crate) fn resolve(self, asked: Asked<'_>) -> (Result<CompletionResponse, Cut>, Pace) {
        let Self { content, instead, .. } = self;
        let calls_tools = content.iter().any(|block| block.as_tool_use().is_some());
        let derived = if calls_tools { StopReason::ToolUse } else { StopReason::EndTurn };
        let response = CompletionResponse {
            id: self.id.unwrap_or_else(|| format!("msg_{}", asked.call)),
            model: self.model.unwrap_or_else(|| asked.model.to_owned()),
            usage: self.usage.unwrap_or_else(|| estimate(&asked, &content)),
            stop_reason: self.stop_reason.unwrap_or(derived),
            message: Message { role: Role::Assistant, content },
        };
        (instead.map_or(Ok(response), Err), self.pace)
    }
}

impl Cut {
    /// Returns the error of a response that is not streamed, or never returns.
    pub(crate) async fn error(self) -> ProviderError {
        match self {
            Self::End => {
                ProviderError::StreamError("the stream ended before the answer was complete".into())
            }
            Self::Fail(error) => error.into(),
            Self::Hang => pending().await,
        }
    }
}

/// Estimates four characters per token, and a few tokens for the frame.
fn estimate(asked: &Asked<'_>, content: &[ContentBlock]) -> TokenUsage {
    TokenUsage {
        input_tokens: 8 + asked.prompt_chars / 4,
        output_tokens: 4 + chars(content) / 4,
        ..TokenUsage::default()
    }
}

/// Returns the number of characters in content.
pub(crate) fn chars<'a>(content: impl IntoIterator<Item = &'a ContentBlock>) -> usize {
    let blocks = content.into_iter().map(|block| match block {
        ContentBlock::Thinking { thinking, .. } => thinking.chars().count(),
        other => other.to_string().chars().count(),
    });
    blocks.sum()
}

impl From<CompletionResponse> for Reply {
    fn from(response: CompletionResponse) -> Self {
        Self::response(response)
    }
}

impl From<ProviderError> for Reply {
    fn from(error: ProviderError) -> Self {
        Self::error(error)
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}
