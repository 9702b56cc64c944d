//! A request and its recorded outcome.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuron_types::{
    CompletionRequest, CompletionResponse, ErrorRecord, Message, ProviderError, StopReason,
    StreamEvent, StreamHandle, StreamReceiver, TokenUsage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::CassettePace;
use super::secrets::Secrets;

/// A request in its JSON form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Request(pub(super) Map<String, Value>);

impl Request {
    pub(super) fn new(request: &CompletionRequest) -> Result<Self, serde_json::Error> {
        Ok(match serde_json::to_value(request)? {
            Value::Object(fields) => Self(fields),
            _ => Self::default(),
        })
    }

    pub(super) fn messages(&self) -> &[Value] {
        self.0.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn remove_secrets(&mut self, secrets: &Secrets) {
        let mut whole = Value::Object(std::mem::take(&mut self.0));
        secrets.remove(&mut whole);
        if let Value::Object(fields) = whole {
            self.0 = fields;
        }
    }
}

/// A request to a provider, with the recorded response or error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) outcome: Outcome,
}

/// The recorded response or error of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// A response that was not streamed. `ms` is the time since the request in milliseconds.
    Response { ms: u64, response: CompletionResponse },
    /// The error of a request that failed before its first event. `ms` is the time since the request in milliseconds.
    Error { ms: u64, error: ErrorRecord },
    /// The events of a streamed response, each with its delay.
    Stream(Vec<Piece>),
}

/// A recorded event of a stream, with its delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// Time since the previous piece in milliseconds. For the first piece, the time since the request.
    ms: u64,
    #[serde(flatten)]
    event: Event,
}

/// The recorded form of a [`StreamEvent`] of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Text(String),
    Thinking(String),
    Signature(String),
    ToolUseStart {
        id: String,
        name: String,
    },
    ToolUseDelta {
        id: String,
        delta: String,
    },
    ToolUseEnd {
        id: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    Usage(TokenUsage),
    Message(Message),
    /// The end of a stream. `message` is `None` if the last [`Event::Message`] already has the same message.
    Response {
        id: String,
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
        usage: TokenUsage,
        stop_reason: StopReason,
    },
    Error(ErrorRecord),
}

impl Outcome {
    pub(super) fn whole(
        response: &Result<CompletionResponse, ProviderError>,
        time: Duration,
    ) -> Self {
        let ms = millis(time);
        match response {
            Ok(response) => Self::Response { ms, response: response.clone() },
            Err(error) => Self::Error { ms, error: error.into() },
        }
    }

    /// Replaces secrets by placeholders.
    ///
    /// # Errors
    ///
    /// Returns the reason if the JSON with the placeholders is not a valid outcome. The outcome then still contains the
    /// secrets, so it must not be stored.
    pub(super) fn remove_secrets(&mut self, secrets: &Secrets) -> Result<(), String> {
        if let Self::Stream(pieces) = self {
            Event::remove_secrets(pieces, secrets);
        }
        *self = self.mapped(&|value| secrets.remove(value)).map_err(|error| {
            format!(
                "a secret is also a part of the format, so give a longer value to `secret`: {error}"
            )
        })?;
        Ok(())
    }

    /// Replaces placeholders by secrets. Returns the outcome unchanged if the result would not be a valid outcome.
    pub(super) fn with_secrets(self, secrets: &Secrets) -> Self {
        self.mapped(&|value| secrets.restore(value)).unwrap_or(self)
    }

    fn mapped(&self, map: &impl Fn(&mut Value)) -> serde_json::Result<Self> {
        let mut value = serde_json::to_value(self)?;
        map(&mut value);
        serde_json::from_value(value)
    }

    /// Returns the error of the outcome, which may be the last event of a stream.
    pub(super) fn error(&self) -> Option<ProviderError> {
        let error = match self {
            Self::Response { .. } => None,
            Self::Error { error, .. } => Some(error),
            Self::Stream(pieces) => match pieces.last().map(|piece| &piece.event) {
                Some(Event::Error(error)) => Some(error),
                _ => None,
            },
        };
        error.map(|error| error.clone().into_provider_error())
    }

    /// Replays the outcome as a response that is not streamed, with the recorded delays if `pace` requires them.
    /// Returns the recorded error if the request failed.
    pub(super) async fn response(
        self,
        pace: CassettePace,
    ) -> Result<CompletionResponse, ProviderError> {
        match self {
            Self::Response { ms, response } => {
                wait(ms, pace).await;
                Ok(response)
            }
            outcome => outcome.stream(pace).await?.into_response().await,
        }
    }

    /// Replays the outcome as a stream, with the recorded delays if `pace` requires them. Returns the recorded error if
    /// the request failed before its first event.
    pub(super) async fn stream(self, pace: CassettePace) -> Result<StreamHandle, ProviderError> {
        match self {
            Self::Response { ms, response } => {
                wait(ms, pace).await;
                Ok(StreamHandle::from(StreamReceiver::from(response)))
            }
            Self::Error { ms, mut error } => {
                wait(ms, pace).await;
                // A retry of an immediate replay does not wait for the vendor's limit.
                if pace == CassettePace::Immediate && error.millis.is_some() {
                    error.millis = Some(0);
                }
                Err(error.into_provider_error())
            }
            Self::Stream(pieces) => {
                let mut last = None;
                let events: Vec<_> = pieces
                    .into_iter()
                    .map(|piece| (piece.ms, piece.event.replay(&mut last)))
                    .collect();
                let events = stream::iter(events).then(move |(ms, event)| async move {
                    wait(ms, pace).await;
                    event
                });
                // The stream is fused, because a caller may call `recv` again after its end.
                Ok(StreamHandle::from(StreamReceiver::new(events.fuse())))
            }
        }
    }
}

async fn wait(ms: u64, pace: CassettePace) {
    if ms > 0 && pace == CassettePace::Recorded {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The text that a delta adds to. The arguments of each tool call are a separate text.
#[derive(PartialEq)]
enum DeltaOf {
    Text,
    Thinking,
    Signature,
    /// The arguments of the tool call with this id.
    Call(String),
}

/// Records the events of a stream.
#[derive(Debug)]
pub(super) struct Recorder {
    pieces: Vec<Piece>,
    last: Instant,
    message: Option<Message>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { pieces: Vec::new(), last: Instant::now(), message: None }
    }
}

impl Recorder {
    /// Records an event. Returns `true` if the event is the last one of the stream.
    pub(super) fn take(&mut self, event: &StreamEvent) -> bool {
        let Some(recorded) = Event::record(event, &mut self.message) else { return false };
        let now = Instant::now();
        let ms = millis(now.duration_since(self.last));
        self.last = now;
        let is_last = matches!(recorded, Event::Response { .. } | Event::Error(_));
        self.pieces.push(Piece { ms, event: recorded });
        is_last
    }

    /// Returns `true` if the whole message has been recorded. The recording can then be used even without the last
    /// event of the stream.
    pub(super) fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// Returns the recorded stream.
    pub(super) fn finish(self) -> Outcome {
        Outcome::Stream(self.pieces)
    }

    /// Returns the outcome of a request that failed before its stream began.
    pub(super) fn failed(&mut self, error: &ProviderError) -> Outcome {
        Outcome::Error { ms: millis(self.last.elapsed()), error: error.into() }
    }
}

impl Event {
    /// Replaces secrets in deltas, even if a secret is split over several deltas.
    fn remove_secrets(pieces: &mut [Piece], secrets: &Secrets) {
        let mut texts: Vec<(DeltaOf, Vec<&mut String>)> = Vec::new();
        for piece in pieces {
            let (of, text) = match &mut piece.event {
                Self::Text(text) => (DeltaOf::Text, text),
                Self::Thinking(text) => (DeltaOf::Thinking, text),
                Self::Signature(text) => (DeltaOf::Signature, text),
                Self::ToolUseDelta { id, delta } => (DeltaOf::Call(id.clone()), delta),
                _ => continue,
            };
            match texts.iter_mut().find(|(other, _)| *other == of) {
                Some((_, texts)) => texts.push(text),
                None => texts.push((of, vec![text])),
            }
        }
        for (_, mut texts) in texts {
            secrets.remove_in_pieces(&mut texts);
        }
    }

    /// Returns the recorded form of an event, or `None` for an event that a provider does not send. The message of a
    /// `MessageComplete` event is stored in `last`. If a `ResponseComplete` event has the same message, it is recorded
    /// without the message.
    fn record(event: &StreamEvent, last: &mut Option<Message>) -> Option<Self> {
        Some(match event.clone() {
            StreamEvent::TextDelta(text) => Self::Text(text),
            StreamEvent::ThinkingDelta(text) => Self::Thinking(text),
            StreamEvent::SignatureDelta(text) => Self::Signature(text),
            StreamEvent::ToolUseStart { id, name } => Self::ToolUseStart { id, name },
            StreamEvent::ToolUseInputDelta { id, delta } => Self::ToolUseDelta { id, delta },
            StreamEvent::ToolUseEnd { id } => Self::ToolUseEnd { id },
            StreamEvent::ToolUse { id, name, input } => Self::ToolUse { id, name, input },
            StreamEvent::Usage(usage) => Self::Usage(usage),
            StreamEvent::MessageComplete(message) => {
                *last = Some(message.clone());
                Self::Message(message)
            }
            StreamEvent::ResponseComplete(response) => {
                let CompletionResponse { id, model, message, usage, stop_reason } = *response;
                let message = (last.as_ref() != Some(&message)).then_some(message);
                Self::Response { id, model, message, usage, stop_reason }
            }
            StreamEvent::Error(error) => {
                Self::Error(ErrorRecord::from(&ProviderError::from(error)))
            }
            _ => return None,
        })
    }

    /// Converts the recorded form to an event. A recorded message is stored in `last`. A final event that was recorded
    /// without its message gets the message in `last`.
    fn replay(self, last: &mut Option<Message>) -> StreamEvent {
        match self {
            Self::Text(text) => StreamEvent::TextDelta(text),
            Self::Thinking(text) => StreamEvent::ThinkingDelta(text),
            Self::Signature(text) => StreamEvent::SignatureDelta(text),
            Self::ToolUseStart { id, name } => StreamEvent::ToolUseStart { id, name },
            Self::ToolUseDelta { id, delta } => StreamEvent::ToolUseInputDelta { id, delta },
            Self::ToolUseEnd { id } => StreamEvent::ToolUseEnd { id },
            Self::ToolUse { id, name, input } => StreamEvent::ToolUse { id, name, input },
            Self::Usage(usage) => StreamEvent::Usage(usage),
            Self::Message(message) => {
                *last = Some(message.clone());
                StreamEvent::MessageComplete(message)
            }
            Self::Response { id, model, message, usage, stop_reason } => {
                let message = message.or_else(|| last.clone());
                let message = message.unwrap_or_else(|| Message::assistant(""));
                StreamEvent::ResponseComplete(Box::new(CompletionResponse {
                    id,
                    model,
                    message,
                    usage,
                    stop_reason,
                }))
            }
            Self::Error(error) => StreamEvent::Error(error.into_provider_error().into()),
        }
    }
}
