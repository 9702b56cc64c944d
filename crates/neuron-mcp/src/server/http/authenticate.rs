//! Who sends a request, and whether it is let in.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri};

/// What is known of an HTTP request before its body is read.
#[derive(Clone, Debug)]
pub struct HttpRequestHead {
    /// The method.
    pub method: Method,
    /// What is asked for.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// Who is at the other end of the connection: the client or a proxy. In a service within another server
    /// only if that one puts a [`SocketAddr`] into the request's extensions.
    pub peer_addr: Option<SocketAddr>,
}

/// In whose name a request comes.
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
    /// Shown without what is in it.
    values: Extensions,
}

impl HttpIdentity {
    /// An identity, named by what stays the same from request to request: a user's id, and not a token.
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>) -> Self {
        Self { subject: subject.into(), values: Extensions::new() }
    }

    /// Adds something that tools are to find in the request's extensions, such as the claims of a token. One
    /// value of each type.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(value);
        self
    }

    /// Who it is. Two requests come from the same if this is equal.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    pub(super) fn shared_subject(&self) -> Arc<str> {
        self.subject.clone()
    }

    /// What was added of this type.
    #[must_use]
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get()
    }

    /// Puts the identity and what was added to it where tools find it.
    pub(super) fn enter(self, extensions: &mut Extensions) {
        extensions.extend(self.values.clone());
        extensions.insert(self);
    }
}

/// Why a request is not let in.
///
/// The client learns it by the response's status and its `WWW-Authenticate` header: where the metadata of the
/// protected resource is, and which scope is missing (the MCP specification, "Authorization", since 2025-06-18;
/// RFC 6750 and RFC 9728).
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
    /// The parameters of the challenge.
    parameters: Vec<(&'static str, String)>,
}

impl HttpRefusal {
    /// Status 401: there are no credentials, or they are wrong or too old.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self { status: StatusCode::UNAUTHORIZED, parameters: Vec::new() }
    }

    /// Status 403: the credentials are good, and not enough.
    #[must_use]
    pub fn forbidden() -> Self {
        Self { status: StatusCode::FORBIDDEN, parameters: Vec::new() }
    }

    /// Status 503: the credentials cannot be checked now, because a service that is needed for it does not answer.
    #[must_use]
    pub fn unavailable() -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, parameters: Vec::new() }
    }

    /// Status 400: the credentials are not where or how they must be (RFC 6750, 3.1).
    pub(super) fn malformed() -> Self {
        Self { status: StatusCode::BAD_REQUEST, parameters: Vec::new() }.error("invalid_request")
    }

    /// Says where the metadata of the protected resource is, by which a client finds the authorization server.
    #[must_use]
    pub fn resource_metadata(self, url: impl Into<String>) -> Self {
        self.parameter("resource_metadata", url.into())
    }

    /// Says which scopes are needed, with spaces between them.
    #[must_use]
    pub fn scope(self, scope: impl Into<String>) -> Self {
        self.parameter("scope", scope.into())
    }

    /// Says what is wrong, as one of OAuth's codes: `invalid_token`, `insufficient_scope`.
    #[must_use]
    pub fn error(self, code: impl Into<String>) -> Self {
        self.parameter("error", code.into())
    }

    /// Says what is wrong, for the client's developer.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        self.parameter("error_description", text.into())
    }

    fn parameter(mut self, name: &'static str, value: String) -> Self {
        self.parameters.retain(|(known, _)| *known != name);
        self.parameters.push((name, value));
        self
    }

    /// Says something, unless it is said already.
    pub(super) fn or_parameter(self, name: &'static str, value: String) -> Self {
        match self.parameters.iter().any(|(known, _)| *known == name) {
            true => self,
            false => self.parameter(name, value),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The value of `WWW-Authenticate`. A 401 must have one (RFC 9110, 15.5.2); a 403 has one if it has
    /// something to say.
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

/// A value within a quoted string: what such a string cannot hold is left out.
fn quoted(value: &str) -> String {
    value
        .chars()
        .filter(|c| matches!(c, ' '..='~'))
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect()
}

type Asked = BoxFuture<'static, Result<HttpIdentity, HttpRefusal>>;

/// The user's hook.
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
