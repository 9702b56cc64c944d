//! Event streams of model responses and of agents' runs.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;

use crate::{
    AgentResult, CompletionResponse, ContentBlock, Message, PendingApproval, ProviderError,
    StopReason, StreamError, TokenUsage, ToolCall, ToolOutput, ToolUseRef, WasmBoxedStream,
    WasmCompatSend,
};

/// An event of a model's response or of an agent's run.
///
/// A provider's stream consists of deltas, then [`Usage`](Self::Usage), [`MessageComplete`](Self::MessageComplete) and
/// [`ResponseComplete`](Self::ResponseComplete). The stream may end with an [`Error`](Self::Error) at any point.
///
/// In an agent's stream, each turn consists of deltas, `MessageComplete`, `Usage` and one
/// [`ToolResult`](Self::ToolResult) per tool call. The stream ends with exactly one [`RunComplete`](Self::RunComplete),
/// [`ApprovalRequired`](Self::ApprovalRequired) or `Error`. If the agent repeats a model call whose response broke off,
/// [`Reset`](Self::Reset) separates the deltas of the two attempts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A part of the response's text.
    TextDelta(String),
    /// A part of the model's reasoning.
    ThinkingDelta(String),
    /// The provider's signature of the preceding reasoning.
    SignatureDelta(String),
    /// The start of a tool call. The arguments follow in deltas.
    ToolUseStart {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// A part of a tool call's arguments, as JSON text.
    ToolUseInputDelta {
        /// Id of the call.
        id: String,
        /// A part of the JSON text, which continues the earlier parts.
        delta: String,
    },
    /// The end of a tool call's arguments. The arguments are truncated if the response was cut off.
    ToolUseEnd {
        /// Id of the call.
        id: String,
    },
    /// A complete tool call with parsed arguments. It follows [`ToolUseEnd`](Self::ToolUseEnd). It is not sent if the
    /// arguments are not valid JSON.
    ToolUse {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// The arguments of the call.
        input: Value,
    },
    /// The tokens of the model call, as reported by the provider. All counters are zero if nothing was reported.
    Usage(TokenUsage),
    /// The complete message of the response.
    MessageComplete(Message),
    /// The complete response. This is the last event of a provider's stream.
    ResponseComplete(Box<CompletionResponse>),
    /// The result of a tool call. Only in an agent's stream. The order of results may differ from the order of calls.
    ToolResult {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// The result that the model receives.
        output: ToolOutput,
    },
    /// The model's response broke off, and the agent repeats the model call. Only in an agent's stream.
    ///
    /// Discard the deltas since the last [`MessageComplete`](Self::MessageComplete), or since the start of the stream
    /// if there was none. The deltas of the new attempt follow. Tool calls in the discarded deltas did not run, except
    /// calls that started early.
    Reset {
        /// Number of the attempt that starts now. The first attempt was 1.
        attempt: usize,
        /// The error of the previous attempt.
        error: StreamError,
    },
    /// The run ended with a result. This is the last event of an agent's stream.
    RunComplete(Box<AgentResult>),
    /// The run stopped because tool calls need an approval. This is the last event of an agent's stream.
    ApprovalRequired(Box<PendingApproval>),
    /// The stream failed. This is the last event of the stream.
    Error(StreamError),
}

impl StreamEvent {
    /// Returns the event [`ToolUse`](Self::ToolUse) of a complete call.
    ///
    /// Returns `None` if the arguments are [not valid JSON](ToolCall::invalid_json). The event lets an agent run the
    /// call, and a call with truncated arguments must not run.
    #[must_use]
    pub fn tool_use(call: ToolUseRef<'_>) -> Option<Self> {
        let ToolUseRef { id, name, input } = call;
        let is_valid = ToolCall::invalid_json(input).is_none();
        is_valid.then(|| Self::ToolUse { id: id.into(), name: name.into(), input: input.clone() })
    }

    /// Returns all events of a call that arrived at once. The delta of arguments that are not valid JSON is the text that
    /// the model wrote.
    pub fn whole_call(call: ToolUseRef<'_>) -> impl Iterator<Item = Self> + use<> {
        let ToolUseRef { id, name, input } = call;
        let raw = ToolCall::invalid_json(input);
        let delta = raw.map_or_else(|| input.to_string(), str::to_owned);
        let start = Self::ToolUseStart { id: id.into(), name: name.into() };
        let arguments = Self::ToolUseInputDelta { id: id.into(), delta };
        let end = Self::ToolUseEnd { id: id.into() };
        [start, arguments, end].into_iter().chain(Self::tool_use(call))
    }

    /// Returns `true` if the event is a part of a response, such as text, reasoning or a tool call.
    #[must_use]
    pub fn is_delta(&self) -> bool {
        matches!(
            self,
            Self::TextDelta(_)
                | Self::ThinkingDelta(_)
                | Self::SignatureDelta(_)
                | Self::ToolUseStart { .. }
                | Self::ToolUseInputDelta { .. }
                | Self::ToolUseEnd { .. }
                | Self::ToolUse { .. }
        )
    }
}

/// A response in progress. Returned by [`Provider::complete_stream`](crate::Provider::complete_stream).
#[derive(Debug)]
pub struct StreamHandle {
    /// The events of the response.
    pub receiver: StreamReceiver,
}

impl StreamHandle {
    /// Reads the stream to its end and returns the response.
    ///
    /// If the stream has no [`StreamEvent::ResponseComplete`], the response is assembled from the last
    /// [`StreamEvent::MessageComplete`] and the last [`StreamEvent::Usage`]. The stop reason is then derived from the
    /// content of the message.
    ///
    /// # Errors
    ///
    /// The error of the stream, or [`ProviderError::StreamError`] if the stream ends without a complete message.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub fn into_response(
        mut self,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        async move {
            let mut end = ResponseEnd::default();
            while let Some(event) = self.receiver.recv().await {
                match end.take(event)? {
                    Progress::Event(_) => {}
                    Progress::Done(response) => return Ok(*response),
                }
            }
            end.finish()
        }
    }
}

impl<R: Into<StreamReceiver>> From<R> for StreamHandle {
    fn from(receiver: R) -> Self {
        Self { receiver: receiver.into() }
    }
}

/// Creates a stream of events from a complete response. The stream has the deltas, and then [`StreamEvent::Usage`],
/// [`StreamEvent::MessageComplete`] and [`StreamEvent::ResponseComplete`].
impl From<CompletionResponse> for StreamReceiver {
    fn from(response: CompletionResponse) -> Self {
        let mut events: Vec<_> = message_events(&response.message).collect();
        events.push(StreamEvent::Usage(response.usage.clone()));
        events.push(StreamEvent::MessageComplete(response.message.clone()));
        events.push(StreamEvent::ResponseComplete(Box::new(response)));
        Self::new(Events(events.into_iter()))
    }
}

/// A stream of events of a response or of a run.
///
/// The receiver has no background task and no buffer. The response or the run makes progress only while the receiver is
/// polled. Dropping the receiver cancels the request or the run.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use neuron_model::{StreamEvent, StreamReceiver};
///
/// let (sender, receiver) = tokio::sync::mpsc::channel(4);
/// let mut receiver = StreamReceiver::from(receiver);
/// sender.send(StreamEvent::TextDelta("hi".into())).await.ok();
/// drop(sender);
/// assert!(matches!(receiver.recv().await, Some(StreamEvent::TextDelta(text)) if text == "hi"));
/// assert!(receiver.recv().await.is_none());
/// # }
/// ```
pub struct StreamReceiver {
    /// The inner stream. The mutex is never locked. It makes the receiver `Sync`, although the inner stream is not.
    events: Mutex<WasmBoxedStream<'static, StreamEvent>>,
}

impl StreamReceiver {
    /// Creates a receiver from a stream of events.
    pub fn new(events: impl Stream<Item = StreamEvent> + WasmCompatSend + 'static) -> Self {
        Self::from(Box::pin(events) as WasmBoxedStream<'static, StreamEvent>)
    }

    /// Waits for the next event. Returns `None` after the last event.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. No event is lost if the future is dropped.
    pub fn recv(&mut self) -> impl Future<Output = Option<StreamEvent>> + WasmCompatSend {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

impl Stream for StreamReceiver {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        // `get_mut` does not lock the mutex, because the receiver is borrowed mutably.
        self.events.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll_next(cx)
    }
}

impl From<WasmBoxedStream<'static, StreamEvent>> for StreamReceiver {
    fn from(events: WasmBoxedStream<'static, StreamEvent>) -> Self {
        Self { events: Mutex::new(events) }
    }
}

impl From<tokio::sync::mpsc::Receiver<StreamEvent>> for StreamReceiver {
    fn from(receiver: tokio::sync::mpsc::Receiver<StreamEvent>) -> Self {
        Self::new(Channel(receiver))
    }
}

/// A stream that yields events from a list, without waiting.
struct Events(std::vec::IntoIter<StreamEvent>);

impl Stream for Events {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        Poll::Ready(self.0.next())
    }
}

impl fmt::Debug for StreamReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReceiver").finish_non_exhaustive()
    }
}

/// A stream of the events that arrive in a channel.
struct Channel(tokio::sync::mpsc::Receiver<StreamEvent>);

impl Stream for Channel {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.0.poll_recv(cx)
    }
}

/// Assembles the complete response from the events of a provider's stream.
///
/// Pass every event of the stream to [`take`](Self::take), until it returns [`Progress::Done`]. It returns the deltas
/// and stores the message and the usage. If the stream ends before `Done`, call [`finish`](Self::finish).
#[derive(Debug, Default)]
pub struct ResponseEnd {
    /// The message of the last [`StreamEvent::MessageComplete`]. `None` if no such event has arrived.
    message: Option<Message>,
    /// The tokens of the last [`StreamEvent::Usage`]. Zero if no such event has arrived.
    usage: TokenUsage,
}

/// The result of [`ResponseEnd::take`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The stream continues. Contains the event if it is a delta, and `None` for any other event.
    Event(Option<StreamEvent>),
    /// The stream has ended with this response.
    Done(Box<CompletionResponse>),
}

impl ResponseEnd {
    /// Processes the next event of the stream.
    ///
    /// # Errors
    ///
    /// The error inside a [`StreamEvent::Error`].
    pub fn take(&mut self, event: StreamEvent) -> Result<Progress, ProviderError> {
        match event {
            StreamEvent::ResponseComplete(response) => return Ok(Progress::Done(response)),
            StreamEvent::Error(error) => return Err(error.into()),
            StreamEvent::MessageComplete(message) => self.message = Some(message),
            StreamEvent::Usage(usage) => self.usage = usage,
            delta if delta.is_delta() => return Ok(Progress::Event(Some(delta))),
            // Ignore events of an agent's stream, which a provider does not send.
            _ => {}
        }
        Ok(Progress::Event(None))
    }

    /// Assembles the response of a stream that ended without a [`StreamEvent::ResponseComplete`].
    ///
    /// The response has no id and no model. Its stop reason is derived from the content of the message.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] if the stream had no [`StreamEvent::MessageComplete`].
    pub fn finish(self) -> Result<CompletionResponse, ProviderError> {
        let Some(message) = self.message else {
            return Err(ProviderError::StreamError(
                "the stream ended before the answer was complete".into(),
            ));
        };
        let stop_reason = match message
            .content
            .iter()
            .rev()
            // The metadata block may follow the last content block.
            .find(|block| !block.is_mark())
            .and_then(ContentBlock::portable)
        {
            _ if message.tool_uses().next().is_some() => StopReason::ToolUse,
            // The provider compacted the conversation and expects another call.
            Some(ContentBlock::Compaction { .. }) => StopReason::Compaction,
            _ => StopReason::EndTurn,
        };
        Ok(CompletionResponse {
            id: String::new(),
            model: String::new(),
            message,
            usage: self.usage,
            stop_reason,
        })
    }
}

/// Returns the deltas of a complete message. A block of text or reasoning has one delta, and a tool call has the events of
/// [`StreamEvent::whole_call`].
///
/// Use this function to send a complete response to a reader that expects a stream.
pub fn message_events(message: &Message) -> impl Iterator<Item = StreamEvent> {
    message.content.iter().filter_map(ContentBlock::portable).flat_map(|block| {
        let delta = match block {
            ContentBlock::Text(text) => Some(StreamEvent::TextDelta(text.clone())),
            // Reasoning without a text consists of a signature, which a reader cannot show.
            ContentBlock::Thinking { thinking, .. } if !thinking.is_empty() => {
                Some(StreamEvent::ThinkingDelta(thinking.clone()))
            }
            _ => None,
        };
        let call = block.as_tool_use().into_iter().flat_map(StreamEvent::whole_call);
        delta.into_iter().chain(call)
    })
}
