//! [`ProtectedResource`], which makes the server an OAuth 2.1 protected resource. It publishes metadata and validates
//! access tokens.
//!
//! Follows the MCP specification, "Authorization" (2025-06-18 and later), RFC 6750, RFC 8707 and RFC 9728. The user's
//! [`TokenVerifier`] checks signatures and revocation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::authenticate::{HttpIdentity, HttpRefusal};
use super::bearer::bearer;
use super::names::{Host, parse_origin};

/// Path of the resource's metadata. A client may append the path of the resource (RFC 9728, 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Time for which an expired token is still accepted, because clocks differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// Settings of a server that accepts only requests with an OAuth 2.1 access token, for
/// [`HttpServerConfig::authorize`](crate::HttpServerConfig::authorize).
///
/// # Metadata
///
/// The server publishes metadata (RFC 9728), from which clients learn the authorization servers. The metadata has two
/// paths. For the resource `https://tools.example.com/mcp` these are `/.well-known/oauth-protected-resource` and
/// `/.well-known/oauth-protected-resource/mcp`. The second path ends with the path of the resource.
///
/// Requests for the metadata require no token. Web pages of the [allowed
/// origins](crate::HttpServerConfig::allowed_origins) can read the metadata.
///
/// A proxy in front of the server must forward both paths. In a router of your own, route both paths to the
/// [service](crate::McpServer::http_service).
///
/// # Tokens
///
/// Every request except requests for the metadata must have the header `Authorization: Bearer <token>`. Tokens in the
/// query string are ignored. The server checks each request in these steps:
///
/// 1. The [`TokenVerifier`] verifies the token and returns its claims.
/// 2. The audience of the token must contain the URI of the resource. The comparison ignores the case of scheme and
///    host, an explicit default port, and a slash at the end.
/// 3. The token must not have expired. An expired token is accepted for another 30 seconds, because clocks differ.
/// 4. The token must have all [required scopes](Self::required_scopes).
///
/// The status of a refusal is one of the following. Except for status 503, the header `WWW-Authenticate` contains the
/// URL of the metadata, so that the client can obtain a valid token.
///
/// - 401 if the token is missing, invalid or expired.
/// - 403 if the token lacks a required scope.
/// - 400 if the request has several `Authorization` headers.
/// - 503 if the [`TokenVerifier`] cannot check the token now.
///
/// Tools can get the [`HttpIdentity`] and the [`TokenClaims`] from [`McpPeer::extension`](crate::McpPeer::extension),
/// but not the token. A client's listening stream for notifications ends when the client's token expires.
///
/// # Example: validate tokens of an authorization server
///
/// ```
/// use neuron_mcp::{
///     HttpIdentity, HttpRefusal, HttpServerConfig, McpServer, ProtectedResource, TokenClaims,
/// };
/// use neuron_tool::ToolRegistry;
///
/// # #[derive(serde::Deserialize)]
/// # struct Claims { sub: String, aud: Vec<String>, exp: u64, scope: String }
/// # async fn verify_jwt(token: &str) -> Result<Claims, serde_json::Error> { serde_json::from_str(token) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let resource =
///     ProtectedResource::new("https://tools.example.com/mcp", ["https://login.example.com"])
///         .name("Example tools")
///         .required_scopes(["tools"]);
/// let config = HttpServerConfig::new("127.0.0.1:0".parse()?)
///     .allowed_hosts(["tools.example.com"])
///     .authorize(resource, async |token: String| {
///         // Uses a JWT library, or sends an introspection request to the authorization server.
///         let claims = verify_jwt(&token).await.map_err(|_| HttpRefusal::unauthorized())?;
///         Ok(TokenClaims {
///             identity: HttpIdentity::new(claims.sub),
///             audience: claims.aud,
///             expires_at: claims.exp,
///             scopes: claims.scope.split(' ').map(str::to_owned).collect(),
///         })
///     });
/// let listening = McpServer::new(ToolRegistry::new()).bind_http(config).await?;
/// # let _ = listening;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ProtectedResource {
    /// Public URI of the resource.
    uri: String,
    /// Issuers whose tokens are accepted.
    authorization_servers: Vec<String>,
    /// Scopes that clients should request in addition to `required_scopes`.
    scopes: Vec<String>,
    /// Scopes that every token must have.
    required_scopes: Vec<String>,
    /// Display name of the resource.
    name: Option<String>,
}

/// The claims of an access token that a [`TokenVerifier`] has verified.
#[derive(Clone, Debug)]
pub struct TokenClaims {
    /// Identity of the caller. Its subject must be unique, because a session belongs to a subject. With several
    /// authorization servers, combine the claims `iss` and `sub` into the subject.
    pub identity: HttpIdentity,
    /// Resources for which the token was issued (claim `aud`).
    pub audience: Vec<String>,
    /// Time when the token expires (claim `exp`), in seconds since 1970-01-01 UTC.
    pub expires_at: u64,
    /// Granted scopes, one per string. The claim `scope` contains all scopes in one string, separated by spaces.
    pub scopes: Vec<String>,
}

impl TokenClaims {
    /// Returns how long the token is still accepted, including the 30 seconds after its expiry. Returns zero if the
    /// token is no longer accepted.
    pub(super) fn lifetime(&self) -> Duration {
        // A system clock before 1970 is wrong. Every token then counts as expired.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
        lifetime(self.expires_at, now)
    }
}

/// Verifies access tokens. Implemented for async functions such as `async |token: String| …`.
///
/// An implementation checks the signature and the issuer of a token, or asks the authorization server (RFC 7662). The
/// server itself then checks audience, expiry and scopes (see [`ProtectedResource`]).
pub trait TokenVerifier: Send + Sync {
    /// Verifies a token and returns its claims. Called once for each request, before the request's body is read.
    ///
    /// The token is not empty and consists only of the characters that RFC 6750, 2.1 allows.
    ///
    /// # Errors
    ///
    /// - Return [`HttpRefusal::unauthorized`] for an invalid token.
    /// - Return [`HttpRefusal::forbidden`] for missing scopes.
    /// - Return [`HttpRefusal::unavailable`] if the token cannot be checked now.
    ///
    /// The server adds the URL of the metadata, the required scopes and an error code to a refusal with status 401 or
    /// 403. It does not replace values that the refusal already has.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the client disconnects.
    fn verify(&self, token: &str) -> impl Future<Output = Result<TokenClaims, HttpRefusal>> + Send;
}

impl<F, Fut> TokenVerifier for F
where
    F: Fn(String) -> Fut + Send + Sync,
    Fut: Future<Output = Result<TokenClaims, HttpRefusal>> + Send,
{
    async fn verify(&self, token: &str) -> Result<TokenClaims, HttpRefusal> {
        self(token.to_owned()).await
    }
}

impl ProtectedResource {
    /// Creates a resource with its public URI, and with the issuers (authorization servers) of its tokens.
    ///
    /// Clients use the public URI. Behind a proxy, it is the URI of the proxy. The server never takes the URI from a
    /// request.
    ///
    /// The URI and the issuers must be `http` or `https` URLs without query and fragment. At least one issuer is
    /// required. If one of these conditions is not met, [`McpServer::bind_http`](crate::McpServer::bind_http) and
    /// [`McpServer::http_service`](crate::McpServer::http_service) return an error.
    pub fn new(
        uri: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            uri: uri.into(),
            authorization_servers: strings(authorization_servers),
            scopes: Vec::new(),
            required_scopes: Vec::new(),
            name: None,
        }
    }

    /// Sets optional scopes, which clients should request in addition to the required scopes. Defaults to none.
    ///
    /// The metadata lists these scopes and the required scopes in `scopes_supported`.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = strings(scopes);
        self
    }

    /// Sets the scopes that every token must have. A request with a token that lacks one of these scopes is refused
    /// (403). Defaults to none.
    pub fn required_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.required_scopes = strings(scopes);
        self
    }

    /// Sets the display name of the resource (`resource_name` in the metadata). A client can show it when the user
    /// authorizes the access. Defaults to none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Checks the URI and the issuers.
    ///
    /// # Errors
    ///
    /// Returns an error text if a URL is invalid or there is no issuer.
    pub(super) fn validate(&self) -> Result<(), String> {
        for uri in self.authorization_servers.iter().chain([&self.uri]) {
            let is_http = |(origin, _): (Origin, _)| matches!(&*origin.0, "http" | "https");
            // No query, no fragment, and no character that would end the quoted URL in a `WWW-Authenticate` header.
            let has_other = |byte: u8| !byte.is_ascii_graphic() || b"?#\"\\".contains(&byte);
            if !parse(uri).is_some_and(is_http) || uri.bytes().any(has_other) {
                return Err(format!(
                    "`{uri}` is not a valid URL of a resource or an authorization server: use the \
                     form `https://example.com/path`, without query and fragment"
                ));
            }
        }
        match self.authorization_servers.is_empty() {
            true => Err(format!("the resource {} has no authorization server: set one", self.uri)),
            false => Ok(()),
        }
    }

    /// Returns `true` if the resource's metadata is available at this path. A slash at the end of the path is ignored.
    pub(super) fn has_metadata_at(&self, path: &str) -> bool {
        let path = path.strip_suffix('/').unwrap_or(path);
        path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest == self.parts().1)
    }

    /// Returns the metadata of the resource as JSON (RFC 9728, 2).
    pub(super) fn metadata(&self) -> String {
        let mut json = json!({
            "resource": self.uri,
            "authorization_servers": self.authorization_servers,
            "bearer_methods_supported": ["header"],
        });
        // A scope that is both required and optional appears once.
        let others = self.scopes.iter().filter(|scope| !self.required_scopes.contains(scope));
        let scopes: Vec<&String> = self.required_scopes.iter().chain(others).collect();
        if !scopes.is_empty() {
            json["scopes_supported"] = json!(scopes);
        }
        if let Some(name) = &self.name {
            json["resource_name"] = json!(name);
        }
        json.to_string()
    }

    /// Authenticates a request by its access token.
    ///
    /// # Errors
    ///
    /// Returns a refusal in these cases:
    ///
    /// - The token is missing, invalid or expired.
    /// - The token was issued for another resource.
    /// - The token lacks a required scope.
    pub(super) async fn check(
        &self,
        headers: &HeaderMap,
        verifier: &impl TokenVerifier,
    ) -> Result<HttpIdentity, HttpRefusal> {
        let checked = match bearer(headers) {
            // A request without a token gets no error code (RFC 6750, 3.1).
            Ok(None) => Err(HttpRefusal::unauthorized()),
            Ok(Some(token)) => self.check_token(token, verifier).await.map_err(with_error),
            Err(malformed) => Err(malformed),
        };
        checked.map_err(|refusal| self.with_way_out(refusal))
    }

    /// Checks a token, and returns the caller's identity. The identity contains the token's claims as a value. Returns
    /// a refusal if the token is not accepted.
    async fn check_token(
        &self,
        token: &[u8],
        verifier: &impl TokenVerifier,
    ) -> Result<HttpIdentity, HttpRefusal> {
        let invalid = |text: &str| HttpRefusal::unauthorized().description(text);
        let token = well_formed(token).ok_or_else(|| invalid("the token is malformed"))?;
        let claims = verifier.verify(token).await?;
        let own = parse(&self.uri);
        // An invalid own URI would be equal to an invalid audience, because both are parsed as `None`.
        if own.is_none() || !claims.audience.iter().any(|audience| parse(audience) == own) {
            return Err(invalid("the token is for another resource"));
        }
        if claims.lifetime().is_zero() {
            return Err(invalid("the token has expired"));
        }
        if !self.required_scopes.iter().all(|scope| claims.scopes.contains(scope)) {
            return Err(HttpRefusal::forbidden());
        }
        Ok(claims.identity.clone().with(claims))
    }

    /// Adds the URL of the metadata and the required scopes to a refusal, so that the client can obtain a valid token.
    /// A refusal with status 503 stays unchanged, because another token would not help.
    fn with_way_out(&self, refusal: HttpRefusal) -> HttpRefusal {
        if refusal.status() == StatusCode::SERVICE_UNAVAILABLE {
            return refusal;
        }
        let (address, path) = self.parts();
        let refusal =
            refusal.or_parameter("resource_metadata", format!("{address}{WELL_KNOWN}{path}"));
        match self.required_scopes.is_empty() {
            true => refusal,
            false => refusal.or_parameter("scope", self.required_scopes.join(" ")),
        }
    }

    /// Splits the resource's URI after the port. The first part is scheme, host and port. The second part is the path
    /// without a slash at its end.
    fn parts(&self) -> (&str, &str) {
        let path = parse(&self.uri).map_or("", |(_, path)| path);
        let uri = self.uri.strip_suffix('/').unwrap_or(&self.uri);
        (uri.strip_suffix(path).unwrap_or(uri), path)
    }
}

/// Adds the OAuth error code to the refusal of a token, unless the refusal has one.
fn with_error(refusal: HttpRefusal) -> HttpRefusal {
    match refusal.status() {
        StatusCode::UNAUTHORIZED => refusal.or_parameter("error", "invalid_token".to_owned()),
        StatusCode::FORBIDDEN => refusal.or_parameter("error", "insufficient_scope".to_owned()),
        _ => refusal,
    }
}

/// Scheme, host and port of a URI.
type Origin = (String, Host, u16);

/// Parses the URI of a resource into its origin and its path, for comparison. Returns `None` if the URI has no valid
/// host.
///
/// A slash at the end of the path is removed. Otherwise the path is unchanged, with `..` and percent-encoding.
fn parse(uri: &str) -> Option<(Origin, &str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len()))?;
    let origin = parse_origin(&format!("{scheme}://{authority}"))?;
    Some((origin, path.strip_suffix('/').unwrap_or(path)))
}

/// Returns a token as text, without leading spaces. Returns `None` if the syntax of the token is invalid (RFC 6750,
/// 2.1).
fn well_formed(token: &[u8]) -> Option<&str> {
    let token = str::from_utf8(token).ok()?.trim_start_matches(' ');
    let body = token.trim_end_matches('=');
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    (!body.is_empty() && body.bytes().all(is_of_token)).then_some(token)
}

/// Returns how long a token is still accepted, which includes [`LEEWAY`]. `expires_at` (in seconds) and `now` are times
/// since 1970-01-01 UTC.
fn lifetime(expires_at: u64, now: Duration) -> Duration {
    Duration::from_secs(expires_at).saturating_add(LEEWAY).saturating_sub(now)
}

fn strings(texts: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    texts.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_accepted_until_the_leeway_is_over() {
        let left = |expires_at, now| lifetime(expires_at, Duration::from_secs(now)).as_secs();
        assert_eq!(left(1000, 999), 31);
        assert_eq!(left(1000, 1000), 30);
        assert_eq!(left(1000, 1029), 1);
        assert_eq!(left(1000, 1030), 0);
        assert_eq!(left(1000, 1031), 0);
        assert_eq!(left(0, 1_000_000), 0);
        assert_eq!(lifetime(1000, Duration::MAX), Duration::ZERO);
        assert!(left(u64::MAX, 1_000_000) > 1_000_000_000_000);
    }
}
