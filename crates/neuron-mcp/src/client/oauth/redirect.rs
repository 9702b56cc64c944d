//! The redirect of the user to the authorization page and back.

use std::future::Future;

use neuron_types::McpError;

use crate::erased::erased;

/// Sends the user to the authorization page, and receives the callback.
///
/// [`LoopbackRedirect`](crate::LoopbackRedirect) implements this trait for programs on the user's machine.
pub trait OAuthRedirect: Send + Sync {
    /// Returns the URI to which the authorization server redirects the user.
    ///
    /// The client is registered with this URI, so always return the same URI.
    fn redirect_uri(&self) -> String;

    /// Opens the authorization page, and waits for the user's redirect to the [`redirect_uri`](Self::redirect_uri).
    /// Returns the complete URL of the redirect, including the query.
    ///
    /// # Errors
    ///
    /// Return an error if there is no redirect. The authorization then fails.
    ///
    /// # Cancel safety
    ///
    /// The client drops the future if the MCP request that requires the authorization is dropped or cancelled. It also
    /// drops the future if the connection ends or the [time limit](crate::OAuthConfig::with_timeout) is exceeded.
    fn authorize(
        &self,
        authorization_url: String,
    ) -> impl Future<Output = Result<String, McpError>> + Send;
}

erased! {
    /// A type-erased [`OAuthRedirect`].
    pub(super) trait ErasedRedirect<'a>: OAuthRedirect {
        async fn authorize(authorization_url: String) -> Result<String, McpError>;
        fn redirect_uri() -> String;
    }
}
