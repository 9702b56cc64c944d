//! Authentication of HTTP requests.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri};

/// The head of an HTTP request, before its body is read.
#[derive(Clone, Debug)]
pub struct HttpRequestHead {
    /// Method of the request.
    pub method: Method,
    /// Target of the request.
    pub uri: Uri,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Address of the client or proxy. A service in another server has it only if that server adds a [`SocketAddr`] to
    /// the request's extensions.
    pub peer_addr: Option<SocketAddr>,
}

/// The authenticated identity of a caller.
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
    subject: Arc<str>,
    /// The `Debug` output does not show these values.
    values: Extensions,
}

impl HttpIdentity {
    /// Creates an identity. `subject` must be stable between requests: use a user id, not a token.
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>) -> Self {
        Self { subject: subject.into(), values: Extensions::new() }
    }

    /// Adds a value that tools find in the request's extensions, such as the claims of a token. One value of each type
    /// is kept.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(value);
        self
    }

    /// Returns the subject. Requests with equal subjects come from the same caller.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub(super) fn shared_subject(&self) -> Arc<str> {
        self.subject.clone()
    }

    /// Returns the added value of this type.
    #[must_use]
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get()
    }

    /// Stores the identity and its values in the request's extensions, for tools.
    pub(super) fn enter(self, extensions: &mut Extensions) {
        extensions.extend(self.values.clone());
        extensions.insert(self);
    }
}

/// The reason for rejecting a request.
///
/// The client receives the status and a `WWW-Authenticate` header. The header can contain the URL of the
/// protected resource metadata and the missing scope. This follows the MCP specification, "Authorization" (since
/// 2025-06-18), RFC 6750 and RFC 9728.
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
    status: StatusCode,
    /// Parameters of the challenge.
    parameters: Vec<(&'static str, String)>,
}

impl HttpRefusal {
    /// Creates a refusal with status 401, for missing, wrong or expired credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self { status: StatusCode::UNAUTHORIZED, parameters: Vec::new() }
    }

    /// Creates a refusal with status 403, for valid credentials without sufficient permissions.
    #[must_use]
    pub fn forbidden() -> Self {
        Self { status: StatusCode::FORBIDDEN, parameters: Vec::new() }
    }

    /// Creates a refusal with status 503, for credentials that cannot be checked now because a required service is
    /// unreachable.
    #[must_use]
    pub fn unavailable() -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, parameters: Vec::new() }
    }

    /// Creates a refusal with status 400, for malformed credentials (RFC 6750, 3.1).
    pub(super) fn malformed() -> Self {
        Self { status: StatusCode::BAD_REQUEST, parameters: Vec::new() }.error("invalid_request")
    }

    /// Sets the URL of the protected resource metadata, in which a client finds the authorization server.
    #[must_use]
    pub fn resource_metadata(self, url: impl Into<String>) -> Self {
        self.parameter("resource_metadata", url.into())
    }

    /// Sets the required scopes, separated by spaces.
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

    fn parameter(mut self, name: &'static str, value: String) -> Self {
        self.parameters.retain(|(known, _)| *known != name);
        self.parameters.push((name, value));
        self
    }

    /// Sets a parameter unless it is set already.
    pub(super) fn or_parameter(self, name: &'static str, value: String) -> Self {
        match self.parameters.iter().any(|(known, _)| *known == name) {
            true => self,
            false => self.parameter(name, value),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the value of `WWW-Authenticate`. A 401 must have one (RFC 9110, 15.5.2). A 403 has one if there are
    /// parameters.
    pub(super) fn challenge(&self) -> Option<HeaderValue> {
        if self.parameters.is_empty() && self.status != StatusCode::UNAUTHORIZED {
            return None;
        }
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", quoted(value)))
            .collect();
        let challenge = format!("Bearer {}", parameters.join(", "));
        HeaderValue::from_str(challenge.trim_end()).ok()
    }
}

/// Returns the value for a quoted string. Characters that are not allowed there are removed.
fn quoted(value: &str) -> String {
    value
        .chars()
        .filter(|c| matches!(c, ' '..='~'))
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect()
}

type Asked = BoxFuture<'static, Result<HttpIdentity, HttpRefusal>>;

/// The user's authentication function.
#[derive(Clone)]
pub(super) struct Authenticate(Arc<dyn Fn(HttpRequestHead) -> Asked + Send + Sync>);

impl fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticate")
    }
}

impl Authenticate {
    pub(super) fn new<F, Fut>(hook: F) -> Self
    where
        F: Fn(HttpRequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HttpIdentity, HttpRefusal>> + Send + 'static,
    {
        Self(Arc::new(move |head| Box::pin(hook(head))))
    }

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
    fn a_refusal_says_what_a_client_needs() {
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
    fn no_text_breaks_out_of_the_header() {
        check(
            HttpRefusal::unauthorized().description("a \"b\" \\ c\r\nSet-Cookie: x=ü"),
            Some(r#"Bearer error_description="a \"b\" \\ cSet-Cookie: x=""#),
        );
    }
}
