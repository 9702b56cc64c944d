//! The HTTP of MCP 2024-11-05, behind the SDK's transport for Streamable HTTP.
//!
//! A GET opens the event stream of a connection. Its first event, `endpoint`, names the URL for messages. All messages
//! of the server are events of the stream. A client detects such a server by the first event, after the server has
//! refused the POST of `initialize` (MCP 2025-03-26, "Transports", "Backwards Compatibility"). The stream cannot be
//! resumed, so the connection ends with it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::stream::{self, StreamExt};
use reqwest::Url;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};

use super::session_client::{Headers, HttpError, SessionHttpClient};

/// Placeholder for a session id, because the SDK opens an event stream only for a session. It is never sent.
const SESSION: &str = "2024-11-05";

/// The state of a connection to a server of MCP 2024-11-05.
#[derive(Default)]
pub(super) struct Legacy {
    endpoint: OnceLock<Arc<str>>,
    /// The events after the response to `initialize`, until the SDK asks for them.
    events: Mutex<Option<BoxedSseResponse>>,
}

impl Legacy {
    /// Returns the URL for messages if the server uses this transport.
    pub(super) fn endpoint(&self) -> Option<Arc<str>> {
        self.endpoint.get().cloned()
    }

    /// Takes the events. Later calls return `None`.
    pub(super) fn take_events(&self) -> Option<BoxedSseResponse> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl SessionHttpClient {
    /// Opens the event stream, and sends `initialize` to the URL that it names. `refusal` is the error of the POST.
    ///
    /// # Errors
    ///
    /// Returns `refusal` if the server has no event stream that begins with `endpoint`.
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
        tracing::debug!(target: "neuron_mcp", "the server speaks the HTTP of MCP 2024-11-05");
        let endpoint = self.legacy.endpoint.get_or_init(|| endpoint);
        self.post_legacy(Arc::clone(endpoint), initialize, headers).await?;
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

    /// Sends a message. Its response is an event.
    pub(super) async fn post_legacy(
        &self,
        endpoint: Arc<str>,
        message: ClientJsonRpcMessage,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let (client, limit) = (&self.client, self.max_message_bytes);
        let post = self.authorization.send(|token| {
            let (endpoint, message, headers) = (endpoint.clone(), message.clone(), headers.clone());
            client.post_message_with_max_sse_event_size(
                endpoint, message, None, token, headers, limit,
            )
        });
        match self.unless_ended(post).await {
            // Some servers respond with status 200 and plain text instead of 202.
            Ok(_) | Err(StreamableHttpError::UnexpectedContentType(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the event stream. Returns the data of its `endpoint` event, which is the first, and the events after it.
    async fn open(&self, url: Arc<str>, headers: Headers) -> Option<(String, BoxedSseResponse)> {
        let mut events = self.get_stream(url, None, None, None, headers).await.ok()?;
        let first = events.next().await?.ok()?;
        let is_endpoint = first.event.as_deref() == Some("endpoint");
        is_endpoint.then_some((first.data.unwrap_or_default(), events))
    }

    /// Ends the connection when its event stream ends. Events that are not messages are skipped.
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
                    tracing::debug!(target: "neuron_mcp", %error, "the event stream of the server broke");
                    broken.cancel();
                    true
                }
            };
            std::future::ready(is_passed)
        });
        messages.chain(end.filter_map(|()| std::future::ready(None))).boxed()
    }
}

/// Returns the URL for messages. It must have the origin of the stream, because the user's headers are sent to it.
fn endpoint(stream: &str, named: &str) -> Result<Arc<str>, HttpError> {
    let refused = |text: String| StreamableHttpError::UnexpectedServerResponse(text.into());
    let parsed = Url::parse(stream).and_then(|stream| Ok((stream.join(named)?, stream)));
    let (endpoint, stream) =
        parsed.map_err(|error| refused(format!("the `endpoint` event names no URL: {error}")))?;
    match endpoint.origin() == stream.origin() {
        true => Ok(endpoint.as_str().into()),
        false => Err(refused(format!(
            "the `endpoint` event names another server, {}, to which nothing is sent",
            endpoint.origin().ascii_serialization()
        ))),
    }
}
