//! Requests to the client from inside a call.

use std::time::Duration;

use futures_util::future;
use neuron_types::ToolError;
use rmcp::ServiceError;
use rmcp::model::{self, ClientResult, GetExtensions, RequestId, ServerRequest};
use rmcp::service::PeerRequestOptions;
use tracing::Instrument;

use super::inputs::{Missing, cancelled, fitting_answer};
use super::peer::McpPeer;
use super::question::{InputAnswer, InputAnswers, InputRequest};
use crate::span::{Failure, RequestSpan};
use crate::wire;
use crate::{
    ElicitationRequest, ElicitationResponse, McpRoot, McpVersion, SamplingRequest, SamplingResponse,
};

/// Maximum number of attempts for a client of an older version that sends invalid responses.
const ATTEMPTS: usize = 3;

/// Reason why a request got no response.
#[derive(Debug, thiserror::Error)]
enum InputError {
    #[error("the client cannot be asked for {0}: it has not declared that it can do that")]
    Unsupported(&'static str),
    #[error("the question `{key}` cannot be asked")]
    Invalid {
        key: String,
        #[source]
        source: neuron_types::McpError,
    },
    #[error("the call waits for input of the client, and runs again when that is there")]
    Needed,
    #[error("the call is over: the client cannot be asked any more")]
    Over,
    #[error("the connection ends: the client cannot answer any more")]
    Ended,
    #[error("the client did not answer the question `{key}` within {} s", .limit.as_secs_f64())]
    Timeout { key: String, limit: Duration },
    #[error("the client refused the question `{key}`: {message}")]
    Refused { key: String, code: i32, message: String },
    #[error("the client's answer to the question `{key}` is none")]
    NoAnswer { key: String },
    #[error("the question `{key}` did not reach the client")]
    Connection {
        key: String,
        #[source]
        source: Box<ServiceError>,
    },
}

impl InputError {
    fn failure(&self) -> Failure {
        match self {
            Self::Refused { code, .. } => Failure::Code(*code),
            Self::Timeout { .. } => Failure::TIMEOUT,
            Self::Over => Failure::CANCELLED,
            Self::Ended | Self::Connection { .. } => Failure::TRANSPORT,
            _ => Failure::OTHER,
        }
    }
}

impl From<InputError> for ToolError {
    fn from(error: InputError) -> Self {
        Self::ExecutionFailed(Box::new(error))
    }
}

impl McpPeer {
    /// Sends one or several requests to the client at once. Each request has a key that identifies it within the call.
    /// The same key always returns the same response.
    ///
    /// Before version 2026-07-28, this method sends the requests and waits for the responses. Since 2026-07-28, a
    /// server cannot send requests while a call runs. This method then returns an error, the call ends, and the client
    /// calls again with the responses. The tool runs **again from its start**, and this method returns the responses.
    /// So call this method before any action that must not run twice, and pass the error on with `?`. A tool that
    /// returns a result instead completes the call, and no request is sent. The call keeps its
    /// [`idempotency_key`](neuron_types::ToolContext::idempotency_key).
    ///
    /// A request carries a trace context. This is the request's own (a [`SamplingRequest`] can have one), that of the
    /// current span if the server [can read it](crate::McpServer::with_trace_context), or the call's [trace
    /// context](Self::trace_context).
    ///
    /// A request is repeated if the response does not match it, such as a form without a required field.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ExecutionFailed`] in these cases:
    ///
    /// - The client has not declared the capability (see [`supports_sampling`](Self::supports_sampling) and the like),
    ///   refuses, does not respond in time, or has disconnected or ended its input.
    /// - The call is over.
    /// - The protocol does not allow the schema of a form.
    /// - The call has to wait for the responses, since 2026-07-28.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future sends a cancellation to the client. Over HTTP before 2026-07-28 the cancellation may not
    /// reach the client. It is sent on the client's listening stream (`GET`), if it has one, or on the stream of
    /// another of its calls.
    ///
    /// # Example: a tool that asks before it acts
    ///
    /// ```
    /// use neuron_mcp::{ElicitationRequest, ElicitationResponse, McpPeer};
    /// use neuron_tool::neuron_tool;
    /// use neuron_types::{ToolContext, ToolError};
    ///
    /// /// Deletes a file
    /// #[neuron_tool]
    /// async fn delete(path: String, ctx: &ToolContext) -> Result<String, ToolError> {
    ///     if let Some(peer) = ctx.extensions.get::<McpPeer>() {
    ///         let schema = serde_json::json!({ "type": "object", "properties": {} });
    ///         let question = ElicitationRequest::form(format!("Delete {path}?"), schema);
    ///         match peer.elicit("delete", question).await? {
    ///             ElicitationResponse::Accept(_) => {}
    ///             _ => return Err(ToolError::PermissionDenied("the person said no".into())),
    ///         }
    ///     }
    ///     // No side effect may happen before this point, because the tool runs again since 2026-07-28.
    ///     Ok(format!("{path} is gone"))
    /// }
    /// ```
    pub async fn ask<K, R>(
        &self,
        requests: impl IntoIterator<Item = (K, R)>,
    ) -> Result<InputAnswers, ToolError>
    where
        K: Into<String>,
        R: Into<InputRequest>,
    {
        if self.outbox().is_closed() {
            return Err(InputError::Over.into());
        }
        let trace = self.current_trace_context();
        let mut answers = InputAnswers::default();
        let mut open: Vec<(String, InputRequest, model::InputRequest)> = Vec::new();
        for (key, request) in requests {
            let (key, request) = (key.into(), request.into());
            if open.iter().any(|(asked, ..)| *asked == key) {
                continue;
            }
            self.check_support(&request)?;
            match self.inputs().answer(&key, &request) {
                Some(answer) => {
                    answers.0.insert(key, answer);
                }
                None => {
                    let sent = wire::input::request_to_sdk(&request, trace.as_ref())
                        .map_err(|source| InputError::Invalid { key: key.clone(), source })?;
                    open.push((key, request, sent));
                }
            }
        }
        if open.is_empty() {
            return Ok(answers);
        }
        if !self.version().has_handshake() {
            let open = open.into_iter().map(|(key, _, sent)| (key, sent));
            self.inputs().lock().open.extend(open);
            return Err(InputError::Needed.into());
        }
        let asked = open.into_iter().map(|(key, request, sent)| async move {
            let answer = self.request(&key, &request, sent).await?;
            Ok::<_, InputError>((key, answer))
        });
        answers.0.extend(future::try_join_all(asked).await?);
        Ok(answers)
    }

    /// Sends an elicitation request to the user. See [`ask`](Self::ask).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ask`](Self::ask).
    pub async fn elicit(
        &self,
        key: impl Into<String>,
        request: ElicitationRequest,
    ) -> Result<ElicitationResponse, ToolError> {
        let key = key.into();
        match self.ask_one(&key, request.into()).await? {
            InputAnswer::Elicitation(response) => Ok(response),
            _ => Err(InputError::NoAnswer { key }.into()),
        }
    }

    /// Sends a sampling request to the client's model. See [`ask`](Self::ask).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ask`](Self::ask).
    pub async fn sample(
        &self,
        key: impl Into<String>,
        request: SamplingRequest,
    ) -> Result<SamplingResponse, ToolError> {
        let key = key.into();
        match self.ask_one(&key, request.into()).await? {
            InputAnswer::Sampling(response) => Ok(*response),
            _ => Err(InputError::NoAnswer { key }.into()),
        }
    }

    /// Requests the client's roots, the folders that the server may use. See [`ask`](Self::ask).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ask`](Self::ask).
    pub async fn roots(&self, key: impl Into<String>) -> Result<Vec<McpRoot>, ToolError> {
        let key = key.into();
        match self.ask_one(&key, InputRequest::Roots).await? {
            InputAnswer::Roots(roots) => Ok(roots),
            _ => Err(InputError::NoAnswer { key }.into()),
        }
    }

    /// Notifies the client that the user has finished on a page. `id` is the id of the request. The notification is
    /// sent only to clients of 2025-11-25, because the other versions do not have it.
    pub fn elicitation_completed(&self, id: &str) {
        if self.version() == McpVersion::V2025_11_25 {
            self.outbox().push(wire::elicitation::completed(id));
        }
    }

    async fn ask_one(&self, key: &str, request: InputRequest) -> Result<InputAnswer, ToolError> {
        let mut answers = self.ask([(key, request)]).await?;
        Ok(answers.0.remove(key).ok_or_else(|| InputError::NoAnswer { key: key.to_owned() })?)
    }

    fn check_support(&self, request: &InputRequest) -> Result<(), InputError> {
        let (supported, what) = match request {
            InputRequest::Elicitation(ElicitationRequest::Form { .. }) => {
                (self.supports_elicitation_form(), "what a person fills into a form")
            }
            InputRequest::Elicitation(ElicitationRequest::Url { .. }) => {
                (self.supports_elicitation_url(), "a visit of a page")
            }
            InputRequest::Sampling(request)
                if !request.tools.is_empty() || request.tool_choice.is_some() =>
            {
                (self.supports_sampling_tools(), "what its model writes, with tools")
            }
            InputRequest::Sampling(_) => (self.supports_sampling(), "what its model writes"),
            InputRequest::Roots => (self.supports_roots(), "its roots"),
        };
        if supported {
            return Ok(());
        }
        let error = InputError::Unsupported(what);
        let capabilities = wire::input::required_capabilities(request);
        self.inputs().lock().missing = Some(Missing { capabilities, text: error.to_string() });
        Err(error)
    }

    /// Sends a request to a client of an older version until the response is valid.
    async fn request(
        &self,
        key: &str,
        request: &InputRequest,
        sent: model::InputRequest,
    ) -> Result<InputAnswer, InputError> {
        let no_answer = || InputError::NoAnswer { key: key.to_owned() };
        for _ in 0..ATTEMPTS {
            if self.input_ended().is_cancelled() {
                return Err(InputError::Ended);
            }
            let sent = wire::input::to_server_request(sent.clone(), &self.context().id);
            let sent = sent.ok_or_else(no_answer)?;
            let span = self.question_span(request.method());
            let answered = self.answer(key, request, sent, &span).instrument(span.to_enter()).await;
            span.end(answered.as_ref().err().map(InputError::failure));
            let response = serde_json::to_value(answered?).unwrap_or_default();
            if let Some(answer) = fitting_answer(request, &response) {
                self.inputs().lock().answers.insert(key.to_owned(), response);
                return Ok(answer);
            }
        }
        Err(no_answer())
    }

    /// Sends a request to a client of an older version, and waits for its response.
    async fn answer(
        &self,
        key: &str,
        request: &InputRequest,
        mut sent: ServerRequest,
        span: &RequestSpan,
    ) -> Result<ClientResult, InputError> {
        if !request.has_trace_context() {
            // Prefers the trace context of the request's own span, if there is one.
            wire::input::set_trace(sent.extensions_mut(), self.current_trace_context().as_ref());
        }
        let limit = self.input_timeout();
        let options = PeerRequestOptions::with_timeout(limit);
        let failed = |error| match error {
            ServiceError::Timeout { .. } => InputError::Timeout { key: key.to_owned(), limit },
            ServiceError::McpError(error) => InputError::Refused {
                key: key.to_owned(),
                code: error.code.0,
                message: error.message.into(),
            },
            source => InputError::Connection { key: key.to_owned(), source: Box::new(source) },
        };
        let peer = &self.context().peer;
        let handle = peer.send_request_with_option(sent, options).await.map_err(failed)?;
        let id = handle.id.clone();
        span.has_id(&id);
        if !self.inputs().wait_for(id.clone()) {
            let _ = handle.cancel(None).await;
            return Err(InputError::Over);
        }
        let waiting = Waiting { peer: self, id };
        let response = tokio::select! {
            biased;
            response = handle.await_response() => response,
            () = self.inputs().over.cancelled() => return Err(InputError::Over),
            () = self.input_ended().cancelled() => return Err(InputError::Ended),
        };
        waiting.end();
        response.map_err(failed)
    }
}

/// Guard that cancels a request to the client if it is dropped before the response arrives.
struct Waiting<'a> {
    peer: &'a McpPeer,
    id: RequestId,
}

impl Waiting<'_> {
    /// Disarms the guard after the response.
    fn end(self) {
        self.peer.inputs().wait_no_more(&self.id);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.peer.inputs().wait_no_more(&self.id) {
            self.peer.outbox().push(cancelled(self.id.clone()));
        }
    }
}
