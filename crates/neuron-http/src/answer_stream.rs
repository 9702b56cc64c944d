//! Decodes a vendor's bytes into the event stream of a response ([`AnswerStream`]).

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use neuron_model::{
    AnswerMetadata, CompletionResponse, ProviderError, StreamEvent, StreamHandle, StreamReceiver,
    WasmCompatSend,
};

use crate::wrong_url::page_hint;
use crate::{Body, Framing, OriginalNames, Secret, VendorError};

/// Decodes the frames of a vendor's streamed response into [`StreamEvent`]s.
pub trait Decoder {
    /// The framing that splits the vendor's bytes into frames.
    type Framing: Framing + Default;

    /// Decodes one frame and appends its events to `events`. Returns `true` if the response is complete. An error that
    /// quotes the frame must not show the key `secret`.
    ///
    /// # Errors
    ///
    /// Returns the vendor's error if the frame contains one, or [`ProviderError::StreamError`] if the frame cannot be
    /// decoded.
    fn take(
        &mut self,
        frame: &[u8],
        secret: &Secret,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError>;

    /// Handles a stream that ends before a frame has completed the response. Also called at the idle timeout, because a
    /// server may keep the connection open. An error is then replaced by the timeout.
    ///
    /// # Errors
    ///
    /// Returns an error by default, because the response may be truncated. Override this method only for a vendor that
    /// ends complete responses without a final frame.
    fn end(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        let _ = events;
        Err(ProviderError::StreamError("the stream ended before the answer was complete".into()))
    }
}

/// Appends the last three events of a stream to `events`, with the usage, the message and the whole response.
pub fn complete(response: CompletionResponse, events: &mut VecDeque<StreamEvent>) {
    events.push_back(StreamEvent::Usage(response.usage.clone()));
    events.push_back(StreamEvent::MessageComplete(response.message.clone()));
    events.push_back(StreamEvent::ResponseComplete(Box::new(response)));
}

/// A stream of the events of a response. Bytes are decoded while the stream is polled.
pub struct AnswerStream<B, A: Decoder> {
    body: B,
    framing: A::Framing,
    answer: A,
    /// Decoded events that the stream has not returned yet.
    ready: VecDeque<StreamEvent>,
    /// Set after the last event was added to `ready`.
    ended: bool,
    /// Function that is called with the body when only the end of the body is still missing. It returns `true` if the
    /// stream should wait for this end.
    expect_end: fn(&mut B) -> bool,
    /// Set while the stream waits for the end of the body, before it returns the last event.
    awaits_end: bool,
    /// Request id and rate limits from the response's headers.
    metadata: AnswerMetadata,
    /// The API key, which is redacted in errors.
    secret: Secret,
    /// The original names of tools that have another name in the request.
    names: OriginalNames,
}

impl<A: Decoder> AnswerStream<Body, A> {
    /// Creates a stream from the body of a response. `secret` is redacted in errors.
    pub fn new(mut body: Body, answer: A, secret: Secret) -> Self {
        let metadata = std::mem::take(&mut body.metadata);
        let names = std::mem::take(&mut body.names);
        let expect_end = Body::expect_end;
        Self { expect_end, metadata, names, ..Self::from_bytes(body, answer, secret) }
    }
}

impl<B, A: Decoder> AnswerStream<B, A> {
    /// Creates a stream from any source of bytes. `secret` is redacted in errors.
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
            names: OriginalNames::default(),
        }
    }

    /// Adds the metadata to the messages in the last events, which contain the whole message.
    fn add_metadata(&mut self) {
        for event in &mut self.ready {
            let message = match event {
                StreamEvent::MessageComplete(message) => message,
                StreamEvent::ResponseComplete(response) => &mut response.message,
                _ => continue,
            };
            message.add_metadata(&self.metadata);
        }
    }

    /// Decodes a chunk of bytes. Returns an error at the end of the response too, because an error stops the framing:
    /// bytes after the end are ignored, in the same chunk as in a later one.
    #[inline]
    fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        let Self { framing, answer, ready, ended, secret, .. } = self;
        framing.feed(bytes, |frame| take(answer, frame, secret, ready, ended))
    }

    /// Returns an error if the JSON of an error arrived where an event was due. A response that is complete otherwise may
    /// then lack a part, so its last events are removed.
    fn check_foreign(&mut self) -> Result<(), ProviderError> {
        let foreign = self.framing.foreign();
        if foreign.is_empty() || memchr::memmem::find(foreign, b"\"error\"").is_none() {
            return Ok(());
        }
        let Some(found) = VendorError::find_first(foreign.trim_ascii()) else {
            return Ok(());
        };
        let is_part = |event: &StreamEvent| {
            use StreamEvent::{MessageComplete, ResponseComplete, Usage};
            !matches!(event, Usage(_) | MessageComplete(_) | ResponseComplete(_))
        };
        self.ready.retain(is_part);
        Err(found.within("the stream", found.request_id(), ProviderError::StreamError))
    }

    /// Adds to an error what arrived where an event was due, for example the JSON of an error.
    fn explain(&self, error: ProviderError) -> ProviderError {
        let foreign = self.framing.foreign().trim_ascii();
        if foreign.is_empty() {
            return error;
        }
        if let Some(found) = VendorError::find_first(foreign) {
            return found.within("the stream", found.request_id(), ProviderError::StreamError);
        }
        let ProviderError::StreamError(text) = error else {
            return error;
        };
        let hint = page_hint(foreign);
        let shown = self.secret.excerpt(foreign);
        ProviderError::StreamError(format!("{text}; the server sent: {shown}{hint}"))
    }

    /// Handles the end of the bytes. Returns an error if the response is incomplete.
    fn finish(&mut self) -> Result<(), ProviderError> {
        let Self { framing, answer, ready, ended, secret, .. } = self;
        let finished = framing.finish(|frame| take(answer, frame, secret, ready, ended));
        if !*ended {
            finished?;
            answer.end(ready)?;
            *ended = true;
        }
        self.check_foreign()?;
        self.add_metadata();
        Ok(())
    }
}

/// Decodes a frame. Returns an error after the last frame of the response too, because an error stops the framing.
fn take(
    answer: &mut impl Decoder,
    frame: &[u8],
    secret: &Secret,
    ready: &mut VecDeque<StreamEvent>,
    ended: &mut bool,
) -> Result<(), ProviderError> {
    *ended = answer.take(frame, secret, ready)?;
    match *ended {
        true => Err(ProviderError::StreamError("the answer has ended".into())),
        false => Ok(()),
    }
}

impl<B, A> Stream for AnswerStream<B, A>
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin,
    A: Decoder + Unpin,
    A::Framing: Unpin,
{
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        loop {
            if self.awaits_end && self.ready.len() == 1 {
                // The response is complete, so an error here is ignored. The body must still be read to its end,
                // because otherwise the connection does not return to the pool.
                let _ = ready!(Pin::new(&mut self.body).poll_next(cx));
                self.awaits_end = false;
                // Yields once, so that the pool can take the connection back. See `yield_now` in `body.rs`.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Self { ready, names, .. } = &mut *self;
            if let Some(event) = ready.front_mut()
                && !names.is_empty()
            {
                names.restore_event(event);
            }
            if let Some(event) = ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let fed = match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(bytes)) => match self.feed(&bytes) {
                    Ok(()) if !self.ended => continue,
                    _ if self.ended => match self.check_foreign() {
                        Ok(()) => {
                            self.add_metadata();
                            self.awaits_end = (self.expect_end)(&mut self.body);
                            continue;
                        }
                        error => error,
                    },
                    error => error,
                },
                // Some servers keep the connection open after the response.
                Some(Err(error @ ProviderError::Timeout(_))) => self.finish().map_err(|_| error),
                Some(Err(error)) => {
                    // The last line may be an error without a line end.
                    let _ = self.framing.finish(|_| Ok(()));
                    Err(error)
                }
                None => {
                    let finished = self.finish();
                    if finished.is_ok() && (self.expect_end)(&mut self.body) {
                        // Yields once, as above. The last events follow.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    finished
                }
            };
            if let Err(error) = fed {
                let error = self.secret.redact_error(self.explain(error));
                self.ready.push_back(StreamEvent::Error(error.into()));
                self.ended = true;
            }
        }
    }
}

impl<B, A> From<AnswerStream<B, A>> for StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
    A: Decoder<Framing: Unpin + WasmCompatSend> + Unpin + WasmCompatSend + 'static,
{
    fn from(stream: AnswerStream<B, A>) -> Self {
        StreamReceiver::new(stream).into()
    }
}

impl<B, A: Decoder> fmt::Debug for AnswerStream<B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}
