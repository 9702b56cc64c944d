//! The response of a model service.

use std::future::Future;

use futures_util::stream;
use neuron_types::{
    CompletionResponse, ProviderError, StreamEvent, StreamHandle, StreamReceiver, WasmCompatSend,
    message_events,
};

/// The response to a [`ModelCall`](crate::ModelCall), whole or as a stream.
///
/// A service should respond in the requested form. A service that cannot, such as a cache of whole responses, may use
/// the other form, which [`ServiceProvider`](crate::ServiceProvider) converts.
#[derive(Debug)]
pub enum ModelResponseFuture {
    /// The whole response.
    Whole(Box<CompletionResponse>),
    /// The response as a stream. Errors after its beginning are events of the stream, so layers do not see them.
    Stream(StreamHandle),
}

impl ModelResponseFuture {
    /// Returns the whole response. Reads a stream to its end.
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

    /// Returns the response as a stream. The stream of a whole response has one delta for each block.
    #[must_use]
    pub fn into_stream(self) -> StreamHandle {
        match self {
            Self::Whole(response) => {
                let mut events: Vec<StreamEvent> = message_events(&response.message).collect();
                events.push(StreamEvent::Usage(response.usage.clone()));
                events.push(StreamEvent::MessageComplete(response.message.clone()));
                events.push(StreamEvent::ResponseComplete(response));
                StreamReceiver::new(stream::iter(events)).into()
            }
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
