//! Who decides what servers may ask a model of ours, and what they get.

use std::future::Future;

use crate::{SamplingRequest, SamplingResponse};

/// Decides what servers may ask a model of ours, and what they get.
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
    /// Decides on a request before the model sees it: lets it pass, as it is or changed, or refuses it.
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

/// What a [`SamplingPolicy`] decided.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingDecision<T> {
    /// Go on with this: what was to be decided on, or what the policy made of it.
    Allow(T),
    /// Refuse, with the reason, which the server is told.
    Refuse(String),
}

/// Lets servers ask what they like: for servers of your own, or with a limit on the number of requests. Nobody
/// is asked.
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
