//! The server as an OAuth 2.1 protected resource, with its metadata and the validation of access tokens.
//!
//! Follows the MCP specification, "Authorization" (2025-06-18 and later), RFC 6750, RFC 8707 and RFC 9728. Signatures
//! and revocation are checked by the user's [`TokenVerifier`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::authenticate::{HttpIdentity, HttpRefusal};
use super::bearer::bearer;
use super::names::{Host, parse_origin};

/// Path of the metadata, before the path of the resource (RFC 9728, 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Tolerance for an expired token, because clocks differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// An OAuth 2.1 protected resource, for [`HttpServerConfig::authorize`](crate::HttpServerConfig::authorize).
///
/// Clients find the authorization servers by the metadata of the resource (RFC 9728), which the server answers at
/// `/.well-known/oauth-protected-resource` and at the same path with the path of the resource behind it. Every other
/// request needs `Authorization: Bearer <token>`. A token in the query is ignored. For each request:
///
/// 1. The [`TokenVerifier`] verifies the token and returns its claims.
/// 2. The audience must contain the URI of the resource. Differences in the case of scheme and host, in the default
///    port and in a slash at the end are ignored.
/// 3. The token must not have expired. Because clocks differ, 30 seconds are added.
/// 4. The token must have all [required scopes](Self::required_scopes).
///
/// The response to a refused request is 401, or 403 for missing scopes, with a challenge by which the client obtains
/// another token. Tools find [`HttpIdentity`] and [`TokenClaims`] by
/// [`McpPeer::extension`](crate::McpPeer::extension). They never see the token. A stream
/// on which a client only listens ends when its token expires.
///
/// Metadata is not secret. Browsers may read it for the
/// [allowed origins](crate::HttpServerConfig::allowed_origins). Behind a proxy, forward both paths of the metadata
/// too, and in a router of your own route them to the [service](crate::McpServer::http_service).
///
/// # Example: tokens of an authorization server
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
///         // Of a library for JWT or a request for introspection.
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
    uri: String,
    authorization_servers: Vec<String>,
    scopes: Vec<String>,
    required_scopes: Vec<String>,
    name: Option<String>,
}

/// The claims of an access token that a [`TokenVerifier`] has verified.
#[derive(Clone, Debug)]
pub struct TokenClaims {
    /// The caller's identity. Sessions belong to it, so the subject must be unique. With several authorization servers,
    /// combine the claims `iss` and `sub`.
    pub identity: HttpIdentity,
    /// Audience of the token (`aud`).
    pub audience: Vec<String>,
    /// Expiry of the token (`exp`), in seconds since 1970-01-01 UTC.
    pub expires_at: u64,
    /// Granted scopes, one in each string. The claim `scope` separates them by spaces.
    pub scopes: Vec<String>,
}

impl TokenClaims {
    /// Returns how long the token is still accepted.
    pub(super) fn lifetime(&self) -> Duration {
        // A clock before 1970 is wrong, so every token counts as expired.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
        lifetime(self.expires_at, now)
    }
}

/// Verifies access tokens. Functions such as `async |token: String| …` are verifiers.
///
/// An implementation checks the signature and the issuer of a token, or asks the authorization server (RFC 7662). The
/// server checks audience, expiry and scopes itself, see [`ProtectedResource`].
pub trait TokenVerifier: Send + Sync {
    /// Verifies a token. Called once for each request, before the body is read. The token consists of the characters
    /// of RFC 6750, 2.1, and is not empty.
    ///
    /// # Errors
    ///
    /// Return [`HttpRefusal::unauthorized`] for an invalid token, [`HttpRefusal::forbidden`] for missing scopes, and
    /// [`HttpRefusal::unavailable`] if the token cannot be checked now. The server completes the challenges of the
    /// first two.
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
    /// Creates a resource with its public URI and the issuers whose tokens it accepts. The URI is never taken from a
    /// request, also behind a proxy.
    ///
    /// The URI and the issuers are `http` or `https` URLs without query and fragment, and at least one issuer is
    /// required. Otherwise [`McpServer::bind_http`](crate::McpServer::bind_http) and
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

    /// Sets the scopes that clients request at first (`scopes_supported`), besides the required scopes. Defaults to
    /// none.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = strings(scopes);
        self
    }

    /// Sets the scopes that every token must have. Defaults to none.
    pub fn required_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.required_scopes = strings(scopes);
        self
    }

    /// Sets the display name for the authorization page (`resource_name`). Defaults to none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Returns an error that names the invalid setting.
    pub(super) fn validate(&self) -> Result<(), String> {
        for uri in self.authorization_servers.iter().chain([&self.uri]) {
            let is_http = |(origin, _): (Origin, _)| matches!(&*origin.0, "http" | "https");
            let has_other = |byte: u8| !byte.is_ascii_graphic() || b"?#\"\\".contains(&byte);
            if !parse(uri).is_some_and(is_http) || uri.bytes().any(has_other) {
                return Err(format!(
                    "`{uri}` is no URL of a resource or an authorization server: name it as \
                     `https://example.com/path`, without query and fragment"
                ));
            }
        }
        match self.authorization_servers.is_empty() {
            true => Err(format!("the resource {} has no authorization server: name it", self.uri)),
            false => Ok(()),
        }
    }

    /// Returns `true` if the path is one of the two paths of the metadata.
    pub(super) fn has_metadata_at(&self, path: &str) -> bool {
        let path = path.strip_suffix('/').unwrap_or(path);
        path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest == self.parts().1)
    }

    /// Returns the metadata as JSON.
    pub(super) fn metadata(&self) -> String {
        let mut json = json!({
            "resource": self.uri,
            "authorization_servers": self.authorization_servers,
            "bearer_methods_supported": ["header"],
        });
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

    /// Accepts a request with a valid token for this resource that has the required scopes.
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

    async fn check_token(
        &self,
        token: &[u8],
        verifier: &impl TokenVerifier,
    ) -> Result<HttpIdentity, HttpRefusal> {
        let invalid = |text: &str| HttpRefusal::unauthorized().description(text);
        let token = well_formed(token).ok_or_else(|| invalid("the token is malformed"))?;
        let claims = verifier.verify(token).await?;
        let own = parse(&self.uri);
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

    /// Adds the metadata URL and the scopes to a refusal, from which a client can obtain a valid token.
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

    /// Splits the URI after the host and port. The path has no trailing slash.
    fn parts(&self) -> (&str, &str) {
        let path = parse(&self.uri).map_or("", |(_, path)| path);
        let uri = self.uri.strip_suffix('/').unwrap_or(&self.uri);
        (uri.strip_suffix(path).unwrap_or(uri), path)
    }
}

/// Adds an error code to the refusal of a token.
fn with_error(refusal: HttpRefusal) -> HttpRefusal {
    match refusal.status() {
        StatusCode::UNAUTHORIZED => refusal.or_parameter("error", "invalid_token".to_owned()),
        StatusCode::FORBIDDEN => refusal.or_parameter("error", "insufficient_scope".to_owned()),
        _ => refusal,
    }
}

/// Scheme, host and port.
type Origin = (String, Host, u16);

/// Parses the URI of a resource so that it can be compared. Dots and percent signs in the path have no meaning here.
fn parse(uri: &str) -> Option<(Origin, &str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len()))?;
    let origin = parse_origin(&format!("{scheme}://{authority}"))?;
    Some((origin, path.strip_suffix('/').unwrap_or(path)))
}

/// Returns the token if it has the syntax of RFC 6750, 2.1. There may be several spaces before it.
fn well_formed(token: &[u8]) -> Option<&str> {
    let token = str::from_utf8(token).ok()?.trim_start_matches(' ');
    let body = token.trim_end_matches('=');
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    (!body.is_empty() && body.bytes().all(is_of_token)).then_some(token)
}

/// Returns the time from `now`, since 1970, until a token is not accepted any more.
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
    fn a_token_expires_when_the_leeway_is_over() {
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
