//! The HTTP transport of MCP 2024-11-05, behind the interface of the SDK's Streamable HTTP transport.
//!
//! A GET request opens the event stream of a connection. The first event of the stream, `endpoint`, contains the URL
//! for messages. The server sends all its messages as events of this stream. The stream cannot be resumed, so the
//! connection ends when the stream ends.
//!
//! A client first tries Streamable HTTP. If the server refuses the POST of `initialize`, the client sends a GET and
//! checks for the `endpoint` event (MCP 2025-03-26, "Transports", "Backwards Compatibility").

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::stream::{self, StreamExt};
use reqwest::Url;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};

use super::session_client::{Headers, HttpError, SessionHttpClient};

/// A placeholder for the session id. Without a session id, the SDK would not open an event stream. The placeholder is
/// never sent to the server.
const SESSION: &str = "2024-11-05";

/// The state of a connection to a server of MCP 2024-11-05.
#[derive(Default)]
pub(super) struct Legacy {
    /// The URL for messages, once the server has sent it.
    endpoint: OnceLock<Arc<str>>,
    /// The event stream of the server. Set after the response to `initialize`, and `None` again once the SDK has taken
    /// the stream.
    events: Mutex<Option<BoxedSseResponse>>,
}

impl Legacy {
    /// Returns the URL to which messages are posted. Returns `None` if the server does not use the HTTP transport of
    /// MCP 2024-11-05.
    pub(super) fn endpoint(&self) -> Option<Arc<str>> {
        self.endpoint.get().cloned()
    }

    /// Removes and returns the event stream of the server. Returns `None` before the response to `initialize`, and
    /// after the first call.
    pub(super) fn take_events(&self) -> Option<BoxedSseResponse> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl SessionHttpClient {
    /// Opens the event stream, and sends `initialize` to the URL in the first event. `refusal` is the error of the
    /// earlier attempt to use Streamable HTTP.
    ///
    /// # Errors
    ///
    /// Returns `refusal` if the server does not open an event stream that starts with `endpoint`. Returns the error of
    /// the stream or of `initialize` if one of them fails later.
    pub(super) async fn begin_legacy(
        &self,
        url: Arc<str>,
        initialize: ClientJsonRpcMessage,
        headers: Headers,
        refusal: HttpError,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let opened = self.open(Arc::clone(&url), headers.clone());
        let Ok(Some((named, mut events))) = tokio::time::timeout(self.patience, opened).await
        else {
            return Err(refusal);
        };
        let endpoint = endpoint(&url, named.trim())?;
        tracing::debug!(target: "neuron_mcp", "the server uses the HTTP transport of MCP 2024-11-05");
        let endpoint = self.legacy.endpoint.get_or_init(|| endpoint);
        self.post_legacy(Arc::clone(endpoint), initialize, headers).await?;
        // Events that arrive before the response to `initialize`. The SDK must receive these events after the response.
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            let event = event?;
            let message = event.data.as_deref().map(serde_json::from_str);
            match message {
                Some(Ok(
                    response @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)),
                )) => {
                    let rest = stream::iter(before).chain(events).boxed();
                    let rest = self.ending_with(rest);
                    *self.legacy.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
                    return Ok(StreamableHttpPostResponse::Json(
                        response,
                        Some(SESSION.to_owned()),
                    ));
                }
                _ => before.push(Ok(event)),
            }
        }
        Err(StreamableHttpError::UnexpectedServerResponse(
            "the event stream ended before the response to `initialize`".into(),
        ))
    }

    /// Sends a message to `endpoint`, the server's URL for messages. A response to the message arrives in the event
    /// stream.
    pub(super) async fn post_legacy(
        &self,
        endpoint: Arc<str>,
        message: ClientJsonRpcMessage,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let (client, limits) = (&self.client, self.limits());
        let post = self.authorization.send(|token| {
            let (endpoint, message, headers) = (endpoint.clone(), message.clone(), headers.clone());
            client
                .post_message_with_response_limits(endpoint, message, None, token, headers, limits)
        });
        match self.unless_ended(post).await {
            // Some servers respond with status 200 and plain text instead of 202.
            Ok(_) | Err(StreamableHttpError::UnexpectedContentType(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the event stream, whose first event must have the name `endpoint`. Returns the data of this event and a
    /// stream of the later events. Returns `None` if the stream cannot be opened or starts with a different event.
    async fn open(&self, url: Arc<str>, headers: Headers) -> Option<(String, BoxedSseResponse)> {
        let mut events = self.get_stream(url, None, None, None, headers).await.ok()?;
        let first = events.next().await?.ok()?;
        let is_endpoint = first.event.as_deref() == Some("endpoint");
        is_endpoint.then_some((first.data.unwrap_or_default(), events))
    }

    /// Returns a stream of those `events` that contain protocol messages. Ends the connection when `events` ends or
    /// fails.
    fn ending_with(&self, events: BoxedSseResponse) -> BoxedSseResponse {
        let is_message =
            |event: &Option<String>| matches!(event.as_deref(), None | Some("" | "message"));
        let (broken, ended) = (self.ended.clone(), self.ended.clone());
        let end = stream::once(async move {
            tracing::debug!(target: "neuron_mcp", "the event stream of the server has ended");
            ended.cancel();
        });
        let messages = events.filter(move |event| {
            let is_passed = match event {
                Ok(event) => is_message(&event.event),
                Err(error) => {
                    tracing::debug!(target: "neuron_mcp", %error, "the event stream of the server failed");
                    broken.cancel();
                    true
                }
            };
            std::future::ready(is_passed)
        });
        messages.chain(end.filter_map(|()| std::future::ready(None))).boxed()
    }
}

/// Resolves `named`, the URL that the server sent for messages, against `stream`, the URL of the event stream.
///
/// Returns an error if the two URLs have different origins, because the user's headers are sent to the resolved URL.
fn endpoint(stream: &str, named: &str) -> Result<Arc<str>, HttpError> {
    let refused = |text: String| StreamableHttpError::UnexpectedServerResponse(text.into());
    let parsed = Url::parse(stream).and_then(|stream| Ok((stream.join(named)?, stream)));
    let (endpoint, stream) = parsed.map_err(|error| {
        refused(format!("the `endpoint` event contains an invalid URL: {error}"))
    })?;
    match endpoint.origin() == stream.origin() {
        true => Ok(endpoint.as_str().into()),
        false => Err(refused(format!(
            "the `endpoint` event names another server, {}: no message is sent to it",
            endpoint.origin().ascii_serialization()
        ))),
    }
}
