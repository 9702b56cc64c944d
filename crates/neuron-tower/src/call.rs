//! A call of a model, as layers see it.

use std::sync::Arc;

use neuron_types::{CompletionRequest, RequestRef};

/// A call of a model: the request, and whether the answer is wanted as a stream.
///
/// The request is borrowed or shared, so that a clone is cheap however long the conversation is:
/// a retry copies no history. A layer reads it with [`request`](Self::request) and replaces it with
/// [`with_request`](Self::with_request).
///
/// # Example: a layer that asks a smaller model
///
/// ```
/// use neuron_tower::ModelCall;
/// use neuron_types::CompletionRequest;
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

#[derive(Debug, Clone)]
enum Request<'r> {
    Borrowed(RequestRef<'r>),
    Shared(Arc<CompletionRequest>),
}

impl<'r> ModelCall<'r> {
    /// Asks for a whole answer.
    #[must_use]
    pub fn whole(request: RequestRef<'r>) -> Self {
        Self { request: Request::Borrowed(request), wants_stream: false }
    }

    /// Asks for an answer as a stream.
    #[must_use]
    pub fn streamed(request: RequestRef<'r>) -> Self {
        Self { request: Request::Borrowed(request), wants_stream: true }
    }

    /// [`whole`](Self::whole) for a request that the caller gave away.
    pub(crate) fn owned_whole(request: Arc<CompletionRequest>) -> Self {
        Self { request: Request::Shared(request), wants_stream: false }
    }

    /// [`streamed`](Self::streamed) for a request that the caller gave away.
    pub(crate) fn owned_streamed(request: Arc<CompletionRequest>) -> Self {
        Self { request: Request::Shared(request), wants_stream: true }
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> RequestRef<'_> {
        match &self.request {
            Request::Borrowed(request) => *request,
            Request::Shared(request) => request.view(),
        }
    }

    /// Whether the answer is wanted as a stream.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.wants_stream
    }

    /// Replaces the request.
    #[must_use]
    pub fn with_request(self, request: impl Into<Arc<CompletionRequest>>) -> ModelCall<'static> {
        ModelCall { request: Request::Shared(request.into()), wants_stream: self.wants_stream }
    }

    /// Makes the call independent of whoever lent the request. Copies a borrowed request; one that
    /// is shared already stays shared.
    #[must_use]
    pub fn into_owned(self) -> ModelCall<'static> {
        let request = match self.request {
            Request::Borrowed(request) => Arc::new(request.to_request()),
            Request::Shared(request) => request,
        };
        ModelCall { request: Request::Shared(request), wants_stream: self.wants_stream }
    }
}
