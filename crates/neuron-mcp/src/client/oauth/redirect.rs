//! The way of the person to the authorization server and back.

use std::future::Future;
use std::pin::Pin;

use neuron_types::McpError;

/// Sends the person to a page of the authorization server, and learns where that page sends them afterwards.
///
/// [`LoopbackRedirect`](crate::LoopbackRedirect) is the ready one for programs that run where the person is.
pub trait OAuthRedirect: Send + Sync {
    /// Where the authorization server is to send the person afterwards.
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

/// The erased form. Its names differ so that a call is never ambiguous.
pub(super) trait ErasedRedirect: Send + Sync {
    fn uri_erased(&self) -> String;
    fn authorize_erased(
        &self,
        authorization_url: String,
    ) -> Pin<Box<dyn Future<Output = Result<String, McpError>> + Send + '_>>;
}

impl<R: OAuthRedirect> ErasedRedirect for R {
    fn uri_erased(&self) -> String {
        self.redirect_uri()
    }

    fn authorize_erased(
        &self,
        authorization_url: String,
    ) -> Pin<Box<dyn Future<Output = Result<String, McpError>> + Send + '_>> {
        Box::pin(self.authorize(authorization_url))
    }
}
