//! Authorization of HTTP requests. Does nothing without the feature `oauth`.

use std::error::Error;
use std::future::Future;
#[cfg(feature = "oauth")]
use std::sync::Arc;

use neuron_types::McpError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

#[cfg(feature = "oauth")]
use super::oauth::{self, OAuth};

/// The OAuth authorization that all connections of a client share. Does nothing if OAuth is not configured.
#[derive(Clone, Default)]
pub(super) struct Authorization {
    #[cfg(feature = "oauth")]
    oauth: Option<Arc<OAuth>>,
}

impl Authorization {
    /// Creates the authorization of a client that has an OAuth configuration.
    #[cfg(feature = "oauth")]
    pub(super) fn by(oauth: Arc<OAuth>) -> Self {
        Self { oauth: Some(oauth) }
    }

    /// Creates the [`Attempt`] of a request, which can authorize the client if the server rejects the request. Call
    /// this before the request is sent for the first time.
    #[cfg(feature = "oauth")]
    pub(super) fn attempt(&self) -> Attempt<'_> {
        Attempt { oauth: self.oauth.as_deref().map(OAuth::attempt) }
    }

    /// Creates the [`Attempt`] of a request. Without the feature `oauth`, the attempt never authorizes the client.
    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    pub(super) fn attempt(&self) -> Attempt<'_> {
        Attempt { nothing: std::marker::PhantomData }
    }
}

impl Authorization {
    /// Sends a request. `request` receives the access token if the client has one, and sends the request.
    pub(super) async fn send<T, F>(
        &self,
        request: impl Fn(Option<String>) -> F,
    ) -> Result<T, StreamableHttpError<reqwest::Error>>
    where
        F: Future<Output = Result<T, StreamableHttpError<reqwest::Error>>>,
    {
        #[cfg(feature = "oauth")]
        if let Some(oauth) = &self.oauth {
            return oauth.send(request).await;
        }
        request(None).await
    }
}

/// The state of a request that may be sent again after the client has been authorized.
pub(super) struct Attempt<'a> {
    #[cfg(feature = "oauth")]
    oauth: Option<oauth::Attempt<'a>>,
    #[cfg(not(feature = "oauth"))]
    nothing: std::marker::PhantomData<&'a ()>,
}

impl Attempt<'_> {
    /// Authorizes the client if `error` is a response that requires an authorization. Returns `true` if the request
    /// should then be sent again. Returns `false` if OAuth is not configured, or if `error` does not require an
    /// authorization.
    #[cfg(feature = "oauth")]
    pub(super) async fn answer(
        &mut self,
        error: Option<&(dyn Error + Send + Sync + 'static)>,
    ) -> Result<bool, McpError> {
        let (Some(oauth), Some(error)) = (&mut self.oauth, error) else { return Ok(false) };
        oauth.answer(error).await.map_err(|error| McpError::Other(Box::new(error)))
    }

    /// Returns `false`, so that the request is not sent again. Without the feature `oauth` there is no authorization.
    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::unused_async, reason = "with the feature it waits")]
    pub(super) async fn answer(
        &mut self,
        _error: Option<&(dyn Error + Send + Sync + 'static)>,
    ) -> Result<bool, McpError> {
        Ok(false)
    }
}
