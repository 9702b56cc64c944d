//! The response of a service to a model call.

use std::future::Future;

use neuron_model::{
    CompletionResponse, ProviderError, StreamHandle, StreamReceiver, WasmCompatSend,
};

/// The response of a service to a [`ModelCall`](crate::ModelCall), either whole or as a stream.
///
/// A service should respond in the [requested](crate::ModelCall::wants_stream) form. If it cannot, for example because
/// it caches whole responses, it may respond in the other form. [`ServiceProvider`](crate::ServiceProvider) then
/// converts the response.
#[derive(Debug)]
pub enum ModelResponseFuture {
    /// The complete response.
    Whole(Box<CompletionResponse>),
    /// The response as a stream of events. An error after the start of the stream is one of these events. Layers see
    /// the error only if they read the stream.
    Stream(StreamHandle),
}

impl ModelResponseFuture {
    /// Returns the complete response. If the response is a stream, reads the stream to its end.
    ///
    /// # Errors
    ///
    /// The errors of [`StreamHandle::into_response`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call.
    pub fn into_response(
        self,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        async move {
            match self {
                Self::Whole(response) => Ok(*response),
                Self::Stream(handle) => handle.into_response().await,
            }
        }
    }

    /// Converts to a stream. The stream of a whole response has the deltas of
    /// [`message_events`](neuron_model::message_events).
    #[must_use]
    pub fn into_stream(self) -> StreamHandle {
        match self {
            Self::Whole(response) => StreamReceiver::from(*response).into(),
            Self::Stream(handle) => handle,
        }
    }
}

impl From<CompletionResponse> for ModelResponseFuture {
    fn from(response: CompletionResponse) -> Self {
        Self::Whole(Box::new(response))
    }
}

impl From<StreamHandle> for ModelResponseFuture {
    fn from(handle: StreamHandle) -> Self {
        Self::Stream(handle)
    }
}
