//! A scripted response with its content, its delays, and the point at which it breaks.

use std::future::pending;
use std::time::Duration;

use neuron_types::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason, StreamError,
    TokenUsage,
};
use serde_json::Value;

/// A scripted response of a model.
///
/// The constructors set the content. The other methods add content or set how the response is sent. Values that are not
/// set have defaults, which are the same in every run:
///
/// - the id is `msg_1` for the first call of a script and `msg_2` for the second
/// - the model is the model of the request
/// - the usage is estimated from the lengths of the prompt and the response, and is never zero
/// - the stop reason is [`StopReason::ToolUse`] if the response calls tools, and [`StopReason::EndTurn`] otherwise
///
/// [`end_early_after`](Self::end_early_after), [`fail_after`](Self::fail_after) and [`hang_after`](Self::hang_after)
/// break a stream after a number of events. A response that is not streamed breaks too, if its stream would have more
/// events than this number. Only the last call of these three methods takes effect.
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
    /// The error or the endless wait that the reply has instead of content. `None` if the reply has content.
    instead: Option<Cut>,
    id: Option<String>,
    model: Option<String>,
    usage: Option<TokenUsage>,
    stop_reason: Option<StopReason>,
    pace: Pace,
}

/// The delays of a response, the size of its deltas, and the point at which it breaks.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Delay before the response or the error.
    pub(crate) delay: Duration,
    /// Delay between two events of a stream.
    pub(crate) event_delay: Duration,
    /// Number of characters in a delta.
    pub(crate) chunk_chars: usize,
    /// Number of events before the stream breaks, and the way in which the stream breaks. `None` if it does not break.
    pub(crate) cut: Option<(usize, Cut)>,
}

/// The way in which a scripted response breaks.
#[derive(Debug, Clone)]
pub(crate) enum Cut {
    /// Ends the stream without an error.
    End,
    /// Fails with an error. A [`ProviderError`] cannot be cloned, so the variant stores a [`StreamError`].
    Fail(StreamError),
    Hang,
}

/// The values of a request that determine the defaults of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The number of the call, counted from 1.
    pub(crate) call: usize,
    /// The model that the request names.
    pub(crate) model: &'a str,
    /// Approximate number of characters in the prompt, to estimate the usage. For a server, the bytes of the request
    /// body.
    pub(crate) prompt_chars: usize,
}

impl Reply {
    /// Creates a reply that contains only this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message(vec![ContentBlock::Text(text.into())])
    }

    /// Creates a reply that calls one tool.
    pub fn tool_call(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::tool_calls([(id, name, input)])
    }

    /// Creates a reply that calls several tools. Each item has the id, the name and the arguments of a call.
    ///
    /// [`ToolCall::invalid_json_input`](neuron_types::ToolCall::invalid_json_input) creates arguments that are not
    /// valid JSON. Such arguments are streamed as raw text.
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

    /// Creates a reply with these content blocks.
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

    /// Creates a reply that sends this response, including its id, model, usage and stop reason.
    pub fn response(response: CompletionResponse) -> Self {
        Self {
            id: Some(response.id),
            model: Some(response.model),
            usage: Some(response.usage),
            stop_reason: Some(response.stop_reason),
            ..Self::message(response.message.content)
        }
    }

    /// Creates a reply that fails with `error` and sends no content. A stream fails before its first event.
    ///
    /// A loopback server sends the HTTP status and the body that a provider converts to `error`.
    pub fn error(error: ProviderError) -> Self {
        Self { instead: Some(Cut::Fail(error.into())), ..Self::message(Vec::new()) }
    }

    /// Creates a reply that is never sent. The call waits forever.
    pub fn hang() -> Self {
        Self { instead: Some(Cut::Hang), ..Self::message(Vec::new()) }
    }

    /// Adds a text block after all other content, but before the first tool call.
    ///
    /// Has no effect on a reply that fails or hangs.
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        let first_call = self.content.iter().position(|block| block.as_tool_use().is_some());
        let before_calls = first_call.unwrap_or(self.content.len());
        self.content.insert(before_calls, ContentBlock::Text(text.into()));
        self
    }

    /// Adds a reasoning block before all other content, but after earlier reasoning blocks.
    ///
    /// Has no effect on a reply that fails or hangs.
    pub fn thinking(mut self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        let is_thinking = |block: &&ContentBlock| matches!(block, ContentBlock::Thinking { .. });
        let after_thinking = self.content.iter().take_while(is_thinking).count();
        let block = ContentBlock::Thinking { thinking: text.into(), signature: signature.into() };
        self.content.insert(after_thinking, block);
        self
    }

    /// Sets the token usage that the response reports. Default: an estimate.
    pub fn usage(self, usage: TokenUsage) -> Self {
        Self { usage: Some(usage), ..self }
    }

    /// Sets the stop reason of the response. The default depends on the content.
    pub fn stop_reason(self, stop_reason: StopReason) -> Self {
        Self { stop_reason: Some(stop_reason), ..self }
    }

    /// Sets the model that the response names. Default: the model of the request.
    pub fn model(self, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Sets the id of the response. Default: `msg_` and the number of the call.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Sets the delay before the response or the error is sent. Default: none.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.pace.delay = delay;
        self
    }

    /// Sets the delay between two events of a stream. Default: none.
    pub fn event_delay(mut self, delay: Duration) -> Self {
        self.pace.event_delay = delay;
        self
    }

    /// Sets the number of characters in a delta of text, reasoning or arguments. Default: 16. Minimum: 1.
    pub fn chunk_chars(mut self, chars: usize) -> Self {
        self.pace.chunk_chars = chars.max(1);
        self
    }

    /// Ends the stream after `events` events. The client gets no error and none of the remaining events.
    pub fn end_early_after(self, events: usize) -> Self {
        self.cut(events, Cut::End)
    }

    /// Breaks the stream with `error` after `events` events.
    pub fn fail_after(self, events: usize, error: ProviderError) -> Self {
        self.cut(events, Cut::Fail(error.into()))
    }

    /// Sends the first `events` events, then keeps the stream open without sending more.
    pub fn hang_after(self, events: usize) -> Self {
        self.cut(events, Cut::Hang)
    }

    fn cut(mut self, events: usize, cut: Cut) -> Self {
        self.pace.cut = Some((events, cut));
        self
    }

    /// Fills in the defaults of the reply.
    ///
    /// Returns the response and its pace (delays and break). A reply that only fails or hangs has a [`Cut`] instead of
    /// a response.
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
    /// Returns the error of a call that is not streamed and whose response breaks. Never returns for [`Cut::Hang`].
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

/// Estimates the usage of a call with four characters per token, plus a few tokens for each message.
fn estimate(asked: &Asked<'_>, content: &[ContentBlock]) -> TokenUsage {
    TokenUsage {
        input_tokens: 8 + asked.prompt_chars / 4,
        output_tokens: 4 + chars(content) / 4,
        ..TokenUsage::default()
    }
}

/// Returns the total number of characters in content blocks.
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
