//! [`InputRequest`], a request to the client from inside a call, and its response [`InputAnswer`].

use std::collections::BTreeMap;

use crate::{ElicitationRequest, ElicitationResponse, McpRoot, SamplingRequest, SamplingResponse};

/// A request to the client from inside a call. See [`McpPeer::ask`](crate::McpPeer::ask).
#[derive(Debug, Clone, PartialEq)]
pub enum InputRequest {
    /// Requests input from the user, by a form or a page.
    Elicitation(ElicitationRequest),
    /// Requests a response of the client's model.
    Sampling(Box<SamplingRequest>),
    /// Requests the client's roots, which are the folders that the server may use.
    Roots,
}

impl From<ElicitationRequest> for InputRequest {
    fn from(request: ElicitationRequest) -> Self {
        Self::Elicitation(request)
    }
}

impl From<SamplingRequest> for InputRequest {
    fn from(request: SamplingRequest) -> Self {
        Self::Sampling(Box::new(request))
    }
}

impl InputRequest {
    /// Returns the protocol's method for the request, such as `roots/list`.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Elicitation(_) => "elicitation/create",
            Self::Sampling(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Returns `true` if the request has its own trace context. Only sampling requests can have one.
    pub(super) fn has_trace_context(&self) -> bool {
        matches!(self, Self::Sampling(request) if request.trace_context.is_some())
    }
}

/// The client's response to an [`InputRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputAnswer {
    /// The user's response. The content of a submitted form matches the form's schema.
    Elicitation(ElicitationResponse),
    /// The response of the client's model.
    Sampling(Box<SamplingResponse>),
    /// The client's roots.
    Roots(Vec<McpRoot>),
}

/// The client's responses to the requests of a [`McpPeer::ask`](crate::McpPeer::ask) call, by the keys of the requests.
/// Contains one response for every request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputAnswers(pub(super) BTreeMap<String, InputAnswer>);

impl InputAnswers {
    /// Returns the response to the request with this key. Returns `None` if no request had this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&InputAnswer> {
        self.0.get(key)
    }

    /// Returns the user's response to the elicitation request with this key. Returns `None` if no elicitation request
    /// had this key.
    #[must_use]
    pub fn elicitation(&self, key: &str) -> Option<&ElicitationResponse> {
        match self.get(key)? {
            InputAnswer::Elicitation(response) => Some(response),
            _ => None,
        }
    }

    /// Returns the model's response to the sampling request with this key. Returns `None` if no sampling request had
    /// this key.
    #[must_use]
    pub fn sampling(&self, key: &str) -> Option<&SamplingResponse> {
        match self.get(key)? {
            InputAnswer::Sampling(response) => Some(response),
            _ => None,
        }
    }

    /// Returns the client's roots. Returns `None` if no request for roots had this key.
    #[must_use]
    pub fn roots(&self, key: &str) -> Option<&[McpRoot]> {
        match self.get(key)? {
            InputAnswer::Roots(roots) => Some(roots),
            _ => None,
        }
    }
}
