//! OAuth 2.1 authorization of a client, after a server has rejected a request.
//!
//! The SDK implements the OAuth protocol. This module decides when to use it:
//!
//! - The transport [sends](OAuth::send) each request with the access token, and renews an expired token.
//! - If only a user can authorize the client, the request fails. The caller passes the error to an [`Attempt`].
//! - The [`Attempt`] obtains a new token, and decides whether the request is sent again.

mod addresses;
mod callback;
mod config;
mod error;
mod flow;
mod http;
mod loopback;
mod redirect;
mod storage;
mod token;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Url;
use rmcp::transport::auth::{AuthorizationManager, OAuthHttpClient, WWWAuthenticateParams};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError,
};
use tokio::sync::Mutex;

pub use config::{OAuthApplicationType, OAuthConfig};
pub use error::OAuthError;
pub use loopback::LoopbackRedirect;
pub use redirect::OAuthRedirect;
pub use storage::{MemoryOAuthStorage, OAuthCredentials, OAuthStorage};

use flow::Flow;
use http::AuthorizationHttp;

/// Maximum number of times that one request is authorized again because the server requires more scopes.
const MAX_STEP_UPS: u32 = 2;

/// Maximum number of newly issued tokens that a server may reject for one request.
const MAX_REFUSED_TOKENS: u32 = 1;

/// The authorization of a client at one server, shared by all connections of the client.
pub(crate) struct OAuth {
    flow: Flow,
    /// The SDK's manager, which contains the token. A new authorization replaces the manager when it completes. Until
    /// then, requests use the old token.
    manager: Arc<Mutex<AuthorizationManager>>,
    /// Number of completed authorizations. An [`Attempt`] compares this number before and after a request, to notice
    /// that another request has already obtained a new token.
    generation: AtomicU64,
    /// Lock that is held during an authorization, so that a user sees only one authorization page at a time.
    authorizing: Mutex<()>,
}

impl OAuth {
    /// Creates the authorization, with stored credentials of an earlier authorization if there are any. `server` is the
    /// URL of the MCP server. `builder` creates HTTP clients with the TLS configuration of the transport.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - The URL is invalid.
    /// - There are stored credentials, but the authorization server is not found.
    pub(crate) async fn new(
        config: OAuthConfig,
        server: &str,
        builder: reqwest::ClientBuilder,
    ) -> Result<Self, OAuthError> {
        let server = Url::parse(server)
            .map_err(|error| OAuthError::Configuration(format!("`{server}`: {error}")))?;
        let http = AuthorizationHttp::new(builder, &server, config.private_addresses)?;
        let http: Arc<dyn OAuthHttpClient> = Arc::new(http);
        let flow = Flow { config, server, http };
        let manager = flow.restore().await?;
        Ok(Self {
            flow,
            manager: Arc::new(Mutex::new(manager)),
            generation: AtomicU64::new(0),
            authorizing: Mutex::new(()),
        })
    }

    /// Creates the [`Attempt`] of a request, to authorize the client if the server rejects the request. Must be called
    /// before the request is first sent.
    pub(crate) fn attempt(&self) -> Attempt<'_> {
        Attempt { oauth: self, seen: self.generation(), refused_tokens: 0, step_ups: 0 }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// The state of a request that may be sent again after an authorization. Counts the authorizations for this request.
pub(crate) struct Attempt<'a> {
    oauth: &'a OAuth,
    /// Number of completed authorizations when the request was last sent.
    seen: u64,
    /// Number of times that the request was authorized because the server had rejected the token (status 401).
    refused_tokens: u32,
    /// Number of times that the request was authorized again because the server required more scopes (status 403).
    step_ups: u32,
}

impl Attempt<'_> {
    /// Authorizes the client if `error` contains a response with status 401, or 403 for missing scopes. Returns `true`
    /// if the request may be sent again. Returns `false` for other errors.
    ///
    /// # Errors
    ///
    /// Returns an error if no token was obtained, or if the server still rejects the request after the maximum number
    /// of authorizations.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the authorization is abandoned, and the previous token stays in use.
    pub(crate) async fn answer(
        &mut self,
        error: &(dyn Error + Send + Sync + 'static),
    ) -> Result<bool, OAuthError> {
        let Some(challenge) = Challenge::find(error, &self.oauth.flow.server) else {
            return Ok(false);
        };
        let _turn = self.oauth.authorizing.lock().await;
        let generation = self.oauth.generation();
        if generation == self.seen {
            self.count(&challenge)?;
            let manager =
                self.oauth.flow.authorize(&challenge.header, challenge.scope.as_deref()).await?;
            *self.oauth.manager.lock().await = manager;
            self.oauth.generation.store(generation + 1, Ordering::Release);
        }
        // If the numbers differ, another request was authorized in the meantime, and this request can use the new
        // token.
        self.seen = self.oauth.generation();
        Ok(true)
    }

    /// Counts a further authorization for the request. Returns an error if the request already had the maximum number
    /// of authorizations.
    fn count(&mut self, challenge: &Challenge) -> Result<(), OAuthError> {
        match &challenge.scope {
            Some(scope) => {
                let times = self.step_ups;
                if times >= MAX_STEP_UPS {
                    return Err(OAuthError::Scope { scope: scope.clone(), times });
                }
                self.step_ups += 1;
            }
            None => {
                if self.refused_tokens >= MAX_REFUSED_TOKENS {
                    return Err(OAuthError::TokenRefused);
                }
                self.refused_tokens += 1;
            }
        }
        Ok(())
    }
}

/// The authorization that a server requires for a request, from a response with status 401 or 403.
struct Challenge {
    /// The value of the `WWW-Authenticate` header.
    header: String,
    /// The scopes that the token lacks, after status 403. `None` after status 401, which means that there is no valid
    /// token.
    scope: Option<String>,
}

impl Challenge {
    /// Searches an error and its causes for a response with status 401, or 403 for missing scopes. Returns `None` if
    /// there is no such response. `server` is the URL of the MCP server.
    fn find(error: &(dyn Error + 'static), server: &Url) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(challenge) = Self::of(error, server) {
                return Some(challenge);
            }
            next = error.source();
        }
        None
    }

    /// Returns the required authorization if `error` is a response with status 401, or 403 for missing scopes. Ignores
    /// the causes of `error`. `server` is the URL of the MCP server.
    fn of(error: &(dyn Error + 'static), server: &Url) -> Option<Self> {
        if let Some(required) = error.downcast_ref::<AuthRequiredError>() {
            return Some(Self { header: required.www_authenticate_header.clone(), scope: None });
        }
        if let Some(insufficient) = error.downcast_ref::<InsufficientScopeError>() {
            let header = insufficient.www_authenticate_header.clone();
            let parameters = WWWAuthenticateParams::parse(&header, server);
            // A 403 with another error code is a refusal that no scope would change (RFC 6750, section 3.1).
            let scope = parameters.is_insufficient_scope().then_some(parameters.scope)?;
            return Some(Self { header, scope: Some(scope.unwrap_or_default()) });
        }
        // A 401 without a `WWW-Authenticate` header, which RFC 9110 requires. The SDK reports it only as text.
        match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::UnexpectedServerResponse(text))
                if text.starts_with("HTTP 401") =>
            {
                Some(Self { header: "Bearer".to_owned(), scope: None })
            }
            _ => None,
        }
    }
}
