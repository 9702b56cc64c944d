//! An HTTP client that gives up with its connection.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio_util::sync::CancellationToken;

use crate::client::watch::no_answer;
use crate::route::SessionSlot;

/// A client for one connection.
///
/// The SDK's transport sends the first messages of a connection without looking whether anybody still waits
/// for it, and nothing else while it does.
#[derive(Clone)]
pub(in crate::client) struct Tied<C> {
    client: C,
    ended: CancellationToken,
    patience: Duration,
    /// Something else than `server/discover` was sent.
    begun: Arc<AtomicBool>,
    /// What is to learn the session.
    session: SessionSlot,
}

impl<C: StreamableHttpClient + Sync> Tied<C> {
    /// Gives up when `ended` is cancelled, and sooner if a server does not say within `patience` whether it
    /// knows `server/discover`: it is then taken for one that does not.
    pub(super) fn new(
        client: C,
        ended: CancellationToken,
        patience: Duration,
        session: SessionSlot,
    ) -> Self {
        Self { client, ended, patience, begun: Arc::default(), session }
    }

    async fn unless_ended<T>(
        &self,
        exchange: impl Future<Output = Result<T, StreamableHttpError<C::Error>>>,
    ) -> Result<T, StreamableHttpError<C::Error>> {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
            done = exchange => done,
        }
    }

    fn until_ended(&self, stream: BoxedSseResponse) -> BoxedSseResponse {
        stream.take_until(self.ended.clone().cancelled_owned()).boxed()
    }

    /// What comes after the first answer names the session.
    fn note(&self, session: Option<&Arc<str>>) {
        if let Some(session) = session {
            self.session.set(Arc::clone(session));
        }
    }

    /// The id of the question with which a connection begins.
    fn discovery(&self, message: &ClientJsonRpcMessage) -> Option<RequestId> {
        if let JsonRpcMessage::Request(request) = message
            && let ClientRequest::DiscoverRequest(_) = &request.request
        {
            return (!self.begun.load(Ordering::Acquire)).then(|| request.id.clone());
        }
        self.begun.store(true, Ordering::Release);
        None
    }

    async fn exchange(
        &self,
        discovery: Option<RequestId>,
        exchange: impl Future<
            Output = Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>>,
        >,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        let Some(id) = discovery else {
            return Ok(match self.unless_ended(exchange).await? {
                StreamableHttpPostResponse::Sse(stream, session) => {
                    StreamableHttpPostResponse::Sse(self.until_ended(stream), session)
                }
                answer => answer,
            });
        };
        let answer = async { exchange.await?.expect_initialized().await };
        match tokio::time::timeout(self.patience, self.unless_ended(answer)).await {
            Ok(answer) => {
                answer.map(|(answer, session)| StreamableHttpPostResponse::Json(answer, session))
            }
            Err(_) => Ok(StreamableHttpPostResponse::Json(no_answer(id), None)),
        }
    }
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for Tied<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        self.note(session_id.as_ref());
        let discovery = self.discovery(&message);
        let exchange =
            self.client.post_message(uri, message, session_id, auth_header, custom_headers);
        self.exchange(discovery, exchange).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        self.note(session_id.as_ref());
        let discovery = self.discovery(&message);
        let exchange = self.client.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        self.exchange(discovery, exchange).await
    }

    /// The last words of a connection: they come after its end, and the SDK gives them little time.
    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, StreamableHttpError<Self::Error>> {
        let stream =
            self.client.get_stream(uri, session_id, last_event_id, auth_header, custom_headers);
        Ok(self.until_ended(self.unless_ended(stream).await?))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<Self::Error>> {
        let stream = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        Ok(self.until_ended(self.unless_ended(stream).await?))
    }
}
