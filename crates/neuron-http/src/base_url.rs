//! Where an API is.

use std::borrow::Cow;
use std::fmt;

use neuron_types::ProviderError;
use reqwest::Url;

/// An address that is never shown with the password that may be in it.
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
/// # Ok::<_, neuron_types::ProviderError>(())
/// ```
#[derive(Clone)]
pub struct BaseUrl {
    url: String,
    /// The host in it without brackets; empty where `url` is no HTTP address.
    host: String,
    port: Option<u16>,
}

impl BaseUrl {
    /// Keeps an address; whether it is one is seen when it is used.
    pub fn new(url: impl Into<String>) -> Self {
        let base = Self { url: url.into(), host: String::new(), port: None };
        let Ok(parsed) = base.join("") else {
            return base;
        };
        let host = parsed.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self { host, port: parsed.port_or_known_default(), ..base }
    }

    /// Returns the host's name or address, an IPv6 address without brackets; empty when the address is no
    /// HTTP address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, that of the scheme where the address names none; `None` when it is no HTTP
    /// address.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the address of an API's endpoint: `path` (`v1/messages`, for instance) below the base,
    /// which may end with a slash or with the path's root (a version such as `v1`, or `api`). A query
    /// stays at the end.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] when it is no HTTP address.
    pub fn join(&self, path: &str) -> Result<Url, ProviderError> {
        let base = self.url.trim();
        let (base, query) = match base.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (base, None),
        };
        let base = base.trim_end_matches('/');
        let root = path.split('/').next().filter(|segment| is_root(segment)).unwrap_or_default();
        let base = match base.strip_suffix(root) {
            Some(rest) if rest.ends_with('/') => rest.trim_end_matches('/'),
            _ => base,
        };
        let invalid = |why: String| {
            ProviderError::InvalidRequest(format!("the base URL `{}` {why}", self.shown()))
        };
        let mut url = Url::parse(&format!("{base}/{path}"))
            .map_err(|error| invalid(format!("is not a URL: {error}")))?;
        url.set_query(query);
        match url.scheme() {
            "http" | "https" => Ok(url),
            _ => Err(invalid("must begin with http:// or https://".into())),
        }
    }

    /// The address without what may be secret: what stands before an `@`, however the scheme is
    /// written, and the query.
    fn shown(&self) -> Cow<'_, str> {
        let (address, query) = match self.url.split_once('?') {
            Some((address, _)) => (address, "?[redacted]"),
            None => (self.url.as_str(), ""),
        };
        // A password may have a question mark.
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

/// Returns `true` for the segments with which the paths of an API begin. Other segments may be names in the base,
/// for example of a deployment `chat`.
fn is_root(segment: &str) -> bool {
    let version = segment.strip_prefix('v').unwrap_or_default();
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
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
        let joined = BaseUrl::new(base).join("v1/messages").map(String::from);
        assert_eq!(joined.unwrap(), expected);
    }

    #[test]
    fn the_version_at_the_end_of_a_base_is_not_doubled_and_a_host_that_ends_so_is_kept() {
        check("http://h/v1", "http://h/v1/messages");
        check("http://h/x/v1//", "http://h/x/v1/messages");
        check("http://apiv1", "http://apiv1/v1/messages");
        check("http://h/v2", "http://h/v2/v1/messages");
    }

    /// The requests of deployments with these names lost a segment of their address.
    #[test]
    fn join_keeps_a_base_that_ends_like_the_endpoint() {
        for (base, path) in [
            ("http://h/deployments/chat", "chat/completions"),
            ("http://h/deployments/embeddings", "embeddings"),
            ("http://h/chat", "chat/completions"),
            ("http://h/v1/responses", "responses"),
            ("http://h/v", "v/x"),
            ("http://h/v1x", "v1x/x"),
        ] {
            let joined = BaseUrl::new(format!("{base}/?a=b")).join(path).unwrap();
            assert_eq!(joined.as_str(), format!("{base}/{path}?a=b"));
        }
        let joined = BaseUrl::new("http://h/api/").join("api/chat").unwrap();
        assert_eq!(joined.as_str(), "http://h/api/chat");
    }

    /// The path became a part of the query, and every request went to the base itself.
    #[test]
    fn a_query_stays_at_the_end() {
        check("http://h/v1?api-version=2", "http://h/v1/messages?api-version=2");
        check("http://h/?a=b/c", "http://h/v1/messages?a=b/c");
    }

    #[test]
    fn the_server_is_the_host_without_brackets_and_the_port_or_that_of_the_scheme() {
        for (url, host, port) in [
            ("https://api.example.com", "api.example.com", Some(443)),
            ("http://api.example.com/v1/", "api.example.com", Some(80)),
            (" https://user:hunter2@Proxy.example:8443/x?key=y ", "proxy.example", Some(8443)),
            ("http://h?key=x", "h", Some(80)),
            ("http://[::1]:11434", "::1", Some(11434)),
            ("https://[2001:DB8::1]/v1", "2001:db8::1", Some(443)),
            ("http://127.0.0.1:80", "127.0.0.1", Some(80)),
            ("https://v1", "v1", Some(443)),
            ("https://bücher.example", "xn--bcher-kva.example", Some(443)),
            ("ftp://h", "", None),
            ("h:443", "", None),
            ("http://h:99999", "", None),
            ("http://", "", None),
            ("not a URL", "", None),
            ("", "", None),
        ] {
            let base = BaseUrl::new(url);
            assert_eq!((base.host(), base.port()), (host, port), "{url}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("https://user:hunter2@h/x", "\"https://[redacted]@h/x\""),
            ("ftp://hunter2@h", "\"ftp://[redacted]@h\""),
            ("https://h/@x", "\"https://[redacted]@x\""),
            ("https://h", "\"https://h\""),
            // The last four were shown as they are, and of `http` the scheme was hidden.
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
