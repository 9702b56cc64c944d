//! A model's answer, and an agent's run, as a stream of events.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;

use crate::{
    AgentResult, CompletionResponse, ContentBlock, Message, PendingApproval, ProviderError,
    StopReason, StreamError, TokenUsage, ToolOutput, WasmBoxedStream, WasmCompatSend,
};

/// Something that happened while a model answered, or while an agent ran.
///
/// A provider's stream is deltas, then [`Usage`](Self::Usage),
/// [`MessageComplete`](Self::MessageComplete) and [`ResponseComplete`](Self::ResponseComplete), or
/// an [`Error`](Self::Error) at any point. An agent's stream has, for each turn, deltas,
/// `MessageComplete`, `Usage` and one [`ToolResult`](Self::ToolResult) a tool call, and ends with
/// exactly one [`RunComplete`](Self::RunComplete), [`ApprovalRequired`](Self::ApprovalRequired) or
/// `Error`. Where it tries a broken answer again, [`Reset`](Self::Reset) comes between the deltas of
/// both attempts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A piece of the answer's text.
    TextDelta(String),
    /// A piece of the model's reasoning.
    ThinkingDelta(String),
    /// The signature of the reasoning so far.
    SignatureDelta(String),
    /// A tool call begins; its arguments follow in pieces.
    ToolUseStart {
        /// Identifies the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A piece of a tool call's arguments, as JSON text.
    ToolUseInputDelta {
        /// Identifies the call.
        id: String,
        /// The piece.
        delta: String,
    },
    /// A tool call's arguments are complete, or were cut off.
    ToolUseEnd {
        /// Identifies the call.
        id: String,
    },
    /// A tool call with its parsed arguments. Follows [`ToolUseEnd`](Self::ToolUseEnd); missing
    /// when the arguments are not JSON.
    ToolUse {
        /// Identifies the call.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        input: Value,
    },
    /// The tokens that the call took, as the provider reported them; all zero where it did not.
    Usage(TokenUsage),
    /// The answer, assembled.
    MessageComplete(Message),
    /// The whole response: the last event of a provider's stream.
    ResponseComplete(Box<CompletionResponse>),
    /// An agent ran a tool. In an agent's stream only; results may come in another order than
    /// the calls.
    ToolResult {
        /// The call that this answers.
        id: String,
        /// The tool's name.
        name: String,
        /// What the model will see.
        output: ToolOutput,
    },
    /// The model's answer broke off, and the call is made again: the deltas of this answer so far
    /// count no more, and those of a new one follow. In an agent's stream only.
    ///
    /// An answer that counts ends with [`MessageComplete`](Self::MessageComplete); what is superseded
    /// are the deltas since the last of these, or since the beginning. None of its tool calls ran.
    Reset {
        /// Which attempt begins now; the first was 1.
        attempt: usize,
        /// What ended the attempt before.
        error: StreamError,
    },
    /// An agent's run ended with an answer: the last event of its stream.
    RunComplete(Box<AgentResult>),
    /// An agent's run stopped because calls need an approval: the last event of its stream.
    ApprovalRequired(Box<PendingApproval>),
    /// The stream broke. Nothing follows.
    Error(StreamError),
}

impl StreamEvent {
    /// Whether this is a piece of a model's answer: text, reasoning, or a tool call.
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

/// A running answer: what [`Provider::complete_stream`](crate::Provider::complete_stream) returns.
#[derive(Debug)]
pub struct StreamHandle {
    /// The events.
    pub receiver: StreamReceiver,
}

impl StreamHandle {
    /// Reads the stream to its end and returns the whole response.
    ///
    /// A stream without [`StreamEvent::ResponseComplete`] gives a response made from its
    /// [`StreamEvent::MessageComplete`], its last usage, and a stop reason that follows from
    /// whether there are tool calls.
    ///
    /// # Errors
    ///
    /// The stream's error; [`ProviderError::StreamError`] when it ends before the message does.
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

/// Streams a whole answer: the deltas of its content, its usage, the message, and the answer as the last event.
impl From<CompletionResponse> for StreamReceiver {
    fn from(response: CompletionResponse) -> Self {
        let mut events: Vec<_> = message_events(&response.message).collect();
        events.push(StreamEvent::Usage(response.usage.clone()));
        events.push(StreamEvent::MessageComplete(response.message.clone()));
        events.push(StreamEvent::ResponseComplete(Box::new(response)));
        Self::new(Events(events.into_iter()))
    }
}

/// A stream of events, polled by its owner: no task and no hidden buffer stand behind it.
///
/// Dropping it cancels what it streams.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use neuron_types::{StreamEvent, StreamReceiver};
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
    /// Never locked: the mutex only makes the receiver `Sync`, as tokio's receiver is.
    events: Mutex<WasmBoxedStream<'static, StreamEvent>>,
}

impl StreamReceiver {
    /// Wraps a stream of events.
    pub fn new(events: impl Stream<Item = StreamEvent> + WasmCompatSend + 'static) -> Self {
        Self::from(Box::pin(events) as WasmBoxedStream<'static, StreamEvent>)
    }

    /// Returns the next event, or `None` after the last.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost when the future is dropped.
    pub fn recv(&mut self) -> impl Future<Output = Option<StreamEvent>> + WasmCompatSend {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

impl Stream for StreamReceiver {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
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

/// A stream of events that are there already.
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

struct Channel(tokio::sync::mpsc::Receiver<StreamEvent>);

impl Stream for Channel {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.0.poll_recv(cx)
    }
}

/// Finds the whole response at the end of a provider's stream: the one rule for what counts as a
/// complete answer.
///
/// Feed it every event; it passes deltas on and keeps what belongs to the end.
#[derive(Debug, Default)]
pub struct ResponseEnd {
    message: Option<Message>,
    usage: TokenUsage,
}

/// What [`ResponseEnd::take`] made of an event.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress {
    /// An event for whoever watches the answer grow.
    Event(Option<StreamEvent>),
    /// The answer is complete.
    Done(Box<CompletionResponse>),
}

impl ResponseEnd {
    /// Takes the stream's next event.
    ///
    /// # Errors
    ///
    /// The error that the event carries.
    pub fn take(&mut self, event: StreamEvent) -> Result<Progress, ProviderError> {
        match event {
            StreamEvent::ResponseComplete(response) => return Ok(Progress::Done(response)),
            StreamEvent::Error(error) => return Err(error.into()),
            StreamEvent::MessageComplete(message) => self.message = Some(message),
            StreamEvent::Usage(usage) => self.usage = usage,
            delta if delta.is_delta() => return Ok(Progress::Event(Some(delta))),
            // What belongs to an agent's stream has no place in a provider's.
            _ => {}
        }
        Ok(Progress::Event(None))
    }

    /// Gives the response of a stream that ended without one of its own.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] when no complete message came.
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

/// Iterates over the deltas that a finished message would have streamed: one for each text,
/// reasoning and tool call.
///
/// For sources that have the whole answer at once and readers that expect a stream.
pub fn message_events(message: &Message) -> impl Iterator<Item = StreamEvent> {
    message.content.iter().filter_map(ContentBlock::portable).filter_map(|block| match block {
        ContentBlock::Text(text) => Some(StreamEvent::TextDelta(text.clone())),
        ContentBlock::Thinking { thinking, .. } if !thinking.is_empty() => {
            Some(StreamEvent::ThinkingDelta(thinking.clone()))
        }
        ContentBlock::ToolUse { id, name, input } => {
            Some(StreamEvent::ToolUse { id: id.clone(), name: name.clone(), input: input.clone() })
        }
        _ => None,
    })
}
