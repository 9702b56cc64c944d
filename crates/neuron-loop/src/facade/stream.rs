//! A run as a stream of events.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use neuron_types::{
    AgentResult, DeltaSink, LoopError, StreamEvent, WasmBoxedFuture, WasmCompatSend,
};

use crate::parts::Slot;

/// A run as a stream of events; made by [`AgentLoop::run_stream`](crate::AgentLoop::run_stream).
///
/// Polling it is what runs the agent: a slow reader slows the run, its tools included, and dropping
/// it stops the run with all that is under way. It ends with exactly one
/// [`StreamEvent::RunComplete`], [`StreamEvent::ApprovalRequired`] or [`StreamEvent::Error`].
///
/// It borrows the agent until it is dropped: put it in a block, or `drop` it, before the agent is
/// used again.
#[must_use = "the agent runs only while the stream is polled"]
pub struct AgentStream<'a> {
    /// `None` once the run has ended.
    engine: Option<WasmBoxedFuture<'a, ()>>,
    slot: Slot,
}

impl<'a> AgentStream<'a> {
    /// Makes a stream of a run that reports to the slot.
    pub(crate) fn new<F>(run: impl FnOnce(Slot) -> F) -> Self
    where
        F: Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend + 'a,
    {
        let slot = Slot::default();
        let (sink, run) = (slot.clone(), run(slot.clone()));
        let engine = Box::pin(async move {
            let last = match run.await {
                Ok(result) => StreamEvent::RunComplete(Box::new(result)),
                Err(LoopError::ApprovalRequired(pending)) => StreamEvent::ApprovalRequired(pending),
                Err(error) => StreamEvent::Error(error.into()),
            };
            let sink: &dyn DeltaSink = &sink;
            sink.send(last).await;
        });
        Self { engine: Some(engine), slot }
    }

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
        // Taken out while it runs: after a panic there is no engine to poll again.
        let Some(mut engine) = self.engine.take() else { return Poll::Ready(None) };
        if engine.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.slot.take());
        }
        self.engine = Some(engine);
        match self.slot.take() {
            Some(event) => Poll::Ready(Some(event)),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for AgentStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentStream").field("ended", &self.engine.is_none()).finish_non_exhaustive()
    }
}
