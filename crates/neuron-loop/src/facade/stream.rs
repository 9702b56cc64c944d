//! A run as a stream of events.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_types::{AgentResult, LoopError, StreamEvent, WasmCompatSend};

use crate::run::{Events, Item};

/// A run as a stream of events. Made by [`AgentLoop::run_stream`](crate::AgentLoop::run_stream).
///
/// Polling it is what runs the agent: a slow reader slows the run, its tools included, and dropping
/// it stops the run with all that is under way. It ends with exactly one
/// [`StreamEvent::RunComplete`], [`StreamEvent::ApprovalRequired`] or [`StreamEvent::Error`].
///
/// It borrows the agent until it is dropped: put it in a block, or `drop` it, before the agent is
/// used again.
#[derive(Debug)]
#[must_use = "the agent runs only while the stream is polled"]
pub struct AgentStream<'a>(pub(super) Events<'a, Result<AgentResult, LoopError>>);

impl AgentStream<'_> {
    /// Returns the next event, or `None` after the last.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost when the future is dropped, and the run stands still until the
    /// next call.
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

// The outcome is not pinned.
impl Unpin for AgentStream<'_> {}
