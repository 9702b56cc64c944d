//! An HTTP client whose requests are cancelled when their connection ends.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;

use super::deep_list::is_deep_list;
use super::legacy::Legacy;
use crate::causes::with_causes;
use crate::client::authorization::Authorization;
use crate::client::deep_tools::without_deep_tools;
use crate::client::negotiation::no_answer;
use crate::route::SessionSlot;
use crate::wire;

/// Text of the SDK's error for an event that exceeds the maximum size. The type of the error is private.
const EVENT_TOO_LARGE: &str = "SSE event exceeded the maximum size";

/// Minimum pause in milliseconds before an event stream that ended is opened again. A server sets the pause (`retry`), and
/// could make the client send requests without end.
const MIN_PAUSE: u64 = 500;

/// An HTTP client for a single connection.
///
/// This client cancels all its requests when the connection ends. Otherwise the SDK's transport would wait for the
/// first messages of the connection, even if the caller has dropped it.
#[derive(Clone)]
pub(in crate::client) struct SessionHttpClient {
    pub(super) client: reqwest::Client,
    pub(super) authorization: Authorization,
    pub(super) max_message_bytes: usize,
    /// Cancelled when the connection ends. Cancels all requests.
    pub(super) ended: CancellationToken,
    /// Maximum wait for the response to `server/discover`. A server that does not respond in time is treated as an
    /// older server that does not know the method.
    pub(super) patience: Duration,
    /// `true` once a message other than `server/discover` was sent.
    pub(super) begun: Arc<AtomicBool>,
    /// The slot for the session id, which the spans of requests read.
    pub(super) session: SessionSlot,
    /// The state of the HTTP transport of MCP 2024-11-05, for servers that do not support Streamable HTTP.
    pub(super) legacy: Arc<Legacy>,
}

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

impl SessionHttpClient {
    /// Returns the limits of the SDK for the response to a message.
    pub(super) fn limits(&self) -> StreamableHttpResponseLimits {
        let mut limits = StreamableHttpResponseLimits::default();
        limits.max_sse_event_size = self.max_message_bytes;
        limits.max_json_response_size = self.max_message_bytes;
        limits
    }

    /// Runs a request and returns its result. If the connection ends first, cancels the request and returns an error.
    pub(super) async fn unless_ended<T>(
        &self,
        exchange: impl Future<Output = Result<T, HttpError>>,
    ) -> Result<T, HttpError> {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
            done = exchange => done,
        }
    }

    /// Returns the events of `stream` as a stream that ends early if the connection ends. The server's pause before the
    /// stream is opened again becomes at least [`MIN_PAUSE`]. Tools that are [nested too deeply](without_deep_tools)
    /// are removed.
    fn until_ended(&self, stream: BoxedSseResponse) -> BoxedSseResponse {
        let corrected = |event: Sse| Sse {
            retry: event.retry.map(|pause| pause.max(MIN_PAUSE)),
            data: event.data.map(|data| without_deep_tools(&data).unwrap_or(data)),
            ..event
        };
        let events = stream.map(move |event| event.map(corrected));
        events.take_until(self.ended.clone().cancelled_owned()).boxed()
    }

    /// Replaces an event that exceeds the maximum size by an error response to `request`, as the stdio transport does.
    /// Otherwise the SDK would report a lost connection.
    fn explain_limit(&self, stream: BoxedSseResponse, request: RequestId) -> BoxedSseResponse {
        let limit = self.max_message_bytes;
        let explained = stream.map(move |event| match event {
            Err(error) if with_causes(&error).contains(EVENT_TOO_LARGE) => {
                let error = wire::error::too_long(limit);
                let response = ServerJsonRpcMessage::error(error, Some(request.clone()));
                let data = serde_json::to_string(&response).ok();
                Ok(Sse { data, ..Sse::default() })
            }
            event => event,
        });
        explained.boxed()
    }

    /// Stores the session id for the spans of requests. The SDK passes the id with every request after the first
    /// response.
    fn note(&self, session: Option<&Arc<str>>) {
        if let Some(session) = session {
            self.session.set(Arc::clone(session));
        }
    }

    /// Returns `true` if the message is a `server/discover` request and no other message was sent before. A message of
    /// another kind sets [`begun`](Self::begun).
    fn is_discovery(&self, message: &ClientJsonRpcMessage) -> bool {
        if let JsonRpcMessage::Request(request) = message
            && let ClientRequest::DiscoverRequest(_) = &request.request
        {
            return !self.begun.load(Ordering::Acquire);
        }
        self.begun.store(true, Ordering::Release);
        false
    }

    /// Runs `exchange`, which sends a message and returns the HTTP response. The end of the connection ends `exchange`
    /// and the event stream of the response. `request` is the id of the message, or `None` if the message is not a
    /// request.
    async fn exchange(
        &self,
        request: Option<RequestId>,
        exchange: impl Future<Output = Result<StreamableHttpPostResponse, HttpError>>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        Ok(match self.unless_ended(exchange).await? {
            StreamableHttpPostResponse::Sse(stream, session) => {
                let stream = match request {
                    Some(id) => self.explain_limit(stream, id),
                    None => stream,
                };
                StreamableHttpPostResponse::Sse(self.until_ended(stream), session)
            }
            answer => answer,
        })
    }

    /// Runs `exchange`, which sends the first `server/discover` of a connection. If no response arrives in time,
    /// returns an error response for this request. `request` is the id of the request.
    async fn discover(
        &self,
        request: RequestId,
        exchange: impl Future<Output = Result<StreamableHttpPostResponse, HttpError>>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let answer = async { exchange.await?.expect_initialized().await };
        match tokio::time::timeout(self.patience, self.unless_ended(answer)).await {
            Ok(answer) => {
                answer.map(|(answer, session)| StreamableHttpPostResponse::Json(answer, session))
            }
            Err(_) => Ok(StreamableHttpPostResponse::Json(no_answer(request), None)),
        }
    }
}

/// Sends the SDK's requests, and limits the size of received messages. The parameter `_token` of the SDK is ignored,
/// because [`Authorization`] provides the token.
impl StreamableHttpClient for SessionHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        if let Some(endpoint) = self.legacy.endpoint() {
            return self.post_legacy(endpoint, message, headers).await;
        }
        self.note(session.as_ref());
        let is_discovery = self.is_discovery(&message);
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let (client, limits) = (&self.client, self.limits());
        let exchange = self.authorization.send(|token| {
            let (uri, message, session) = (uri.clone(), message.clone(), session.clone());
            let headers = headers.clone();
            client.post_message_with_response_limits(uri, message, session, token, headers, limits)
        });
        let response = match request {
            Some(request) if is_discovery => self.discover(request, exchange).await,
            request => self.exchange(request, exchange).await,
        };
        match response {
            // A server that supports only the older HTTP transport refuses the POST of `initialize`.
            Err(refusal @ StreamableHttpError::UnexpectedServerResponse(_))
                if is_initialize(&message) =>
            {
                self.unless_ended(self.begin_legacy(
                    uri.clone(),
                    message.clone(),
                    headers.clone(),
                    refusal,
                ))
                .await
            }
            Err(error) if is_deep_list(&message, &error) => {
                let list = self.list_again(&uri, &message, session, headers).await;
                list.ok_or(error)
            }
            response => response,
        }
    }

    /// Deletes the session. The SDK calls this method after the end of the connection, with a time limit. Therefore the
    /// end of the connection does not cancel the request.
    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        if self.legacy.endpoint().is_some() {
            return Ok(());
        }
        let request = |token| {
            self.client.delete_session(uri.clone(), session.clone(), token, headers.clone())
        };
        self.authorization.send(request).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, HttpError> {
        if self.legacy.endpoint().is_some() {
            let events = self.legacy.take_events();
            return events.ok_or(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let (client, limit) = (&self.client, self.max_message_bytes);
        let stream = self.authorization.send(|token| {
            let (uri, session, last_event) = (uri.clone(), session.clone(), last_event.clone());
            let headers = headers.clone();
            client
                .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit)
        });
        Ok(self.until_ended(self.unless_ended(stream).await?))
    }
}

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)))
}
