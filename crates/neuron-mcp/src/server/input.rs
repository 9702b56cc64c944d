//! [`McpPeer::ask`], which sends requests to the client from inside a call.

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

/// Maximum number of attempts to get a valid response to a request. Applies before protocol version 2026-07-28. In
/// later versions, the client repeats the whole call instead.
const ATTEMPTS: usize = 3;

/// Reason why [`McpPeer::ask`] returned no responses.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error("the client does not support {0}: it has not declared this capability")]
    Unsupported(&'static str),
    #[error("the request `{key}` to the client is invalid")]
    Invalid {
        key: String,
        #[source]
        source: neuron_types::McpError,
    },
    /// The call must end and return the requests in its result, as protocol version 2026-07-28 requires.
    #[error(
        "the call needs input from the client: return this error to run the call again with it"
    )]
    Needed,
    #[error("the call is over: no more requests can be sent to the client")]
    Over,
    #[error("the client has closed its output: it cannot respond any more")]
    Ended,
    #[error("the client did not respond to the request `{key}` within {} s", .limit.as_secs_f64())]
    Timeout { key: String, limit: Duration },
    #[error("the client refused the request `{key}`: {message}")]
    Refused { key: String, code: i32, message: String },
    #[error("the client's response to the request `{key}` is invalid")]
    NoAnswer { key: String },
    #[error("the connection failed during the request `{key}` to the client")]
    Connection {
        key: String,
        #[source]
        source: Box<ServiceError>,
    },
}

impl InputError {
    /// Returns the failure that the span of the request records for this error.
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
    /// Sends one or several requests to the client concurrently, and returns the responses. Each request has a key,
    /// which identifies it within the tool call. A later request with the same key returns the same response.
    ///
    /// Before protocol version 2026-07-28, this method sends the requests and waits for the responses.
    ///
    /// Since protocol version 2026-07-28, a server cannot send requests while a call runs. Instead, the call is
    /// repeated:
    ///
    /// 1. This method returns an error, which ends the call.
    /// 2. The server adds the requests to the result of the call.
    /// 3. The client repeats the call with its responses.
    /// 4. The tool runs **again from its start**, and this method returns the responses.
    ///
    /// So call this method before any action that must not run twice, and pass the error on with `?`. If the tool
    /// returns a result instead of the error, the requests are not sent. All repetitions of a call have the same
    /// [`idempotency_key`](neuron_types::ToolContext::idempotency_key).
    ///
    /// Each request is sent with the first available trace context of this list:
    ///
    /// 1. The trace context of the request itself, which only a [`SamplingRequest`] can have.
    /// 2. The trace context of the current span, if [`with_trace_context`](crate::McpServer::with_trace_context) is
    ///    set.
    /// 3. The [trace context of the call](Self::trace_context).
    ///
    /// If a response is invalid, for example a form without a required field, the request is sent again. Before
    /// protocol version 2026-07-28, it is sent at most three times.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ExecutionFailed`] in these cases:
    ///
    /// - The client has not declared the required capability (see [`supports_sampling`](Self::supports_sampling) and
    ///   the other methods named `supports_*`).
    /// - The client refuses a request, sends only invalid responses, or does not respond within the [input
    ///   timeout](crate::McpServer::with_input_timeout).
    /// - The client has disconnected or closed its output.
    /// - The call is over.
    /// - The protocol does not allow the schema of a form.
    /// - The call must end and run again with the responses (since protocol version 2026-07-28).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server sends a cancellation of each pending request to the client. Over HTTP
    /// before protocol version 2026-07-28, a cancellation may not reach the client. It is sent on the client's
    /// listening stream (`GET`), or if there is none, on the stream of another call.
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
        // A task that the call has spawned may still have the peer after the end of the call.
        if self.inputs().over.is_cancelled() {
            return Err(InputError::Over.into());
        }
        let trace = self.current_trace_context();
        let mut answers = InputAnswers::default();
        let mut open: Vec<(String, InputRequest, model::InputRequest)> = Vec::new();
        for (key, request) in requests {
            let (key, request) = (key.into(), request.into());
            // Requests with the same key count as one request.
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
            // Recorded here, because a tool may return another error than `InputError::Needed`.
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

    /// Sends an elicitation request to the user, and returns the user's response.
    ///
    /// Since protocol version 2026-07-28, the tool runs again after the response. [`ask`](Self::ask) describes this
    /// behaviour and the meaning of `key`.
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

    /// Sends a sampling request to the client's model, and returns the model's response.
    ///
    /// Since protocol version 2026-07-28, the tool runs again after the response. [`ask`](Self::ask) describes this
    /// behaviour and the meaning of `key`.
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

    /// Requests the client's roots, which are the folders that the server may use.
    ///
    /// Since protocol version 2026-07-28, the tool runs again after the response. [`ask`](Self::ask) describes this
    /// behaviour and the meaning of `key`.
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

    /// Notifies the client that the user has completed an elicitation request on a web page. `id` is the id in the
    /// elicitation request.
    ///
    /// Does nothing unless the client has protocol version 2025-11-25, because no other version defines the
    /// notification.
    pub fn elicitation_completed(&self, id: &str) {
        if self.version() == McpVersion::V2025_11_25 {
            self.outbox().push(wire::elicitation::completed(id));
        }
    }

    /// Sends one request and returns its response. Returns the errors of [`ask`](Self::ask).
    async fn ask_one(&self, key: &str, request: InputRequest) -> Result<InputAnswer, ToolError> {
        let mut answers = self.ask([(key, request)]).await?;
        Ok(answers.0.remove(key).ok_or_else(|| InputError::NoAnswer { key: key.to_owned() })?)
    }

    /// Checks that the client has declared the capability for a request. Otherwise returns [`InputError::Unsupported`],
    /// and records the missing capability for the response to the call.
    pub(super) fn check_support(&self, request: &InputRequest) -> Result<(), InputError> {
        let (supported, what) = match request {
            InputRequest::Elicitation(ElicitationRequest::Form { .. }) => {
                (self.supports_elicitation_form(), "forms (elicitation)")
            }
            InputRequest::Elicitation(ElicitationRequest::Url { .. }) => {
                (self.supports_elicitation_url(), "opening pages (elicitation)")
            }
            InputRequest::Sampling(request)
                if !request.tools.is_empty() || request.tool_choice.is_some() =>
            {
                (self.supports_sampling_tools(), "sampling with tools")
            }
            InputRequest::Sampling(_) => (self.supports_sampling(), "sampling"),
            InputRequest::Roots => (self.supports_roots(), "roots"),
        };
        if supported {
            return Ok(());
        }
        let error = InputError::Unsupported(what);
        let capabilities = wire::input::required_capabilities(request);
        self.inputs().lock().missing = Some(Missing { capabilities, text: error.to_string() });
        Err(error)
    }

    /// Sends a request until the client's response is valid, at most [`ATTEMPTS`] times. Used before protocol version
    /// 2026-07-28.
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
                // A later request with the same key gets this response without asking the client again.
                self.inputs().lock().answers.insert(key.to_owned(), response);
                return Ok(answer);
            }
        }
        Err(no_answer())
    }

    /// Sends a request once and waits for the client's response. Used only before protocol version 2026-07-28.
    async fn answer(
        &self,
        key: &str,
        request: &InputRequest,
        mut sent: ServerRequest,
        span: &RequestSpan,
    ) -> Result<ClientResult, InputError> {
        if !request.has_trace_context() {
            // Replaces the trace context from `ask`, because the span of this request is now the current span.
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
            // The call ended while the request was sent, so `Inputs::end` could not cancel this request.
            let _ = handle.cancel(None).await;
            return Err(InputError::Over);
        }
        let waiting = Waiting { peer: self, id };
        let response = tokio::select! {
            // A response that has arrived is preferred to the end of the call or of the input.
            biased;
            response = handle.await_response() => response,
            () = self.inputs().over.cancelled() => return Err(InputError::Over),
            () = self.input_ended().cancelled() => return Err(InputError::Ended),
        };
        waiting.end();
        response.map_err(failed)
    }
}

/// Guard of a pending request to the client. Dropping the guard before [`end`](Self::end) cancels the request.
struct Waiting<'a> {
    peer: &'a McpPeer,
    id: RequestId,
}

impl Waiting<'_> {
    /// Disarms this guard, because the response has arrived. Dropping the guard then sends no cancellation to the
    /// client.
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
