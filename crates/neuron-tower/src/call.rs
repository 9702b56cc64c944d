//! The request type of the tower services, which is a model call.

use std::sync::Arc;

use neuron_model::{CacheControl, CompletionRequest, RequestRef};

/// A model call, which consists of the request and the requested form of the response.
///
/// The request is borrowed or shared. Therefore a clone is cheap for conversations of any length, and a retry does not
/// copy the history. A layer reads the request with [`request`](Self::request) and replaces it with
/// [`with_request`](Self::with_request).
///
/// # Example: a layer that selects a smaller model
///
/// ```
/// use neuron_tower::ModelCall;
/// use neuron_model::CompletionRequest;
///
/// fn ask_smaller_model(call: ModelCall<'_>) -> ModelCall<'_> {
///     let request = CompletionRequest { model: "small".into(), ..call.request().to_request() };
///     call.with_request(request)
/// }
///
/// let request = CompletionRequest { model: "large".into(), ..Default::default() };
/// let call = ask_smaller_model(ModelCall::streamed(request.view()));
/// assert_eq!(call.request().model, "small");
/// assert!(call.wants_stream());
/// ```
#[derive(Debug, Clone)]
pub struct ModelCall<'r> {
    request: Request<'r>,
    wants_stream: bool,
}

/// The request of a call, which is cheap to clone.
#[derive(Debug, Clone)]
enum Request<'r> {
    Borrowed(RequestRef<'r>),
    Shared {
        request: Arc<CompletionRequest>,
        /// The [cache breakpoint](RequestRef::cache) of the borrowed request, which an owned request cannot contain.
        cache: Option<CacheControl>,
    },
}

impl From<Arc<CompletionRequest>> for Request<'_> {
    fn from(request: Arc<CompletionRequest>) -> Self {
        Self::Shared { request, cache: None }
    }
}

impl<'r> ModelCall<'r> {
    /// Creates a call that requests a whole response.
    #[must_use]
    pub fn whole(request: RequestRef<'r>) -> Self {
        Self { request: Request::Borrowed(request), wants_stream: false }
    }

    /// Creates a call that requests a streamed response.
    #[must_use]
    pub fn streamed(request: RequestRef<'r>) -> Self {
        Self { request: Request::Borrowed(request), wants_stream: true }
    }

    /// Creates a call that requests a whole response, from an owned request.
    pub(crate) fn owned_whole(request: Arc<CompletionRequest>) -> Self {
        Self { request: request.into(), wants_stream: false }
    }

    /// Creates a call that requests a streamed response, from an owned request.
    pub(crate) fn owned_streamed(request: Arc<CompletionRequest>) -> Self {
        Self { request: request.into(), wants_stream: true }
    }

    /// Returns the request in its borrowed form.
    #[must_use]
    pub fn request(&self) -> RequestRef<'_> {
        match &self.request {
            Request::Borrowed(request) => *request,
            Request::Shared { request, cache } => RequestRef { cache: *cache, ..request.view() },
        }
    }

    /// Returns `true` if the response is requested as a stream.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.wants_stream
    }

    /// Returns the call with another request. The requested form of the response and the
    /// [cache breakpoint](RequestRef::cache) do not change.
    #[must_use]
    pub fn with_request(self, request: impl Into<Arc<CompletionRequest>>) -> ModelCall<'static> {
        let cache = self.request().cache;
        let request = Request::Shared { request: request.into(), cache };
        ModelCall { request, wants_stream: self.wants_stream }
    }

    /// Converts to a call without borrowed data. A borrowed request is copied. A shared request stays shared.
    #[must_use]
    pub fn into_owned(self) -> ModelCall<'static> {
        let request = match self.request {
            Request::Borrowed(request) => {
                let cache = request.cache;
                Request::Shared { request: Arc::new(request.to_request()), cache }
            }
            Request::Shared { request, cache } => Request::Shared { request, cache },
        };
        ModelCall { request, wants_stream: self.wants_stream }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owned calls lost the cache breakpoint, so Anthropic did not cache conversations behind `buffer`.
    #[test]
    fn owned_and_changed_calls_keep_the_cache_breakpoint() {
        let cache = Some(CacheControl::default());
        let request = CompletionRequest::default();
        let call = ModelCall::whole(RequestRef { cache, ..request.view() });
        let owned = call.clone().into_owned();
        assert_eq!(owned.request().cache, cache);
        assert_eq!(owned.into_owned().request().cache, cache);
        assert_eq!(call.with_request(CompletionRequest::default()).request().cache, cache);
        assert_eq!(ModelCall::streamed(request.view()).into_owned().request().cache, None);
    }
}
