//! Errors of an OAuth authorization.

use std::time::Duration;

use neuron_types::McpError;
use rmcp::transport::AuthError;

use crate::causes::with_causes;
use crate::text::shortened;

/// The reason why an authorization failed. Contained in [`McpError::Other`].
///
/// No variant contains a token, an authorization code or a client secret.
///
/// # Causes and fixes
///
#[doc = include_str!("../../../errors/oauth_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// The authorization server of the MCP server could not be discovered, or has inconsistent metadata.
    #[error("the authorization server could not be discovered: {0}")]
    Discovery(String),
    /// The authorization server does not know this client and did not register it. Contains the reason as text.
    #[error("the authorization server did not register this client: {0}")]
    Registration(String),
    /// The user or the authorization server refused the authorization.
    #[error("authorization was refused: {error}{}", .description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// The error code (RFC 6749), for example `access_denied`.
        error: String,
        /// The description of the authorization server, if it sent one.
        description: Option<String>,
    },
    /// The application failed to send the user to the authorization page, or to receive the callback.
    #[error("the redirect to the authorization page failed")]
    Redirect(#[source] McpError),
    /// The URL to which the user was redirected is invalid, or belongs to another authorization. Contains the reason as
    /// text.
    #[error("the callback of the authorization page is invalid: {0}")]
    Callback(String),
    /// The callback names a different authorization server (RFC 9207), or the issuer is otherwise wrong. Contains the
    /// details as text.
    #[error("the response is not from the expected authorization server: {0}")]
    Issuer(String),
    /// The authorization server did not issue or renew a token. Contains the reason as text.
    #[error("the authorization server issued no token: {0}")]
    Token(String),
    /// The server still requires more scopes after the maximum number of authorizations.
    #[error("the server still requires the scope `{scope}` after {times} further authorizations")]
    Scope {
        /// The scopes that the server required last, separated by spaces.
        scope: String,
        /// Number of authorizations for more scopes.
        times: u32,
    },
    /// The MCP server rejects a token that its authorization server has just issued.
    #[error("the server rejects a token that was just issued for it")]
    TokenRefused,
    /// The user did not finish on the authorization page in time. Contains the time limit.
    #[error("no answer from the authorization page within {0:?}")]
    TimedOut(Duration),
    /// The credentials could not be stored or loaded. Contains the text of the storage's error.
    #[error("credentials could not be stored or loaded: {0}")]
    Storage(String),
    /// The configuration is invalid. Contains the reason as text.
    #[error("the OAuth configuration is invalid: {0}")]
    Configuration(String),
}

impl From<OAuthError> for McpError {
    fn from(error: OAuthError) -> Self {
        Self::Other(Box::new(error))
    }
}

/// Converts the SDK's errors to the variants for users.
impl From<AuthError> for OAuthError {
    fn from(error: AuthError) -> Self {
        // The `Display` text of an SDK error does not contain its causes.
        let text = shortened(&with_causes(&error));
        match error {
            AuthError::RegistrationFailed(_) => Self::Registration(text),
            AuthError::AuthorizationServerMismatch { .. }
            | AuthError::AuthorizationServerMissingIssuer { .. } => Self::Issuer(text),
            AuthError::CredentialStoreError(_) => Self::Storage(text),
            AuthError::TokenExchangeFailed(_)
            | AuthError::TokenRefreshFailed(_)
            | AuthError::TokenRefreshRejected(_)
            | AuthError::ClientCredentialsError(_)
            | AuthError::InvalidTokenType(_)
            | AuthError::AuthorizationRequired => Self::Token(text),
            AuthError::AuthorizationFailed(_) => Self::Callback(text),
            _ => Self::Discovery(text),
        }
    }
}
