//! The events of an answer that streams, from the provider or from a durable engine.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use neuron_types::{
    CompletionResponse, DeltaSlot, DurableError, LoopError, Progress, ProviderError, ResponseEnd,
    StreamEvent, StreamReceiver, TokenUsage, WasmBoxedFuture,
};

/// The events of an answer that streams.
pub(super) enum Source<'s> {
    Provider(StreamReceiver, ResponseEnd),
    Engine(WasmBoxedFuture<'s, Result<CompletionResponse, DurableError>>, &'s DeltaSlot),
}

impl Source<'_> {
    pub(super) fn is_provider(&self) -> bool {
        matches!(self, Self::Provider(..))
    }

    /// The next event, or the whole answer. Notes the tokens that are known.
    pub(super) async fn next(&mut self, usage: &mut TokenUsage) -> Result<Progress, LoopError> {
        let progress = match self {
            Self::Engine(call, slot) => {
                poll_fn(|cx| match call.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(answer.map(Box::new).map(Progress::Done)),
                    // A context that tries again itself says so. The loop itself tells of everything else.
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
                Some(StreamEvent::Error(error)) if error.is_final() => {
                    // It says of itself that the same call fails again.
                    return Err(ProviderError::Other(Box::new(error)).into());
                }
                Some(event) => {
                    if let StreamEvent::Usage(told) = &event {
                        usage.clone_from(told);
                    }
                    end.take(event)?
                }
            },
        };
        if let Progress::Done(response) = &progress {
            // It is paid for, whatever the hooks say.
            usage.clone_from(&response.usage);
        }
        Ok(progress)
    }
}
