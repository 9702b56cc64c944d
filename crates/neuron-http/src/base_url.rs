//! The base URL of an API ([`BaseUrl`]).

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use neuron_model::ProviderError;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Bytes that are percent-encoded in a path or a query, because RFC 3986 does not allow them there. `%` is not one of
/// them, because it may begin an escape.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The base URL of an API. `Debug` hides the password and the query, which may contain secrets.
///
/// A user name and a password in the URL are sent as basic authentication. They are not sent if the request already has
/// an `authorization` header.
///
/// The host must be ASCII, so an internationalised domain name must be in its `xn--` form.
///
/// # Example
///
/// ```
/// use neuron_http::BaseUrl;
///
/// let base = BaseUrl::new("https://user:hunter2@proxy.example/v1/");
/// assert_eq!(base.join("v1/messages")?.path(), "/v1/messages");
/// assert_eq!((base.host(), base.port()), ("proxy.example", Some(443)));
/// assert!(!format!("{base:?}").contains("hunter2"));
/// # Ok::<_, neuron_model::ProviderError>(())
/// ```
#[derive(Clone)]
pub struct BaseUrl {
    url: String,
    /// The parts of the URL, or the reason why it is not an HTTP URL.
    parts: Result<Parts, String>,
}

#[derive(Clone)]
struct Parts {
    scheme: Scheme,
    /// The host in lower case and the port, without user name and password.
    authority: Authority,
    /// The path of the URL, without slashes at its end.
    path: String,
    query: Option<String>,
    /// Value of the `authorization` header for the user name and the password. `None` if the URL has no user name.
    authorization: Option<HeaderValue>,
    /// The path of the first call of [`BaseUrl::join`], with its URL. Most clients use only one path. Clones share it,
    /// because a client with a [`KeySource`](crate::KeySource) clones its URL for each call.
    first: Arc<OnceLock<(String, Uri)>>,
}

impl BaseUrl {
    /// Creates a base URL. An invalid URL is not an error here, but an error of [`join`](Self::join).
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let parts = Parts::parse(url.trim());
        Self { url, parts }
    }

    /// Returns the name or address of the host, or an empty text if the URL is not an HTTP URL. An IPv6 address has no
    /// brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.parts.as_ref().map_or("", |parts| parts.authority.host());
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns `true` if the host is `domain` or one of its subdomains, for example `eu.api.example.com` for
    /// `example.com`.
    #[must_use]
    pub fn is_within(&self, domain: &str) -> bool {
        let before = self.host().strip_suffix(domain);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }

    /// Returns the port of the URL, or the default port of its scheme. Returns `None` if the URL is not an HTTP URL.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let parts = self.parts.as_ref().ok()?;
        Some(parts.authority.port_u16().unwrap_or_else(|| default_port(&parts.scheme)))
    }

    /// Returns the URL of `path` (for example `v1/messages`) below the base URL.
    ///
    /// - A slash at the end of the base URL is not repeated.
    /// - A first segment of `path` that is `api` or a version such as `v1` or `v1beta` is not repeated, if the base URL
    ///   ends with it.
    /// - The query of the base URL is moved to the end, after a query of `path`.
    /// - The user name and the password are removed.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the base URL is not an HTTP URL.
    pub fn join(&self, path: &str) -> Result<Uri, ProviderError> {
        let parts = self.parts.as_ref().map_err(|reason| self.invalid(reason))?;
        if let Some((known, joined)) = parts.first.get()
            && known == path
        {
            return Ok(joined.clone());
        }
        let joined = self.join_to(parts, path)?;
        parts.first.get_or_init(|| (path.to_owned(), joined.clone()));
        Ok(joined)
    }

    /// Returns the URL of `path`, as described for [`join`](Self::join).
    fn join_to(&self, parts: &Parts, path: &str) -> Result<Uri, ProviderError> {
        let root = path.split('/').next().filter(|segment| is_root(segment)).unwrap_or_default();
        let base = match parts.path.strip_suffix(root) {
            Some(rest) if rest.ends_with('/') => rest.trim_end_matches('/'),
            _ => &parts.path,
        };
        let mut target = format!("{base}/{path}");
        if let Some(query) = &parts.query {
            target.push(if path.contains('?') { '&' } else { '?' });
            target.push_str(query);
        }
        let target: PathAndQuery = Cow::from(utf8_percent_encode(&target, ESCAPED))
            .parse()
            .map_err(|error| self.invalid(&format!("is not a URL: {error}")))?;
        Uri::builder()
            .scheme(parts.scheme.clone())
            .authority(parts.authority.clone())
            .path_and_query(target)
            .build()
            .map_err(|error| self.invalid(&format!("is not a URL: {error}")))
    }

    /// Returns the `authorization` header with the user name and the password of the URL. Returns `None` if the URL has
    /// no user name.
    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.parts.as_ref().ok()?.authorization.as_ref()
    }

    /// Returns the error for an invalid URL. `reason` ends the sentence "the base URL …".
    fn invalid(&self, reason: &str) -> ProviderError {
        ProviderError::InvalidRequest(format!("the base URL `{}` {reason}", self.shown()))
    }

    /// Returns the URL for errors and `Debug`. The query and everything before an `@` are redacted, because they may
    /// contain secrets.
    fn shown(&self) -> Cow<'_, str> {
        let (address, query) = match self.url.split_once('?') {
            Some((address, _)) => (address, "?[redacted]"),
            None => (self.url.as_str(), ""),
        };
        // The URL is split at `@` first and at `?` later, because a password may contain a question mark.
        let Some((before, host)) = self.url.rsplit_once('@') else {
            return if query.is_empty() {
                address.into()
            } else {
                format!("{address}{query}").into()
            };
        };
        let scheme = before.find("//").and_then(|slashes| before.get(..slashes + 2));
        let host = host.split_once('?').map_or(host, |(host, _)| host);
        format!("{}[redacted]@{host}{query}", scheme.unwrap_or_default()).into()
    }
}

impl Parts {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// Returns the reason, as the end of the sentence "the base URL …".
    fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::HTTP,
            "https" => Scheme::HTTPS,
            _ => return Err("must begin with http:// or https://".into()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        if !authority.is_ascii() {
            let form = "an internationalised domain name is written in its ASCII form (`xn--…`)";
            return Err(format!("has a host that is not ASCII: {form}"));
        }
        // An empty port means the default port of the scheme.
        let authority = authority.strip_suffix(':').unwrap_or(authority).to_ascii_lowercase();
        if authority.is_empty() || authority.starts_with(':') {
            return Err("is not a URL: it has no host".into());
        }
        let not_a_url = |error| format!("is not a URL: {error}");
        let authority: Authority = authority.parse().map_err(not_a_url)?;
        let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if !after_host.is_empty() && authority.port_u16().is_none() {
            return Err("is not a URL: its port is not a number up to 65535".into());
        }
        let authority = if authority.port_u16() == Some(default_port(&scheme)) {
            authority.host().parse().map_err(not_a_url)?
        } else {
            authority
        };
        Ok(Self {
            scheme,
            authority,
            path: path.trim_end_matches('/').to_owned(),
            query: query.map(str::to_owned),
            authorization: user.and_then(basic),
            first: Arc::default(),
        })
    }
}

fn default_port(scheme: &Scheme) -> u16 {
    if *scheme == Scheme::HTTPS { 443 } else { 80 }
}

/// Returns the `authorization` header for basic authentication (RFC 7617). `user` is the part of the URL before the
/// `@`. Returns `None` if the result is not a valid header value.
fn basic(user: &str) -> Option<HeaderValue> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let decoded = [name, password].map(|part| percent_decode_str(part).collect::<Vec<_>>());
    let encoded = BASE64_STANDARD.encode(decoded.join(&b':'));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns `true` if a path segment is `api` or a version such as `v1`, `v1beta` or `v1beta1`. Only these segments are
/// known to begin the paths of an API. Any other segment may be a name, for example of a deployment.
fn is_root(segment: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let version = segment.strip_prefix('v').unwrap_or_default();
    let stage = version.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_stage =
        ["alpha", "beta"].iter().any(|name| stage.strip_prefix(name).is_some_and(is_number));
    let is_version = stage.len() < version.len() && (stage.is_empty() || is_stage);
    is_version || segment == "api"
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, expected: &str) {
        let joined = BaseUrl::new(base).join("v1/messages").unwrap();
        assert_eq!(joined.to_string(), expected);
    }

    #[test]
    fn join_removes_duplicate_version_from_path_but_not_from_host() {
        check("http://h/v1", "http://h/v1/messages");
        check("http://h/x/v1//", "http://h/x/v1/messages");
        check("http://apiv1", "http://apiv1/v1/messages");
        check("http://h/v2", "http://h/v2/v1/messages");
    }

    #[test]
    fn join_returns_the_url_of_each_path() {
        let base = BaseUrl::new("http://h/v1?key=1");
        for _ in 0..2 {
            assert_eq!(base.join("v1/messages").unwrap().to_string(), "http://h/v1/messages?key=1");
            assert_eq!(base.join("embed?x=2").unwrap().to_string(), "http://h/v1/embed?x=2&key=1");
        }
        assert_eq!(base.clone().join("a").unwrap().to_string(), "http://h/v1/a?key=1");
    }

    /// Regression test. If the base URL ends with a name that is also the first segment of the path, the joined URL
    /// must have both. An example is a deployment named `chat` and the path `chat/completions`.
    #[test]
    fn join_keeps_a_base_that_ends_like_the_endpoint() {
        for (base, path) in [
            ("http://h/deployments/chat", "chat/completions"),
            ("http://h/deployments/embeddings", "embeddings"),
            ("http://h/chat", "chat/completions"),
            ("http://h/v1/responses", "responses"),
            ("http://h/v", "v/x"),
            ("http://h/v1x", "v1x/x"),
            ("http://h/v1beta2x", "v1beta2x/x"),
            ("http://h/vbeta", "vbeta/x"),
        ] {
            let joined = BaseUrl::new(format!("{base}/?a=b")).join(path).unwrap();
            assert_eq!(joined.to_string(), format!("{base}/{path}?a=b"));
        }
        for root in ["api", "v1beta", "v1beta1", "v2alpha"] {
            let joined = BaseUrl::new(format!("http://h/{root}/")).join(&format!("{root}/chat"));
            assert_eq!(joined.unwrap().to_string(), format!("http://h/{root}/chat"));
        }
    }

    /// Regression test. The query of the base URL must follow the joined path. The path was once appended to the query
    /// instead.
    #[test]
    fn join_keeps_query_at_the_end() {
        check("http://h/v1?api-version=2", "http://h/v1/messages?api-version=2");
        check("http://h/?a=b/c", "http://h/v1/messages?a=b/c");
        let joined = BaseUrl::new("http://h?a=b").join("x:y?alt=sse").unwrap();
        assert_eq!(joined.to_string(), "http://h/x:y?alt=sse&a=b");
    }

    #[test]
    fn host_has_no_brackets_and_port_defaults_to_scheme() {
        for (url, host, port) in [
            ("https://api.example.com", "api.example.com", Some(443)),
            ("http://api.example.com/v1/", "api.example.com", Some(80)),
            (" https://user:hunter2@Proxy.example:8443/x?key=y ", "proxy.example", Some(8443)),
            ("http://h?key=x", "h", Some(80)),
            ("http://[::1]:11434", "::1", Some(11434)),
            ("https://[2001:DB8::1]/v1", "2001:db8::1", Some(443)),
            ("http://127.0.0.1:80", "127.0.0.1", Some(80)),
            ("https://v1", "v1", Some(443)),
            ("https://xn--bcher-kva.example", "xn--bcher-kva.example", Some(443)),
            ("HTTPS://h:/", "h", Some(443)),
            ("ftp://h", "", None),
            ("h:443", "", None),
            ("https://bücher.example", "", None),
            ("http://h:99999", "", None),
            ("http://h:x", "", None),
            ("http://:80", "", None),
            ("http://[::1", "", None),
            ("http://a b", "", None),
            ("http://", "", None),
            ("not a URL", "", None),
            ("", "", None),
        ] {
            let base = BaseUrl::new(url);
            assert_eq!((base.host(), base.port()), (host, port), "{url}");
        }
    }

    #[test]
    fn domain_contains_its_subdomains_alone() {
        for (url, expected) in [
            ("https://example.com/v1", true),
            ("https://API.Example.com:8443", true),
            ("https://badexample.com", false),
            ("https://example.com.proxy.test", false),
            ("http://localhost/example.com", false),
            ("example.com", false),
        ] {
            assert_eq!(BaseUrl::new(url).is_within("example.com"), expected, "{url}");
        }
    }

    #[test]
    fn join_normalizes_the_url() {
        check("HTTPS://API.example:443", "https://api.example/v1/messages");
        check("http://h:443", "http://h:443/v1/messages");
        check("http://h/a b/\u{fc}%20{x}", "http://h/a%20b/%C3%BC%20%7Bx%7D/v1/messages");
        check("http://h/x?q=a b#fragment", "http://h/x/v1/messages?q=a%20b");
    }

    #[test]
    fn join_of_invalid_url_reports_reason() {
        for (url, reason) in [
            ("https://b\u{fc}cher.example", "xn--"),
            ("http://h:99999", "65535"),
            ("http://h:x", "65535"),
            ("http://", "no host"),
            ("http://:80", "no host"),
            ("http://[::1", "is not a URL"),
            ("http://a b", "is not a URL"),
            ("ftp://h", "must begin with http:// or https://"),
        ] {
            let error = BaseUrl::new(url).join("v1/messages").unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(error.contains(&format!("`{url}`")), "{error}");
        }
    }

    /// The first two expected values are examples of RFC 7617, sections 2 and 2.1. The second example has a password
    /// with a character that is not ASCII.
    #[test]
    fn user_and_password_are_sent_as_basic_authentication() {
        for (url, expected) in [
            ("http://Aladdin:open%20sesame@h", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            ("http://test:123%C2%A3@h", Some("Basic dGVzdDoxMjPCow==")),
            ("http://test@h", Some("Basic dGVzdDo=")),
            ("http://h", None),
        ] {
            let base = BaseUrl::new(url);
            let value = base.authorization().map(|value| value.to_str().unwrap());
            assert_eq!(value, expected, "{url}");
            assert_eq!(base.join("x").unwrap().to_string(), "http://h/x");
        }
    }

    #[test]
    fn debug_of_base_url_hides_password_and_query() {
        for (url, shown) in [
            ("https://user:hunter2@h/x", "\"https://[redacted]@h/x\""),
            ("ftp://hunter2@h", "\"ftp://[redacted]@h\""),
            ("https://h/@x", "\"https://[redacted]@x\""),
            ("https://h", "\"https://h\""),
            // Regression cases. The secrets in these URLs were shown, and the scheme of `http://http@h` was hidden.
            ("http://http@h", "\"http://[redacted]@h\""),
            ("user:hunter2@h:1", "\"[redacted]@h:1\""),
            ("http:/user:hunter2@h", "\"[redacted]@h\""),
            ("https://h/v1?key=hunter2", "\"https://h/v1?[redacted]\""),
            ("https://user:hunter2?x@h?key=hunter2", "\"https://[redacted]@h?[redacted]\""),
            ("", "\"\""),
        ] {
            assert_eq!(format!("{:?}", BaseUrl::new(url)), shown);
        }
    }
}
