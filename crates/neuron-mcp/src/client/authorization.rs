//! The authorization of requests. Without the feature `oauth` there is none.

use std::error::Error;
use std::future::Future;
#[cfg(feature = "oauth")]
use std::sync::Arc;

use neuron_types::McpError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

#[cfg(feature = "oauth")]
use super::oauth::{self, OAuth};

/// The authorization of a client, if it has any, over all of its connections.
#[derive(Clone, Default)]
pub(super) struct Authorization {
    #[cfg(feature = "oauth")]
    oauth: Option<Arc<OAuth>>,
}

impl Authorization {
    #[cfg(feature = "oauth")]
    pub(super) fn by(oauth: Arc<OAuth>) -> Self {
        Self { oauth: Some(oauth) }
    }

    /// To be taken before something is sent for the first time.
    #[cfg(feature = "oauth")]
    pub(super) fn attempt(&self) -> Attempt<'_> {
        Attempt { oauth: self.oauth.as_deref().map(OAuth::attempt) }
    }

    /// To be taken before something is sent for the first time.
    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    pub(super) fn attempt(&self) -> Attempt<'_> {
        Attempt { nothing: std::marker::PhantomData }
    }
}

impl Authorization {
    /// Sends a request, with the token if there is one.
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

/// Something that is sent, and may be sent again.
pub(super) struct Attempt<'a> {
    #[cfg(feature = "oauth")]
    oauth: Option<oauth::Attempt<'a>>,
    #[cfg(not(feature = "oauth"))]
    nothing: std::marker::PhantomData<&'a ()>,
}

impl Attempt<'_> {
    /// Obtains the authorization that the server requires in an error. Returns `true` if the request may be
    /// sent again.
    #[cfg(feature = "oauth")]
    pub(super) async fn answer(
        &mut self,
        error: Option<&(dyn Error + Send + Sync + 'static)>,
    ) -> Result<bool, McpError> {
        let (Some(oauth), Some(error)) = (&mut self.oauth, error) else { return Ok(false) };
        oauth.answer(error).await.map_err(|error| McpError::Other(Box::new(error)))
    }

    /// Without authorization, there is nothing to do.
    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::unused_async, reason = "with the feature it waits")]
    pub(super) async fn answer(
        &mut self,
        _error: Option<&(dyn Error + Send + Sync + 'static)>,
    ) -> Result<bool, McpError> {
        Ok(false)
    }
}
