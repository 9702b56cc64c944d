//! Elicitation, by which a server asks the person at the client.

use std::future::Future;

use neuron_types::McpError;
use serde_json::Value;

use crate::TraceContext;

/// A question of a server to a person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitationRequest {
    /// Fill in a form.
    Form {
        /// The question.
        message: String,
        /// The fields as a flat JSON Schema, which is an object whose properties are text, numbers,
        /// booleans and choices.
        schema: Value,
    },
    /// A request to visit a page, so that the input there never passes through the client.
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

/// The reaction of the person.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResponse {
    /// The filled-in form as an object with its fields, or `Value::Null` for the consent to visit the page.
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

    /// Returns `true` if the handler can show forms. The client announces this to servers.
    fn supports_forms(&self) -> bool {
        true
    }

    /// Returns `true` if the handler can open pages. The client announces this to servers.
    fn supports_urls(&self) -> bool {
        false
    }

    /// Receives the notification that a person has finished on a page, by the id of the request.
    fn completed(&self, _id: &str) {}
}
