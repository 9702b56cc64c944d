//! [`HttpIdentity`] and [`HttpRefusal`], the possible results of the authentication of an HTTP request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri};

/// The head of an HTTP request, which is authenticated before the body is read.
#[derive(Clone, Debug)]
pub struct HttpRequestHead {
    /// HTTP method of the request.
    pub method: Method,
    /// Target of the request. Usually contains only the path and the query.
    pub uri: Uri,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Address of the client, or of the last proxy. `None` if another HTTP server hosts the service, and that server
    /// adds no [`SocketAddr`] to the extensions of the request.
    pub peer_addr: Option<SocketAddr>,
}

/// The authenticated identity of a caller, with values for tools.
///
/// ```
/// use neuron_mcp::HttpIdentity;
///
/// #[derive(Clone)]
/// struct Tenant(u32);
///
/// let identity = HttpIdentity::new("alice@example.com").with(Tenant(7));
/// assert_eq!(identity.subject(), "alice@example.com");
/// ```
#[derive(Clone, Debug)]
pub struct HttpIdentity {
    /// Stable id of the caller.
    subject: Arc<str>,
    /// Values for tools, at most one of each type. Their content is not part of the `Debug` output.
    values: Extensions,
}

impl HttpIdentity {
    /// Creates an identity. All requests of a caller must have the same `subject`, so use a user id and not a token.
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>) -> Self {
        Self { subject: subject.into(), values: Extensions::new() }
    }

    /// Adds a value, such as the claims of a token. Tools get the value from
    /// [`McpPeer::extension`](crate::McpPeer::extension). Replaces an earlier value of the same type.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(value);
        self
    }

    /// Returns the subject. Two requests with equal subjects count as requests of the same caller.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the subject without copying the text.
    pub(super) fn shared_subject(&self) -> Arc<str> {
        self.subject.clone()
    }

    /// Returns the added value of this type. Returns `None` if no such value was added.
    #[must_use]
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get()
    }

    /// Stores the identity and its values in the extensions of a request, where
    /// [`McpPeer::extension`](crate::McpPeer::extension) finds them.
    pub(super) fn enter(self, extensions: &mut Extensions) {
        extensions.extend(self.values.clone());
        // Inserted after the values, so that no value can replace the identity.
        extensions.insert(self);
    }
}

/// The refusal of a request, returned by an authentication function or a [`TokenVerifier`](crate::TokenVerifier).
///
/// The client receives the status and a `WWW-Authenticate` header. The header can contain the URL of the protected
/// resource metadata, the required scope and an error code. A refusal without such values has the header only if its
/// status is 401. The format follows the MCP specification, "Authorization" (since 2025-06-18), RFC 6750 and RFC 9728.
///
/// ```
/// use neuron_mcp::HttpRefusal;
///
/// let refusal = HttpRefusal::unauthorized()
///     .resource_metadata("https://tools.example.com/.well-known/oauth-protected-resource")
///     .scope("files:read");
/// # let _ = refusal;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRefusal {
    /// HTTP status of the response.
    status: StatusCode,
    /// Parameters of the `WWW-Authenticate` header by name, each at most once.
    parameters: Vec<(&'static str, String)>,
}

impl HttpRefusal {
    /// Creates a refusal with status 401, for missing, invalid or expired credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self { status: StatusCode::UNAUTHORIZED, parameters: Vec::new() }
    }

    /// Creates a refusal with status 403, for valid credentials without sufficient permissions.
    #[must_use]
    pub fn forbidden() -> Self {
        Self { status: StatusCode::FORBIDDEN, parameters: Vec::new() }
    }

    /// Creates a refusal with status 503, for credentials that cannot be checked because a required service is
    /// unreachable.
    #[must_use]
    pub fn unavailable() -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, parameters: Vec::new() }
    }

    /// Creates a refusal with status 400, for malformed credentials (RFC 6750, 3.1).
    pub(super) fn malformed() -> Self {
        Self { status: StatusCode::BAD_REQUEST, parameters: Vec::new() }.error("invalid_request")
    }

    /// Sets the URL of the protected resource metadata. Clients find the authorization server in this metadata.
    #[must_use]
    pub fn resource_metadata(self, url: impl Into<String>) -> Self {
        self.parameter("resource_metadata", url.into())
    }

    /// Sets the scopes that the request requires, separated by spaces.
    #[must_use]
    pub fn scope(self, scope: impl Into<String>) -> Self {
        self.parameter("scope", scope.into())
    }

    /// Sets the OAuth error code, such as `invalid_token` or `insufficient_scope`.
    #[must_use]
    pub fn error(self, code: impl Into<String>) -> Self {
        self.parameter("error", code.into())
    }

    /// Sets the description of the error, for the client's developer.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        self.parameter("error_description", text.into())
    }

    /// Sets a parameter of the `WWW-Authenticate` header. Replaces a value that was set before.
    fn parameter(mut self, name: &'static str, value: String) -> Self {
        self.parameters.retain(|(known, _)| *known != name);
        self.parameters.push((name, value));
        self
    }

    /// Sets a parameter of the `WWW-Authenticate` header, unless the parameter is already set.
    pub(super) fn or_parameter(self, name: &'static str, value: String) -> Self {
        match self.parameters.iter().any(|(known, _)| *known == name) {
            true => self,
            false => self.parameter(name, value),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the value of the `WWW-Authenticate` header. Returns `None` if the refusal has no parameters and its
    /// status is not 401.
    ///
    /// A response with status 401 must have the header (RFC 9110, 15.5.2).
    pub(super) fn challenge(&self) -> Option<HeaderValue> {
        if self.parameters.is_empty() && self.status != StatusCode::UNAUTHORIZED {
            return None;
        }
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", quoted(value)))
            .collect();
        // Without parameters only the scheme is left, so the space behind it is removed below.
        let challenge = format!("Bearer {}", parameters.join(", "));
        HeaderValue::from_str(challenge.trim_end()).ok()
    }
}

/// Escapes a value for a quoted string in an HTTP header. Characters outside printable ASCII are removed.
fn quoted(value: &str) -> String {
    value
        .chars()
        .filter(|c| matches!(c, ' '..='~'))
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect()
}

/// Future of the user's authentication function.
type Asked = BoxFuture<'static, Result<HttpIdentity, HttpRefusal>>;

/// The user's authentication function, wrapped so that it returns a boxed future.
#[derive(Clone)]
pub(super) struct Authenticate(Arc<dyn Fn(HttpRequestHead) -> Asked + Send + Sync>);

impl fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticate")
    }
}

impl Authenticate {
    /// Wraps the user's authentication function and boxes its future.
    pub(super) fn new<F, Fut>(hook: F) -> Self
    where
        F: Fn(HttpRequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HttpIdentity, HttpRefusal>> + Send + 'static,
    {
        Self(Arc::new(move |head| Box::pin(hook(head))))
    }

    /// Calls the user's function. Returns the identity of the caller, or the refusal of the request.
    pub(super) async fn ask(&self, head: HttpRequestHead) -> Result<HttpIdentity, HttpRefusal> {
        (self.0)(head).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(refusal: HttpRefusal, expected: Option<&str>) {
        let challenge = refusal.challenge();
        assert_eq!(challenge.as_ref().map(|value| value.to_str().unwrap()), expected);
    }

    #[test]
    fn challenge_contains_the_parameters() {
        check(HttpRefusal::unauthorized(), Some("Bearer"));
        check(HttpRefusal::forbidden(), None);
        check(
            HttpRefusal::unauthorized().resource_metadata("https://a.example/x").scope("a b"),
            Some(r#"Bearer resource_metadata="https://a.example/x", scope="a b""#),
        );
        check(
            HttpRefusal::forbidden().error("insufficient_scope").error("other"),
            Some(r#"Bearer error="other""#),
        );
    }

    #[test]
    fn challenge_escapes_quotes_and_drops_control_characters() {
        check(
            HttpRefusal::unauthorized().description("a \"b\" \\ c\r\nSet-Cookie: x=ü"),
            Some(r#"Bearer error_description="a \"b\" \\ cSet-Cookie: x=""#),
        );
    }
}
