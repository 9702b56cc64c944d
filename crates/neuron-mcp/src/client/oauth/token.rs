//! HTTP requests that carry the token, and renew it when it has expired or is refused.
//!
//! The SDK has the same as [`AuthClient`](rmcp::transport::AuthClient), which renews a token as a part of the
//! request: a request that is given up then takes along the only token for the next renewal, when the
//! authorization server has replaced the old one already. Here a renewal always comes to its end.

use std::sync::Arc;

use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;

use super::OAuth;

impl OAuth {
    /// Sends a request, and once more if its token is refused and can be renewed.
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

    /// Returns a valid token that is not the refused one. `None` if that requires a person.
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
