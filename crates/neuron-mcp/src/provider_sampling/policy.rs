//! The policy on the requests of servers to our model, and on its responses.

use std::future::Future;

use crate::{SamplingRequest, SamplingResponse};

/// Decides on the requests of servers to our model, and on its responses.
///
/// It may take its time and ask a person; the time that the server has for a request of ours stands still
/// meanwhile. An async function that takes a [`SamplingRequest`] is a policy for requests, which lets all
/// answers through.
///
/// # Example
///
/// ```
/// use neuron_mcp::{SamplingDecision, SamplingPolicy, SamplingRequest, SamplingResponse};
///
/// /// Lets servers ask short questions, without tools, and get no addresses.
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
    message = "`{Self}` is no policy for sampling",
    note = "implement `SamplingPolicy`, or give an async function from `SamplingRequest` to \
            `SamplingDecision<SamplingRequest>`, or `AllowAll`"
)]
pub trait SamplingPolicy: Send + Sync {
    /// Decides on a request before the model sees it. It may change or refuse the request.
    fn review_request(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = SamplingDecision<SamplingRequest>> + Send;

    /// Decides on the answer before the server sees it. `request` is what was allowed. Provided: lets it pass.
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

/// The decision of a [`SamplingPolicy`].
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingDecision<T> {
    /// Continue with this value, which the policy may have changed.
    Allow(T),
    /// Refuse, with the reason, which the server is told.
    Refuse(String),
}

/// A policy that allows everything without asking, for servers of your own, or together with a limit on the number
/// of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowAll;

impl SamplingPolicy for AllowAll {
    async fn review_request(&self, request: SamplingRequest) -> SamplingDecision<SamplingRequest> {
        SamplingDecision::Allow(request)
    }
}

/// A request for sampling was refused by the policy or a limit. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sampling was refused: {reason}")]
#[non_exhaustive]
pub struct SamplingRefused {
    /// Why.
    pub reason: String,
}
