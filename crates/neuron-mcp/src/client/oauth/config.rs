//! Configuration of a client's OAuth authorization.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::redirect::{ErasedRedirect, OAuthRedirect};
use super::storage::{ErasedStorage, MemoryOAuthStorage, OAuthStorage};

/// Configuration of a client's OAuth 2.1 authorization at a server (MCP specification 2025-11-25 and 2026-07-28,
/// "Authorization").
///
/// The client needs no data about the server in advance. When the server rejects a request, the client discovers the
/// authorization server and identifies itself there. The client then sends the user to the authorization page, and
/// repeats the request. The same happens when the server later requires more scopes or rejects a revoked token. Tokens
/// are renewed without the user if the authorization server allows it.
///
/// The client identifies itself in the first of these ways that is possible:
///
/// 1. with the id of [`with_client`](Self::with_client), for a client that was registered manually,
/// 2. with the document of [`with_client_metadata_url`](Self::with_client_metadata_url),
/// 3. with the stored registration of an earlier authorization,
/// 4. by registering itself (RFC 7591).
///
/// A token renewal continues even if the request that started it is cancelled or times out. The authorization server
/// may already have replaced the old token.
///
/// # Logs
///
/// At level `DEBUG`, the SDK (target `rmcp`) logs the authorization code. The code is valid once, and useless without a
/// secret that is not logged (PKCE). The SDK also logs other parts of the authorization server's responses, such as an
/// OpenID Connect `id_token`, but no access or refresh tokens. If logs are stored or shared, limit the SDK to `INFO`,
/// with the filter `debug,rmcp=info` of `tracing_subscriber`'s `EnvFilter`.
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
    pub(super) requires_pkce: bool,
    pub(super) timeout: Duration,
}

/// The OAuth grant, which determines who authorizes the client.
#[derive(Clone)]
pub(super) enum Grant {
    /// The user authorizes the client on the authorization page.
    AuthorizationCode(Arc<dyn ErasedRedirect>),
    /// The client authorizes itself with its id and secret.
    ClientCredentials,
}

/// A client that was registered manually at an authorization server.
#[derive(Clone)]
pub(super) struct KnownClient {
    /// The id at the authorization server.
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// Issuer URL of the only authorization server that may receive the id and the secret. `None` if any authorization
    /// server that the MCP server names may receive them.
    pub(super) issuer: Option<String>,
}

/// The type of a client's application (OpenID Connect Dynamic Client Registration 1.0).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthApplicationType {
    /// The application runs on the user's device. Its redirect URI is a loopback address or has a private scheme.
    #[default]
    Native,
    /// The application runs on a web server. Its redirect URI is an `https` URL.
    Web,
}

impl OAuthApplicationType {
    /// Returns the value of `application_type` in a registration.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Web => "web",
        }
    }
}

impl OAuthConfig {
    /// Creates a configuration in which the user authorizes the client on a page that `redirect` opens.
    pub fn new(redirect: impl OAuthRedirect + 'static) -> Self {
        Self::with_grant(Grant::AuthorizationCode(Arc::new(redirect)))
    }

    /// Creates a configuration for a client that authorizes itself with an id and a secret, without a user (MCP
    /// extension for client credentials, SEP-1046). A signed assertion in place of a secret is not supported.
    ///
    /// Only the authorization server with the issuer URL `issuer` receives the secret, because the MCP server could name
    /// any authorization server.
    pub fn client_credentials(
        client_id: impl Into<String>,
        secret: impl Into<String>,
        issuer: impl Into<String>,
    ) -> Self {
        let config = Self::with_grant(Grant::ClientCredentials).with_client(client_id);
        config.with_client_secret(secret).with_issuer(issuer)
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
            requires_pkce: false,
            timeout: Duration::from_secs(300),
        }
    }

    /// Sets the name of the client on the authorization page, for a client that registers itself. Default:
    /// `neuron-mcp`.
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Sets the id of a client that was registered manually. Removes a secret and an issuer that were set before.
    pub fn with_client(mut self, id: impl Into<String>) -> Self {
        self.client = Some(KnownClient { id: id.into(), secret: None, issuer: None });
        self
    }

    /// Sets the secret of the client that was registered manually. Call [`with_client`](Self::with_client) first,
    /// because the secret is ignored as long as no client is set.
    pub fn with_client_secret(mut self, secret: impl Into<String>) -> Self {
        if let Some(client) = &mut self.client {
            client.secret = Some(secret.into());
        }
        self
    }

    /// Sets the issuer URL of the authorization server where the client was registered manually. No other authorization
    /// server receives the id and the secret. By default the MCP server decides which authorization server receives
    /// them. Call [`with_client`](Self::with_client) first, because the issuer is ignored as long as no client is set.
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        if let Some(client) = &mut self.client {
            client.issuer = Some(issuer.into());
        }
        self
    }

    /// Sets the `https` URL of a document that describes the client (OAuth Client ID Metadata Document). The document
    /// is used if the authorization server supports it.
    pub fn with_client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.client_metadata_url = Some(url.into());
        self
    }

    /// Sets the application type for a client that registers itself. Default: [`Native`](OAuthApplicationType::Native).
    pub fn with_application_type(mut self, application_type: OAuthApplicationType) -> Self {
        self.application_type = application_type;
        self
    }

    /// Sets the scopes to request. Default: the scopes that the server names.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the storage of the credentials. Default: [`MemoryOAuthStorage`].
    pub fn with_storage(mut self, storage: impl OAuthStorage + 'static) -> Self {
        self.storage = Arc::new(storage);
        self
    }

    /// Allows authorization servers in private networks, such as `sso.corp`, and a proxy in a private network.
    ///
    /// By default only a server whose own URL has a private or loopback address may name such an authorization server.
    /// This default prevents that a hostile server makes the client send requests into the client's private network.
    /// Link-local addresses and the metadata services of clouds are never contacted. An authorization server whose URL
    /// contains a private IP address in place of a name is not supported.
    pub fn with_private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Refuses an authorization server whose metadata does not announce PKCE with S256
    /// (`code_challenge_methods_supported`).
    ///
    /// The client always uses PKCE. A server that ignores it accepts an intercepted authorization code. By default only
    /// a server that announces other methods is refused, because many servers support PKCE and do not announce it.
    pub fn with_required_pkce(mut self) -> Self {
        self.requires_pkce = true;
        self
    }

    /// Sets the maximum time that the user may take on the authorization page. Default: 5 minutes. The time does not
    /// count towards the timeout of the request.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Shows neither the client's secret nor the storage.
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
            .field("requires_pkce", &self.requires_pkce)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
