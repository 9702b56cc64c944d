//! Requests to the client and their responses.

use std::collections::BTreeMap;

use crate::{ElicitationRequest, ElicitationResponse, McpRoot, SamplingRequest, SamplingResponse};

/// A request to the client from inside a call.
#[derive(Debug, Clone, PartialEq)]
pub enum InputRequest {
    /// Sends an elicitation request to the user.
    Elicitation(ElicitationRequest),
    /// Sends a sampling request to the client's model.
    Sampling(Box<SamplingRequest>),
    /// Requests the client's roots, the folders that the server may use.
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
    /// Returns the protocol's method name.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Elicitation(_) => "elicitation/create",
            Self::Sampling(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Returns `true` if the request has its own trace context.
    pub(super) fn has_trace_context(&self) -> bool {
        matches!(self, Self::Sampling(request) if request.trace_context.is_some())
    }
}

/// The client's response to a request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputAnswer {
    /// The user's response. A submitted form matches its schema.
    Elicitation(ElicitationResponse),
    /// The model's response.
    Sampling(Box<SamplingResponse>),
    /// The client's roots.
    Roots(Vec<McpRoot>),
}

/// The client's responses by key. Every request has exactly one response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputAnswers(pub(super) BTreeMap<String, InputAnswer>);

impl InputAnswers {
    /// Returns the response to the request with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&InputAnswer> {
        self.0.get(key)
    }

    /// Returns the user's response. `None` if the key belongs to another kind of request.
    #[must_use]
    pub fn elicitation(&self, key: &str) -> Option<&ElicitationResponse> {
        match self.get(key)? {
            InputAnswer::Elicitation(response) => Some(response),
            _ => None,
        }
    }

    /// Returns the model's response. `None` if the key belongs to another kind of request.
    #[must_use]
    pub fn sampling(&self, key: &str) -> Option<&SamplingResponse> {
        match self.get(key)? {
            InputAnswer::Sampling(response) => Some(response),
            _ => None,
        }
    }

    /// Returns the roots. `None` if the key belongs to another kind of request.
    #[must_use]
    pub fn roots(&self, key: &str) -> Option<&[McpRoot]> {
        match self.get(key)? {
            InputAnswer::Roots(roots) => Some(roots),
            _ => None,
        }
    }
}
