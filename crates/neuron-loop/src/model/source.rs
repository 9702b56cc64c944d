//! The events of a streamed response, from the provider or from a durable engine.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use neuron_types::{
    CompletionResponse, DeltaSlot, DurableError, LoopError, Progress, ResponseEnd, StreamEvent,
    StreamReceiver, TokenUsage, WasmBoxedFuture,
};

/// The source of the events of a streamed response.
pub(super) enum Source<'s> {
    /// The provider's stream, and the response that its events build up.
    Provider(StreamReceiver, ResponseEnd),
    /// The engine's call, and the slot in which the call leaves live deltas.
    Engine(WasmBoxedFuture<'s, Result<CompletionResponse, DurableError>>, &'s DeltaSlot),
}

impl Source<'_> {
    pub(super) fn is_provider(&self) -> bool {
        matches!(self, Self::Provider(..))
    }

    /// Returns the next event, or the complete response after the last event. Writes the tokens that were reported so
    /// far to `usage`.
    pub(super) async fn next(&mut self, usage: &mut TokenUsage) -> Result<Progress, LoopError> {
        let progress = match self {
            Self::Engine(call, slot) => {
                poll_fn(|cx| match call.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(answer.map(Box::new).map(Progress::Done)),
                    // A durable context reports its own retries as `Reset`. The loop itself creates all other events.
                    Poll::Pending => slot.poll_take(cx).map(|event| {
                        let is_heard = |event: &StreamEvent| {
                            event.is_delta() || matches!(event, StreamEvent::Reset { .. })
                        };
                        Ok(Progress::Event(event.filter(is_heard)))
                    }),
                })
                .await?
            }
            Self::Provider(events, end) => match events.recv().await {
                None => Progress::Done(Box::new(mem::take(end).finish()?)),
                Some(event) => {
                    if let StreamEvent::Usage(told) = &event {
                        usage.clone_from(told);
                    }
                    end.take(event)?
                }
            },
        };
        // FAULT what an engine's answer took is lost when a hook ends the run at it: without the statement
        if let Progress::Done(response) = &progress {
            // Set before the hooks run, because the provider charges for these tokens even if a hook ends the run.
            usage.clone_from(&response.usage);
        }
        Ok(progress)
    }
}
