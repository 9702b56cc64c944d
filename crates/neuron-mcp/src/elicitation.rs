//! Elicitation: a server asks the person at the client for something.

use std::future::Future;

use neuron_types::McpError;
use serde_json::Value;

use crate::TraceContext;

/// What a server asks a person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitationRequest {
    /// Fill in a form.
    Form {
        /// The question.
        message: String,
        /// The fields, as a flat JSON Schema: an object whose properties are text, numbers, booleans and
        /// choices.
        schema: Value,
    },
    /// Visit a page, so that what is entered there never passes through the client.
    Url {
        /// Why.
        message: String,
        /// The page.
        url: String,
        /// Identifies the request to the server.
        id: String,
    },
}

impl ElicitationRequest {
    /// Asks to fill in a form.
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        Self::Form { message: message.into(), schema }
    }

    /// Asks to visit a page.
    pub fn url(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        Self::Url { message: message.into(), url: url.into(), id: id.into() }
    }
}

/// What the person did.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResponse {
    /// Filled in the form: an object with its fields. Or agreed to visit the page: `Value::Null`.
    Accept(Value),
    /// Refused.
    Decline,
    /// Did neither.
    Cancel,
}

/// Asks the person at the client.
pub trait ElicitationHandler: Send + Sync {
    /// Puts a request to the person.
    ///
    /// # Errors
    ///
    /// Whatever is returned is told to the server, in its `Display` form.
    fn elicit(
        &self,
        request: ElicitationRequest,
    ) -> impl Future<Output = Result<ElicitationResponse, McpError>> + Send;

    /// As [`elicit`](Self::elicit), with where the request belongs in a distributed trace, if the server said
    /// so. This is what is called. Provided: by [`elicit`](Self::elicit), without it.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit).
    fn elicit_traced(
        &self,
        request: ElicitationRequest,
        _trace_context: Option<TraceContext>,
    ) -> impl Future<Output = Result<ElicitationResponse, McpError>> + Send {
        self.elicit(request)
    }

    /// Whether forms can be shown. Servers are told so.
    fn supports_forms(&self) -> bool {
        true
    }

    /// Whether pages can be opened. Servers are told so.
    fn supports_urls(&self) -> bool {
        false
    }

    /// Learns that what a person did on a page is done, by the id of the request.
    fn completed(&self, _id: &str) {}
}
