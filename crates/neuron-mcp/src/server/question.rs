//! Questions to the client, and its answers.

use std::collections::BTreeMap;

use crate::{ElicitationRequest, ElicitationResponse, McpRoot, SamplingRequest, SamplingResponse};

/// What a server asks the client from inside a call.
#[derive(Debug, Clone, PartialEq)]
pub enum InputRequest {
    /// Asks the person at the client.
    Elicitation(ElicitationRequest),
    /// Lets the client's model write something.
    Sampling(Box<SamplingRequest>),
    /// Asks in which folders the server may work.
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
    /// What the protocol calls it.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Elicitation(_) => "elicitation/create",
            Self::Sampling(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Whether it says where it belongs in a trace.
    pub(super) fn has_trace_context(&self) -> bool {
        matches!(self, Self::Sampling(request) if request.trace_context.is_some())
    }
}

/// What the client answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputAnswer {
    /// What the person did. A form that was filled in fits its schema.
    Elicitation(ElicitationResponse),
    /// What the model wrote.
    Sampling(Box<SamplingResponse>),
    /// The folders.
    Roots(Vec<McpRoot>),
}

/// What the client answered, by the keys of the questions: one answer for each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputAnswers(pub(super) BTreeMap<String, InputAnswer>);

impl InputAnswers {
    /// The answer to the question with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&InputAnswer> {
        self.0.get(key)
    }

    /// What the person did; `None` if the question with this key was another.
    #[must_use]
    pub fn elicitation(&self, key: &str) -> Option<&ElicitationResponse> {
        match self.get(key)? {
            InputAnswer::Elicitation(response) => Some(response),
            _ => None,
        }
    }

    /// What the model wrote; `None` if the question with this key was another.
    #[must_use]
    pub fn sampling(&self, key: &str) -> Option<&SamplingResponse> {
        match self.get(key)? {
            InputAnswer::Sampling(response) => Some(response),
            _ => None,
        }
    }

    /// The folders; `None` if the question with this key was another.
    #[must_use]
    pub fn roots(&self, key: &str) -> Option<&[McpRoot]> {
        match self.get(key)? {
            InputAnswer::Roots(roots) => Some(roots),
            _ => None,
        }
    }
}
