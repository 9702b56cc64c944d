//! [`OtelProvider`], a provider with telemetry for model calls outside of an agent's loop.

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use neuron_types::{
    CompletionRequest, CompletionResponse, HookScope, Operation, OperationKind, Outcome, Progress,
    Provider, ProviderError, ProviderInfo, RequestRef, ResponseEnd, Scopes, StreamEvent,
    StreamHandle, StreamReceiver,
};
use std::future::{Future, poll_fn};

use crate::OtelHook;
use crate::run_state::{Activity, RunState};

/// A [`Provider`] whose calls have the spans and metrics of [`OtelHook`]. Created by [`OtelHook::provider`].
///
/// Use this wrapper for model calls outside of an agent's loop, and for the model of a context strategy that
/// summarizes.
///
/// Within a model call of an agent with the same hook, the wrapper records nothing, because the agent's call has a span
/// already. In a durable run, wrap the provider that the engine calls. Do not wrap a
/// [`DurableProvider`](neuron_types::DurableProvider), because its responses may come from the journal.
///
/// # Example
///
/// ```
/// use neuron_otel::OtelHook;
/// use neuron_testing::ScriptedProvider;
/// use neuron_types::{CompletionRequest, Message, Provider};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let provider = OtelHook::new().provider(ScriptedProvider::new(["Hi!"]));
/// let request = CompletionRequest { messages: vec![Message::user("Hello")], ..Default::default() };
/// assert_eq!(provider.complete(request).await?.message.text(), "Hi!");
/// # Ok(())
/// # }
/// ```
pub struct OtelProvider<P> {
    provider: P,
    hook: OtelHook,
}

impl<P> OtelProvider<P> {
    pub(crate) fn new(provider: P, hook: OtelHook) -> Self {
        Self { provider, hook }
    }

    /// Returns the wrapped provider. Its calls have no spans and metrics.
    pub fn into_inner(self) -> P {
        self.provider
    }
}

impl<P: Clone> Clone for OtelProvider<P> {
    fn clone(&self) -> Self {
        Self { provider: self.provider.clone(), hook: self.hook.clone() }
    }
}

impl<P> fmt::Debug for OtelProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelProvider").field("hook", &self.hook).finish_non_exhaustive()
    }
}

impl<P: Provider> OtelProvider<P> {
    /// Opens the scope of a call, which records the call's span and metrics. Records nothing for a call in a replaying
    /// run, or for a call that an agent with this hook already records.
    fn open(&self, request: RequestRef<'_>, streaming: bool) -> Scopes {
        let config = &self.hook.config;
        // A replaying run is not recorded, so a model call within it is not recorded either.
        let is_replaying = RunState::current(config).is_some_and(|run| run.begun().is_none());
        if is_replaying || Activity::is_model_call(config) {
            return Scopes::default();
        }
        let info = self.provider.info();
        // The call does not belong to a run, so the agent is empty and the turn is 0.
        let scope = HookScope::new("", 0, info.name, info.default_model)
            .at_server(info.server_address, info.server_port)
            .with_routed(!info.routes.is_empty());
        let kind = OperationKind::ModelCall { request: &request, streaming };
        Scopes::open(std::slice::from_ref(&self.hook), &Operation::new(scope, kind))
    }
}

/// Ends the span of a call with its result, and records its metrics.
fn end(scopes: Scopes, result: Result<&CompletionResponse, &ProviderError>) {
    scopes.end(match result {
        Ok(response) => Outcome::Response(response),
        Err(error) => Outcome::Error(error),
    });
}

/// Runs a call that is not streamed, and records its span and metrics with `scopes`.
async fn whole(
    mut scopes: Scopes,
    call: impl Future<Output = Result<CompletionResponse, ProviderError>>,
) -> Result<CompletionResponse, ProviderError> {
    let result = scopes.run(call).await;
    end(scopes, result.as_ref());
    result
}

/// Runs a streamed call, and records its span and metrics with `scopes`. The span ends with the stream.
async fn stream(
    mut scopes: Scopes,
    call: impl Future<Output = Result<StreamHandle, ProviderError>>,
) -> Result<StreamHandle, ProviderError> {
    match scopes.run(call).await {
        Ok(handle) => {
            let events = handle.receiver;
            let answer =
                ScopedStream { events, scopes: Some(scopes), end: Some(ResponseEnd::default()) };
            Ok(StreamReceiver::new(answer).into())
        }
        Err(error) => {
            end(scopes, Err(&error));
            Err(error)
        }
    }
}

impl<P: Provider> Provider for OtelProvider<P> {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        whole(self.open(request.view(), false), self.provider.complete(request)).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        stream(self.open(request.view(), true), self.provider.complete_stream(request)).await
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        whole(self.open(request, false), self.provider.complete_ref(request)).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        stream(self.open(request, true), self.provider.complete_stream_ref(request)).await
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.provider.info()
    }
}

/// A streamed response whose polls run inside the span of the call. The last event ends the span and records the
/// metrics of the call.
struct ScopedStream {
    events: StreamReceiver,
    /// The scopes that record the span and the metrics of the call. `None` after the last event.
    scopes: Option<Scopes>,
    /// Builds the response from the events of a stream that has no event `ResponseComplete`.
    end: Option<ResponseEnd>,
}

impl futures_core::Stream for ScopedStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let this = &mut *self;
        let events = &mut this.events;
        // After the last event the scopes have ended, and the stream is polled without them.
        let Some(scopes) = &mut this.scopes else {
            return Pin::new(events).poll_next(cx);
        };
        let next = poll_fn(|cx| {
            let polled = Pin::new(&mut *events).poll_next(cx);
            if let Poll::Ready(Some(event)) = &polled
                // An error is not a chunk of the response.
                && !matches!(event, StreamEvent::Error(_))
            {
                Activity::record_first_chunk();
            }
            polled
        });
        let polled = pin!(scopes.run(next)).poll(cx);
        if let Poll::Ready(event) = &polled {
            this.end_on_last_event(event.as_ref());
        }
        polled
    }
}

impl ScopedStream {
    /// Ends the span of the call and records its metrics if `event` is the last event of the stream. `None` means that
    /// the stream has ended.
    fn end_on_last_event(&mut self, event: Option<&StreamEvent>) {
        // Only the last event contains the result of the call.
        let result = match event {
            Some(delta) if delta.is_delta() => return,
            Some(StreamEvent::ResponseComplete(response)) => Ok((**response).clone()),
            Some(event) => match self.end.as_mut().map(|end| end.take(event.clone())) {
                Some(Err(error)) => Err(error),
                Some(Ok(Progress::Done(response))) => Ok(*response),
                _ => return,
            },
            None => self.end.take().unwrap_or_default().finish(),
        };
        if let Some(scopes) = self.scopes.take() {
            end(scopes, result.as_ref());
        }
    }
}
