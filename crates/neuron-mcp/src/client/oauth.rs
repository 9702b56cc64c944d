//! Authorization by OAuth 2.1 after a server has refused a request.
//!
//! The SDK knows the protocol; here is when it is used. The transport [sends](OAuth::send) its requests with
//! the token, and a token that has expired is renewed. What takes a person comes out of that as an error, and
//! whoever sent the request gives it to an [`Attempt`], which obtains a new token and says whether to try again.

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

/// Maximum number of newly issued tokens of one request that the server may refuse.
const MAX_REFUSED_TOKENS: u32 = 1;

/// The authorization of one client at one server, over all of its connections.
pub(crate) struct OAuth {
    flow: Flow,
    /// Has the token. Replaced as a whole by an authorization, so that requests go on with the old one while a
    /// person decides.
    manager: Arc<Mutex<AuthorizationManager>>,
    /// Number of authorizations. A request sees by it that its token was replaced since it was sent.
    generation: AtomicU64,
    /// Held by the request that is being authorized, so that a person sees one question at a time.
    authorizing: Mutex<()>,
}

impl OAuth {
    /// Starts with the stored credentials of earlier authorizations. `builder` makes clients with the
    /// transport's TLS.
    ///
    /// # Errors
    ///
    /// The URL is not one, or what was kept cannot be used because the authorization server cannot be found.
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

    /// To be taken before a request is sent for the first time.
    pub(crate) fn attempt(&self) -> Attempt<'_> {
        Attempt { oauth: self, seen: self.generation(), refused_tokens: 0, step_ups: 0 }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// A request with the number of its authorizations.
pub(crate) struct Attempt<'a> {
    oauth: &'a OAuth,
    /// The generation of the token that the request carried.
    seen: u64,
    refused_tokens: u32,
    step_ups: u32,
}

impl Attempt<'_> {
    /// Obtains the authorization that the server requires in `error`. Returns `true` if the request may be sent
    /// again, and `false` for any other error.
    ///
    /// # Errors
    ///
    /// No token was obtained, or the server is not content with it.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the authorization does not come about, and nothing is changed.
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
        // Else another request was authorized while this one was on its way, or waited.
        self.seen = self.oauth.generation();
        Ok(true)
    }

    fn count(&mut self, challenge: &Challenge) -> Result<(), OAuthError> {
        match &challenge.scope {
            Some(scope) => {
                let times = self.step_ups;
                if times >= self.oauth.flow.config.max_step_ups {
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

/// The authorization that a server requires for a request.
struct Challenge {
    /// `WWW-Authenticate`.
    header: String,
    /// The missing scopes of the token (403). `None` if there is no valid token (401).
    scope: Option<String>,
}

impl Challenge {
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

    fn of(error: &(dyn Error + 'static), server: &Url) -> Option<Self> {
        if let Some(required) = error.downcast_ref::<AuthRequiredError>() {
            return Some(Self { header: required.www_authenticate_header.clone(), scope: None });
        }
        if let Some(insufficient) = error.downcast_ref::<InsufficientScopeError>() {
            let header = insufficient.www_authenticate_header.clone();
            let parameters = WWWAuthenticateParams::parse(&header, server);
            // Any other 403 is a refusal that no scope would change (RFC 6750, section 3.1).
            let scope = parameters.is_insufficient_scope().then_some(parameters.scope)?;
            return Some(Self { header, scope: Some(scope.unwrap_or_default()) });
        }
        // A 401 without the header that RFC 9110 wants. The SDK has it as text only.
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
