//! HTTP requests with the token. An expired or rejected token is renewed.
//!
//! The SDK's [`AuthClient`](rmcp::transport::AuthClient) renews a token as part of the request. If the request is
//! cancelled, the renewed token is lost, although the authorization server may already have revoked the old token. In
//! this module, a renewal always completes.

use std::sync::Arc;

use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;

use super::OAuth;

impl OAuth {
    /// Sends a request with the access token. If the server rejects the token, renews the token and sends the request
    /// once more. `request` sends the request with the token that it receives.
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

    /// Returns a valid token other than `refused`, which is the token that the server has rejected. Returns `None` if
    /// only a user can authorize the client.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a renewal continues.
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

/// Returns the current token, or a renewed token if the server has rejected the current token. `refused` is the
/// rejected token. Returns `None` if the renewed token also equals `refused`.
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
