//! [`SamplingPolicy`], which reviews the sampling requests of servers and the responses of the model.

use std::future::Future;

use crate::{SamplingRequest, SamplingResponse};

/// Reviews the sampling requests of servers, and the responses of the client's model.
///
/// A review may take long, for example to ask a person. A server can send a sampling request while it handles a
/// request of the client. The timeout of the client's request is paused during the sampling.
///
/// An async function that takes a [`SamplingRequest`] is a policy too. It reviews the requests and allows all
/// responses.
///
/// # Example
///
/// ```
/// use neuron_mcp::{SamplingDecision, SamplingPolicy, SamplingRequest, SamplingResponse};
///
/// /// Allows one message without tools, and refuses responses that contain a URL.
/// struct Careful;
///
/// impl SamplingPolicy for Careful {
///     async fn review_request(
///         &self,
///         mut request: SamplingRequest,
///     ) -> SamplingDecision<SamplingRequest> {
///         if request.messages.len() > 1 {
///             return SamplingDecision::Refuse("one question at a time".into());
///         }
///         request.tools.clear();
///         SamplingDecision::Allow(request)
///     }
///
///     async fn review_response(
///         &self,
///         _request: &SamplingRequest,
///         response: SamplingResponse,
///     ) -> SamplingDecision<SamplingResponse> {
///         match response.message.text().contains("://") {
///             true => SamplingDecision::Refuse("the answer has an address".into()),
///             false => SamplingDecision::Allow(response),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `SamplingPolicy`",
    note = "implement `SamplingPolicy`, or give an async function from `SamplingRequest` to \
            `SamplingDecision<SamplingRequest>`, or `AllowAll`"
)]
pub trait SamplingPolicy: Send + Sync {
    /// Reviews a request before it is sent to the model. The policy may change or refuse the request.
    fn review_request(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = SamplingDecision<SamplingRequest>> + Send;

    /// Reviews a response before it is sent to the server. The policy may change or refuse the response. `request` is
    /// the request that [`review_request`](Self::review_request) allowed. The default implementation allows every
    /// response.
    fn review_response(
        &self,
        request: &SamplingRequest,
        response: SamplingResponse,
    ) -> impl Future<Output = SamplingDecision<SamplingResponse>> + Send {
        let _ = request;
        async { SamplingDecision::Allow(response) }
    }
}

impl<F, D> SamplingPolicy for F
where
    F: Fn(SamplingRequest) -> D + Send + Sync,
    D: Future<Output = SamplingDecision<SamplingRequest>> + Send,
{
    fn review_request(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = SamplingDecision<SamplingRequest>> + Send {
        self(request)
    }
}

/// The decision of a [`SamplingPolicy`] on a request or a response.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingDecision<T> {
    /// Continues with this value, which the policy may have changed.
    Allow(T),
    /// Refuses the request or response. Contains the reason, which the server receives.
    Refuse(String),
}

/// A policy that allows every request and every response. Use it for servers of your own, or together with
/// [`ProviderSampling::with_max_requests`](crate::ProviderSampling::with_max_requests).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowAll;

impl SamplingPolicy for AllowAll {
    async fn review_request(&self, request: SamplingRequest) -> SamplingDecision<SamplingRequest> {
        SamplingDecision::Allow(request)
    }
}

/// Error for a sampling request that the policy or a limit refused. Wrapped in
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sampling was refused: {reason}")]
#[non_exhaustive]
pub struct SamplingRefused {
    /// Reason of the refusal, which the server receives.
    pub reason: String,
}
