//! The way of the person to the authorization server and back.

use std::future::Future;

use neuron_types::McpError;

use crate::erased::erased;

/// Sends the person to a page of the authorization server, and learns where that page sends them afterwards.
///
/// [`LoopbackRedirect`](crate::LoopbackRedirect) is the ready one for programs that run where the person is.
pub trait OAuthRedirect: Send + Sync {
    /// Returns the URI to which the authorization server redirects the person.
    ///
    /// It is registered, so it should be the same each time.
    fn redirect_uri(&self) -> String;

    /// Opens a page and waits for the person to be sent to the [`redirect_uri`](Self::redirect_uri). Returns
    /// that whole URL, with its query.
    ///
    /// # Errors
    ///
    /// Whatever is returned ends the authorization.
    ///
    /// # Cancel safety
    ///
    /// Dropped when the request that needs the authorization is dropped or takes too long.
    fn authorize(
        &self,
        authorization_url: String,
    ) -> impl Future<Output = Result<String, McpError>> + Send;
}

erased! {
    /// [`OAuthRedirect`], whatever its type.
    pub(super) trait ErasedRedirect<'a>: OAuthRedirect {
        async fn authorize(authorization_url: String) -> Result<String, McpError>;
        fn redirect_uri() -> String;
    }
}
