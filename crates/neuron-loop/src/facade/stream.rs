//! A run as a stream of events.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_types::{AgentResult, LoopError, StreamEvent, WasmCompatSend};

use crate::run::{Events, Item};

/// A run as a stream of events. Made by [`AgentLoop::run_stream`](crate::AgentLoop::run_stream).
///
/// The last event is [`StreamEvent::RunComplete`], [`StreamEvent::ApprovalRequired`] or [`StreamEvent::Error`].
///
/// The agent runs only while the stream is polled, so a slow reader slows the run and its tools. Dropping the stream
/// stops the run.
///
/// The stream borrows the agent until it is dropped. Put it in a block, or `drop` it, before you use the agent again.
#[derive(Debug)]
#[must_use = "the agent runs only while the stream is polled"]
pub struct AgentStream<'a>(pub(super) Events<'a, Result<AgentResult, LoopError>>);

impl AgentStream<'_> {
    /// Returns the next event, or `None` after the last event.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Dropping the future loses no event, and the run pauses until the next call.
    pub fn recv(&mut self) -> impl Future<Output = Option<StreamEvent>> + WasmCompatSend {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }
}

impl Stream for AgentStream<'_> {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.0.poll(cx).map(|item| match item? {
            Item::Event(event) => Some(event),
            Item::End(Ok(result)) => Some(StreamEvent::RunComplete(Box::new(result))),
            Item::End(Err(LoopError::ApprovalRequired(pending))) => {
                Some(StreamEvent::ApprovalRequired(pending))
            }
            Item::End(Err(error)) => Some(StreamEvent::Error(error.into())),
        })
    }
}

// No field is pinned: the run inside is boxed, and its outcome is a plain value.
impl Unpin for AgentStream<'_> {}
