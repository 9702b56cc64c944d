//! Sending of HTTP requests with an access token, which is renewed if it has expired or was rejected.
//!
//! The SDK's [`AuthClient`](rmcp::transport::AuthClient) also renews tokens, but within the request's future. If that
//! future is dropped, the client loses the new token, and the old token may already be revoked. This module renews
//! tokens in a separate task, which always completes.

use std::sync::Arc;

use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;

use super::OAuth;

impl OAuth {
    /// Calls `request` with the access token. If the server rejects the token, renews the token and calls `request`
    /// once more.
    pub(crate) async fn send<T, F>(
        &self,
        request: impl Fn(Option<String>) -> F,
    ) -> Result<T, StreamableHttpError<reqwest::Error>>
    where
        F: Future<Output = Result<T, StreamableHttpError<reqwest::Error>>>,
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

    /// Returns a valid access token. `refused` is a token that the server has rejected, and is never returned. Returns
    /// `None` if only a user can authorize the client.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a started renewal still completes.
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

/// Returns the current token, or a renewed token if the current token equals `refused`. Returns `None` if the renewed
/// token also equals `refused`.
async fn token(
    manager: &AuthorizationManager,
    refused: Option<String>,
) -> Result<Option<String>, AuthError> {
    // `get_access_token` renews a token that expires soon. Another rejected request may also have renewed the token.
    let token = manager.get_access_token().await?;
    if refused.as_ref() != Some(&token) {
        return Ok(Some(token));
    }
    let renewed = serde_json::to_value(manager.refresh_token().await?);
    let renewed = renewed.unwrap_or_default();
    let renewed = renewed.get("access_token").and_then(Value::as_str).map(str::to_owned);
    Ok(renewed.filter(|token| refused.as_ref() != Some(token)))
}
