//! A streamed answer: bytes in, [`StreamEvent`]s out, whatever the vendor.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, mem};

use bytes::Bytes;
use futures_core::Stream;
use neuron_types::{
    AnswerMetadata, CompletionResponse, Message, ProviderError, StreamEvent, StreamHandle,
    StreamReceiver, WasmCompatSend,
};

use crate::{Body, Framing, Secret};

/// A vendor's answer as far as it has come: makes our events of the vendor's frames.
pub trait Answer {
    /// How the vendor cuts its stream.
    type Framing: Framing + Default;

    /// Takes a frame, appends its events to `events`, and says whether the answer is complete.
    /// `secret` is for errors that show a part of the frame.
    ///
    /// # Errors
    ///
    /// The vendor's error in the stream, or [`ProviderError::StreamError`] for a frame that makes no
    /// sense.
    fn take(
        &mut self,
        frame: &[u8],
        secret: &Secret,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError>;

    /// The stream has ended without a frame that completes the answer.
    ///
    /// # Errors
    ///
    /// Unless the vendor ends complete answers so: an answer that is cut is never a short answer.
    fn end(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        let _ = events;
        Err(ProviderError::StreamError("the stream ended before the answer was complete".into()))
    }
}

/// Appends the events that end a stream: the usage, the message, the response.
pub fn complete(response: CompletionResponse, events: &mut VecDeque<StreamEvent>) {
    events.push_back(StreamEvent::Usage(response.usage.clone()));
    events.push_back(StreamEvent::MessageComplete(response.message.clone()));
    events.push_back(StreamEvent::ResponseComplete(Box::new(response)));
}

/// An answer's events, made from its bytes as they are polled.
pub struct AnswerStream<B, A: Answer> {
    body: B,
    framing: A::Framing,
    answer: A,
    /// What the last bytes gave and the reader has not taken.
    ready: VecDeque<StreamEvent>,
    /// Nothing follows what is ready.
    ended: bool,
    /// Tells the body that only its end is missing, and says whether to wait for that.
    expect_end: fn(&mut B) -> bool,
    /// The body's end is waited for before the last event.
    awaits_end: bool,
    /// The facts in the response's headers.
    metadata: AnswerMetadata,
    secret: Secret,
}

impl<A: Answer> AnswerStream<Body, A> {
    /// Reads an answer from a response's body. Errors are without the secret.
    pub fn new(mut body: Body, answer: A, secret: Secret) -> Self {
        let metadata = std::mem::take(&mut body.metadata);
        Self { expect_end: Body::expect_end, metadata, ..Self::from_bytes(body, answer, secret) }
    }
}

impl<B, A: Answer> AnswerStream<B, A> {
    /// Reads an answer from bytes that came some other way.
    pub fn from_bytes(body: B, answer: A, secret: Secret) -> Self {
        Self {
            body,
            framing: A::Framing::default(),
            answer,
            ready: VecDeque::new(),
            ended: false,
            expect_end: |_| false,
            awaits_end: false,
            metadata: AnswerMetadata::default(),
            secret,
        }
    }

    /// Adds the facts in the headers to the events with the whole message, which are among the last.
    fn add_metadata(&mut self) {
        for event in &mut self.ready {
            let message = match event {
                StreamEvent::MessageComplete(message) => message,
                StreamEvent::ResponseComplete(response) => &mut response.message,
                _ => continue,
            };
            let plain = Message { role: message.role, content: mem::take(&mut message.content) };
            *message = plain.with_metadata(&self.metadata);
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        let Self { framing, answer, ready, ended, secret, .. } = self;
        framing.feed(bytes, |frame| {
            if !*ended {
                *ended = answer.take(frame, secret, ready)?;
            }
            Ok(())
        })
    }

    fn finish(&mut self) -> Result<(), ProviderError> {
        let Self { framing, answer, ready, ended, secret, .. } = self;
        framing.finish(|frame| {
            if !*ended {
                *ended = answer.take(frame, secret, ready)?;
            }
            Ok(())
        })?;
        if !*ended {
            answer.end(ready)?;
            *ended = true;
        }
        self.add_metadata();
        Ok(())
    }
}

impl<B, A> Stream for AnswerStream<B, A>
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin,
    A: Answer + Unpin,
    A::Framing: Unpin,
{
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        loop {
            if self.awaits_end && self.ready.len() == 1 {
                // The answer is complete, whatever this gives; but only a connection whose answer
                // was read to its end serves the next request.
                let _ = ready!(Pin::new(&mut self.body).poll_next(cx));
                self.awaits_end = false;
                // See `give_way`.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let fed = match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(bytes)) => {
                    let fed = self.feed(&bytes);
                    if self.ended {
                        self.add_metadata();
                        // What came after the last event cannot break the answer.
                        self.awaits_end = (self.expect_end)(&mut self.body);
                        continue;
                    }
                    fed
                }
                Some(Err(error)) => Err(error),
                None => self.finish(),
            };
            if let Err(error) = fed {
                let error = self.secret.redact_error(error);
                self.ready.push_back(StreamEvent::Error(error.into()));
                self.ended = true;
            }
        }
    }
}

impl<B, A> From<AnswerStream<B, A>> for StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
    A: Answer<Framing: Unpin + WasmCompatSend> + Unpin + WasmCompatSend + 'static,
{
    fn from(stream: AnswerStream<B, A>) -> Self {
        StreamReceiver::new(stream).into()
    }
}

impl<B, A: Answer> fmt::Debug for AnswerStream<B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}
