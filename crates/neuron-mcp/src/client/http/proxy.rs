//! Proxies that environment variables such as `HTTPS_PROXY` select, and the addresses of these proxies in connection
//! errors.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use super::is_loopback;
use crate::causes::with_causes;

/// Returns the text of an HTTP error with its causes. If the connection through a proxy failed, the text names the
/// proxy. The text contains neither the request URL nor credentials, because they may be secret.
pub(crate) fn error_text(error: &reqwest::Error) -> String {
    let text = match std::error::Error::source(error) {
        Some(cause) => with_causes(cause),
        None if error.is_timeout() => "the server did not answer in time".to_owned(),
        None => "the request failed".to_owned(),
    };
    match error.url().filter(|_| error.is_connect()).and_then(of_environment) {
        Some(proxy) => format!("through the proxy {proxy}: {text}"),
        None => text,
    }
}

/// Returns the host and port of the proxy that environment variables set for a URL. Returns `None` for a direct
/// connection.
pub(super) fn of_environment(url: &Url) -> Option<String> {
    if is_loopback(url) {
        return None;
    }
    let proxy = Matcher::from_env().intercept(&url.as_str().parse().ok()?)?;
    let (host, port) = (proxy.uri().host()?, proxy.uri().port());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{host}{port}"))
}
