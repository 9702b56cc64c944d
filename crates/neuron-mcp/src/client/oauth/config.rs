//! The configuration of a client's authorization.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::redirect::{ErasedRedirect, OAuthRedirect};
use super::storage::{ErasedStorage, MemoryOAuthStorage, OAuthStorage};

/// The configuration of a client's authorization at a server with OAuth 2.1 (MCP specification 2025-11-25 and
/// 2026-07-28, "Authorization").
///
/// Nothing has to be known of the server: when it refuses a request, the client finds out who authorizes for it,
/// makes itself known there, sends the person to the authorization page, and repeats the request. Where the
/// server wants more scopes later, or refuses a token that was revoked, that happens again. Tokens are renewed
/// without the person where the authorization server allows it.
///
/// How the client makes itself known, the first that is possible: as the [client](Self::with_client) it was
/// registered as by hand, by the [document](Self::with_client_metadata_url) that describes it, as what it was
/// registered as before, or by registering now (RFC 7591).
///
/// A renewal that has begun goes on when the request that needed it is cancelled or times out: the authorization
/// server may have replaced the old token already.
///
/// # Logs
///
/// At level `DEBUG` the SDK (target `rmcp`) logs the authorization code. It is good once, and of no use without a
/// secret that is not logged (PKCE). It also logs what the authorization server answers besides the tokens: an
/// OpenID Connect `id_token`, for one. Where logs are kept or shared, keep the SDK at `INFO`: with the filter
/// `debug,rmcp=info` of `tracing_subscriber`'s `EnvFilter`.
#[derive(Clone)]
#[must_use]
pub struct OAuthConfig {
    pub(super) grant: Grant,
    pub(super) client: Option<KnownClient>,
    pub(super) client_name: String,
    pub(super) client_metadata_url: Option<String>,
    pub(super) application_type: OAuthApplicationType,
    pub(super) scopes: Vec<String>,
    pub(super) storage: Arc<dyn ErasedStorage>,
    pub(super) private_addresses: bool,
    pub(super) max_step_ups: u32,
    pub(super) timeout: Duration,
}

/// The grantor of the permission.
#[derive(Clone)]
pub(super) enum Grant {
    /// A person, on the authorization page.
    AuthorizationCode(Arc<dyn ErasedRedirect>),
    /// The client itself, which the authorization server knows.
    ClientCredentials,
}

/// A client that was registered by hand.
#[derive(Clone)]
pub(super) struct KnownClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) issuer: Option<String>,
}

/// The kind of a client's program (OpenID Connect Dynamic Client Registration 1.0).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OAuthApplicationType {
    /// It runs where the person is. The redirect URI is a loopback address or of a scheme of its own.
    #[default]
    Native,
    /// It runs on a server. The redirect URI is `https`.
    Web,
}

impl OAuthApplicationType {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Web => "web",
        }
    }
}

impl OAuthConfig {
    /// A person gives the permission, on a page that `redirect` opens.
    pub fn new(redirect: impl OAuthRedirect + 'static) -> Self {
        Self::with_grant(Grant::AuthorizationCode(Arc::new(redirect)))
    }

    /// Creates a configuration without a person, for a client that the authorization server knows by id and
    /// secret (the MCP extension for client credentials, SEP-1046). A signed assertion instead of a secret is
    /// not supported.
    ///
    /// Say with [`with_issuer`](Self::with_issuer) whom the secret is for.
    pub fn client_credentials(client_id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self::with_grant(Grant::ClientCredentials).with_client(client_id).with_client_secret(secret)
    }

    fn with_grant(grant: Grant) -> Self {
        Self {
            grant,
            client: None,
            client_name: env!("CARGO_PKG_NAME").to_owned(),
            client_metadata_url: None,
            application_type: OAuthApplicationType::default(),
            scopes: Vec::new(),
            storage: Arc::new(MemoryOAuthStorage::new()),
            private_addresses: false,
            max_step_ups: 2,
            timeout: Duration::from_secs(300),
        }
    }

    /// The name that the person reads on the authorization page, if the client registers itself. `neuron-mcp`
    /// by default.
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// The id of a client that was registered by hand.
    pub fn with_client(mut self, id: impl Into<String>) -> Self {
        self.client = Some(KnownClient { id: id.into(), secret: None, issuer: None });
        self
    }

    /// The secret of that client. Without effect before [`with_client`](Self::with_client).
    pub fn with_client_secret(mut self, secret: impl Into<String>) -> Self {
        if let Some(client) = &mut self.client {
            client.secret = Some(secret.into());
        }
        self
    }

    /// The authorization server that knows that client, by its issuer URL. No other gets to see the client's id
    /// and secret, whatever the MCP server says. Without it, the MCP server decides whom they are sent to.
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        if let Some(client) = &mut self.client {
            client.issuer = Some(issuer.into());
        }
        self
    }

    /// The `https` URL of a document that describes the client (OAuth Client ID Metadata Document). It is used
    /// where the authorization server reads such documents.
    pub fn with_client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.client_metadata_url = Some(url.into());
        self
    }

    /// Sets the kind of program for a client that registers itself.
    pub fn with_application_type(mut self, application_type: OAuthApplicationType) -> Self {
        self.application_type = application_type;
        self
    }

    /// The scopes to ask for. By default those that the server names.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the storage of tokens. Default: in memory.
    pub fn with_storage(mut self, storage: impl OAuthStorage + 'static) -> Self {
        self.storage = Arc::new(storage);
        self
    }

    /// Lets a server send us to authorization servers in private networks, such as `sso.corp`, or a proxy there.
    ///
    /// Without it, only a server whose own URL has a private or loopback address may, so that a hostile server
    /// cannot make us ask machines that only we can reach. Addresses of a link and of a cloud's metadata are
    /// never asked. An authorization server that is named by a private address and not by a name is not
    /// supported.
    pub fn with_private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Sets how many times one request may be authorized again because the server requires more scopes.
    /// Default: 2.
    pub fn with_max_step_ups(mut self, times: u32) -> Self {
        self.max_step_ups = times;
        self
    }

    /// Sets the maximum wait for the person. Default: five minutes. It does not count in the time of the
    /// request.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Shows no secret.
impl fmt::Debug for OAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig")
            .field("client", &self.client.as_ref().map(|client| &client.id))
            .field("issuer", &self.client.as_ref().and_then(|client| client.issuer.as_ref()))
            .field("client_name", &self.client_name)
            .field("client_metadata_url", &self.client_metadata_url)
            .field("application_type", &self.application_type)
            .field("scopes", &self.scopes)
            .field("private_addresses", &self.private_addresses)
            .field("max_step_ups", &self.max_step_ups)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
