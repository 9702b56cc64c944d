//! A provider with injected faults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuron_types::{
    CompletionResponse, Provider, ProviderError, ProviderInfo, RequestRef, StreamError,
    StreamEvent, StreamHandle, StreamReceiver,
};

use super::plan::ModelFault;
use super::trial::Execution;

/// The delay that injected errors request before the next attempt. It is short, so that runs with faults are fast.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// The pause before each event of a slow stream, and before a slow response.
const PAUSE: Duration = Duration::from_millis(1);

/// A provider with injected faults. Its calls can fail, its streams can break, and the simulated process can crash
/// during a call. [`Trial::provider`](super::Trial::provider) creates this type.
///
/// If a request is sent again, it gets the response of the first request. A
/// [`ScriptedProvider`](crate::ScriptedProvider) therefore needs no additional replies for retries, and none for the
/// executions after a crash.
pub struct FaultyProvider<P> {
    provider: Arc<P>,
    execution: Execution,
}

impl<P: Provider> FaultyProvider<P> {
    pub(super) fn new(provider: P, execution: Execution) -> Self {
        Self { provider: Arc::new(provider), execution }
    }
}

impl<P: Provider + 'static> Provider for FaultyProvider<P> {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.execution.boundary("the start of a model call").await;
        match self.execution.next_model_fault() {
            Some(ModelFault::Slow) => tokio::time::sleep(PAUSE).await,
            Some(fault) => return Err(error(fault)),
            None => {}
        }
        let response = match self.execution.known_response(request) {
            Some(response) => response,
            None => {
                let response = self.provider.complete_ref(request).await?;
                self.execution.keep_response(request, &response);
                response
            }
        };
        self.execution.boundary("the end of a model call").await;
        Ok(response)
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.execution.boundary("the start of a stream").await;
        let fault = self.execution.next_model_fault();
        let (cut, pause) = match fault {
            Some(ModelFault::CutStream(after)) => (Some(after), None),
            Some(ModelFault::Slow) => (None, Some(PAUSE)),
            Some(fault) => return Err(error(fault)),
            None => (None, None),
        };
        let events = match self.execution.known_events(request) {
            Some(events) => events,
            None => {
                let stream = self.provider.complete_stream_ref(request).await?.receiver;
                let events: Vec<StreamEvent> = stream.collect().await;
                self.execution.keep_events(request, &events);
                events
            }
        };
        let cut = cut.map(|after| after.min(events.len().saturating_sub(1)));
        let broken = StreamError::from(error(ModelFault::Disconnect));
        let events: Vec<StreamEvent> = match cut {
            Some(after) => {
                events.into_iter().take(after).chain([StreamEvent::Error(broken)]).collect()
            }
            None => events,
        };
        let execution = self.execution.clone();
        let paced = stream::iter(events).then(move |event| {
            let execution = execution.clone();
            async move {
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                }
                execution.boundary("an event of a stream").await;
                event
            }
        });
        Ok(StreamHandle::from(StreamReceiver::new(paced)))
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.provider.info()
    }
}

/// Clones share the faults.
impl<P> Clone for FaultyProvider<P> {
    fn clone(&self) -> Self {
        Self { provider: Arc::clone(&self.provider), execution: self.execution.clone() }
    }
}

impl<P> fmt::Debug for FaultyProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyProvider").finish_non_exhaustive()
    }
}

/// Returns the error of a model call with this fault. Every such error is temporary, so a retry is expected.
fn error(fault: ModelFault) -> ProviderError {
    let error = match fault {
        ModelFault::Overload => {
            ProviderError::ServiceUnavailable("injected fault: the server is overloaded".into())
        }
        ModelFault::RateLimit => ProviderError::RateLimit { retry_after: None },
        ModelFault::Timeout => ProviderError::Timeout(Duration::from_secs(60)),
        ModelFault::MalformedBody => {
            StreamError::retryable("injected fault: the body of the response is not valid JSON")
                .into()
        }
        ModelFault::Disconnect | ModelFault::CutStream(_) | ModelFault::Slow => {
            ProviderError::Network("injected fault: the connection is broken".into())
        }
    };
    error.with_retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_injected_error_is_temporary() {
        let faults = [
            ModelFault::Overload,
            ModelFault::RateLimit,
            ModelFault::Disconnect,
            ModelFault::Timeout,
            ModelFault::MalformedBody,
            ModelFault::CutStream(1),
        ];
        for fault in faults {
            assert!(error(fault).is_retryable(), "{fault:?}");
        }
    }
}
