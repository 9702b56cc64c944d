//! HTTP requests that carry the token, and renew it when it has expired or is refused.
//!
//! The SDK has the same as [`AuthClient`](rmcp::transport::AuthClient), which renews a token as a part of the
//! request: a request that is given up then takes along the only token for the next renewal, when the
//! authorization server has replaced the old one already. Here a renewal always comes to its end.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;
use tokio::sync::Mutex;

/// A client whose requests carry a token, if there is one.
#[derive(Clone)]
pub(crate) struct AuthorizedClient<C> {
    http: C,
    manager: Arc<Mutex<AuthorizationManager>>,
}

type Headers = HashMap<HeaderName, HeaderValue>;

impl<C: StreamableHttpClient + Sync> AuthorizedClient<C> {
    pub(super) fn new(http: C, manager: Arc<Mutex<AuthorizationManager>>) -> Self {
        Self { http, manager }
    }

    /// Sends a request, and once more if its token is refused and can be renewed.
    async fn send<T, F>(
        &self,
        request: impl Fn(Option<String>) -> F,
    ) -> Result<T, StreamableHttpError<C::Error>>
    where
        F: Future<Output = Result<T, StreamableHttpError<C::Error>>>,
    {
        let sent = self.token(None).await?;
        match (request(sent.clone()).await, sent) {
            (Err(StreamableHttpError::AuthRequired(challenge)), Some(refused)) => {
                match self.token(Some(refused)).await? {
                    Some(token) => request(Some(token)).await,
                    None => Err(StreamableHttpError::AuthRequired(challenge)),
                }
            }
            (result, _) => result,
        }
    }

    /// A token that is good, and not the one that was refused; nothing if that takes a person.
    ///
    /// # Cancel safety
    ///
    /// A renewal goes on when the future is dropped.
    async fn token(&self, refused: Option<String>) -> Result<Option<String>, AuthError> {
        let manager = Arc::clone(&self.manager);
        let work = tokio::spawn(async move { token(&*manager.lock().await, refused).await });
        match work.await {
            Ok(Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_))) => {
                Ok(None)
            }
            Ok(result) => result,
            Err(error) => Err(AuthError::InternalError(error.to_string())),
        }
    }
}

async fn token(
    manager: &AuthorizationManager,
    refused: Option<String>,
) -> Result<Option<String>, AuthError> {
    // Renewed if it expires soon, or by another request that was refused.
    let token = manager.get_access_token().await?;
    if refused.as_ref() != Some(&token) {
        return Ok(Some(token));
    }
    let renewed = serde_json::to_value(manager.refresh_token().await?);
    let renewed = renewed.unwrap_or_default();
    let renewed = renewed.get("access_token").and_then(Value::as_str).map(str::to_owned);
    Ok(renewed.filter(|token| refused.as_ref() != Some(token)))
}

/// None of the requests has a token already: this is where it comes from.
impl<C: StreamableHttpClient + Sync> StreamableHttpClient for AuthorizedClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        self.send(|token| {
            let (message, headers) = (message.clone(), headers.clone());
            self.http.post_message(uri.clone(), message, session.clone(), token, headers)
        })
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        self.send(|token| {
            let (uri, message, session) = (uri.clone(), message.clone(), session.clone());
            let headers = headers.clone();
            self.http
                .post_message_with_max_sse_event_size(uri, message, session, token, headers, limit)
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.send(|token| {
            self.http.delete_session(uri.clone(), session.clone(), token, headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, StreamableHttpError<Self::Error>> {
        self.send(|token| {
            let (last_event, headers) = (last_event.clone(), headers.clone());
            self.http.get_stream(uri.clone(), session.clone(), last_event, token, headers)
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<BoxedSseResponse, StreamableHttpError<Self::Error>> {
        self.send(|token| {
            let (uri, session, last_event) = (uri.clone(), session.clone(), last_event.clone());
            let headers = headers.clone();
            self.http
                .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit)
        })
        .await
    }
}
