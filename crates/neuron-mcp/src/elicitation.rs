//! Elicitation, which is a request of a server to the user of the client.

use std::future::Future;

use neuron_types::McpError;
use serde_json::Value;

use crate::TraceContext;

/// A request of a server to the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitationRequest {
    /// A request to fill in a form.
    Form {
        /// The text for the user.
        message: String,
        /// The fields of the form, as a flat JSON Schema. The schema is an object whose properties are strings,
        /// numbers, booleans or choices.
        schema: Value,
    },
    /// A request to visit a web page. The client does not receive the input on the page.
    Url {
        /// The text for the user, such as the reason.
        message: String,
        /// URL of the page, which is `https`, or `http` on this machine. The client refuses any other URL.
        url: String,
        /// Id of the elicitation, which the server chose. [`ElicitationHandler::completed`] receives the same id.
        id: String,
    },
}

impl ElicitationRequest {
    /// Creates a request to fill in a form.
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        Self::Form { message: message.into(), schema }
    }

    /// Creates a request to visit a web page.
    pub fn url(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        Self::Url { message: message.into(), url: url.into(), id: id.into() }
    }
}

/// The user's response to an [`ElicitationRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResponse {
    /// The user accepted. Contains the form's fields as an object. `Value::Null` for a web page.
    Accept(Value),
    /// The user refused.
    Decline,
    /// The user closed the request without a decision.
    Cancel,
}

/// A handler that shows a server's requests to the user.
pub trait ElicitationHandler: Send + Sync {
    /// Shows a request to the user and waits for the response.
    ///
    /// # Errors
    ///
    /// The server receives the `Display` text of the error.
    fn elicit(
        &self,
        request: ElicitationRequest,
    ) -> impl Future<Output = Result<ElicitationResponse, McpError>> + Send;

    /// Handles a request together with its trace context, if any. The client calls this method for every request,
    /// instead of [`elicit`](Self::elicit).
    ///
    /// The default implementation ignores the trace context and calls [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// The server receives the `Display` text of the error.
    fn elicit_traced(
        &self,
        request: ElicitationRequest,
        _trace_context: Option<TraceContext>,
    ) -> impl Future<Output = Result<ElicitationResponse, McpError>> + Send {
        self.elicit(request)
    }

    /// Returns `true` if the handler supports forms. The client reports this capability to servers. The default
    /// implementation returns `true`.
    fn supports_forms(&self) -> bool {
        true
    }

    /// Returns `true` if the handler supports web pages. The client reports this capability to servers. The default
    /// implementation returns `false`.
    fn supports_urls(&self) -> bool {
        false
    }

    /// Called when the server reports that the user has completed a request on its web page. `id` is the id of the
    /// request. The method must not block. The default implementation does nothing.
    fn completed(&self, _id: &str) {}
}
