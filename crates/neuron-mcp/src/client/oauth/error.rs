//! Why an authorization did not come about.

use std::time::Duration;

use neuron_types::McpError;
use rmcp::transport::AuthError;

use crate::causes::with_causes;

/// Maximum number of shown characters of a foreign text.
const SHOWN: usize = 500;

/// Why an authorization did not come about.
///
/// [`McpError::Other`] holds it. No variant contains a token, a code or a client's secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// The way to be authorized by this server could not be found out, or contradicts itself.
    #[error("how to authorize could not be discovered: {0}")]
    Discovery(String),
    /// The authorization server does not know us and does not want to.
    #[error("the authorization server did not register this client: {0}")]
    Registration(String),
    /// The person or the authorization server said no.
    #[error("authorization was refused: {error}{}", .description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// The code of RFC 6749, such as `access_denied`.
        error: String,
        /// The description of the authorization server.
        description: Option<String>,
    },
    /// The application could not send the person to the authorization server and back.
    #[error("the way through the authorization page failed")]
    Redirect(#[source] McpError),
    /// The callback does not belong to this authorization, or is not a callback at all.
    #[error("the answer of the authorization page is unusable: {0}")]
    Callback(String),
    /// The callback names another authorization server (RFC 9207).
    #[error("the answer is not from the authorization server that was asked: {0}")]
    Issuer(String),
    /// The authorization server issued no token, or did not renew one.
    #[error("the authorization server issued no token: {0}")]
    Token(String),
    /// The server wants more scopes than it is content with, however often they are asked for.
    #[error("the server still wants the scope `{scope}` after {times} further authorizations")]
    Scope {
        /// The scopes that the server required last.
        scope: String,
        /// Number of authorizations.
        times: u32,
    },
    /// The server refuses the token that its own authorization server has just issued.
    #[error("the server refuses the token that was just issued for it")]
    TokenRefused,
    /// The person did not come back in time.
    #[error("no answer from the authorization page within {0:?}")]
    TimedOut(Duration),
    /// Credentials could not be stored or loaded.
    #[error("credentials could not be stored or loaded: {0}")]
    Storage(String),
    /// The configuration cannot work.
    #[error("the configuration of OAuth is unusable: {0}")]
    Configuration(String),
}

impl From<OAuthError> for McpError {
    fn from(error: OAuthError) -> Self {
        Self::Other(Box::new(error))
    }
}

/// Classifies the SDK's errors for users.
impl From<AuthError> for OAuthError {
    fn from(error: AuthError) -> Self {
        // The SDK names its causes only as sources.
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
            | AuthError::AuthorizationRequired => Self::Token(text),
            AuthError::AuthorizationFailed(_) => Self::Callback(text),
            _ => Self::Discovery(text),
        }
    }
}

/// Returns the beginning of a foreign text, because a server may respond with a whole page.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
