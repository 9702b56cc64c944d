//! Recognises responses and failures that a wrong base URL explains.

/// The end of an error text whose cause is probably the base URL.
pub(crate) const WRONG_URL: &str = "; the base URL is probably wrong";

/// Returns the end of the text of an error that quotes `body`. The text is empty unless the body is an HTML page.
pub(crate) fn page_hint(body: &[u8]) -> &'static str {
    if is_page(body) { WRONG_URL } else { "" }
}

/// Returns `true` if a body is an HTML page, which no API sends.
pub(crate) fn is_page(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    let beginning = body.get(..MAX_PROLOGUE).unwrap_or(body);
    body.starts_with(b"<") && beginning.windows(4).any(|bytes| bytes.eq_ignore_ascii_case(b"html"))
}

/// Maximum length in bytes of the comments before the first tag of a page.
const MAX_PROLOGUE: usize = 1024;

/// Returns the message of an error about a redirect. The user name, the password and the query of the target are left
/// out, because they may be secrets.
pub(crate) fn redirect(location: &str) -> String {
    let target = location.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match target.split_once("//") {
        Some((scheme, rest)) => (format!("{scheme}//"), rest),
        None => (String::new(), target),
    };
    let (authority, path) = match rest.find('/') {
        Some(end) if !scheme.is_empty() => rest.split_at(end),
        _ if scheme.is_empty() => ("", rest),
        _ => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    let target: String = format!("{scheme}{host}{path}").chars().take(MAX_TARGET).collect();
    format!("redirected to {target}, which is not followed: the base URL must lead there")
}

/// Maximum length in characters of a redirect's target in an error.
const MAX_TARGET: usize = 300;

/// The hint for a request over plain HTTP to a port for TLS.
const NEEDS_TLS: &str = "; the base URL must begin with `https://`";

/// Returns the end of the text of an error with the status 400. The text is empty unless the server says that it
/// received plain HTTP on a port for TLS.
pub(crate) fn plain_http_hint(body: &[u8]) -> &'static str {
    const TEXTS: [&str; 3] = [
        // nginx.
        "plain http request was sent to https port",
        // Go.
        "client sent an http request to an https server",
        // Apache.
        "speaking plain http to an ssl-enabled server port",
    ];
    let body = String::from_utf8_lossy(body).to_ascii_lowercase();
    if TEXTS.iter().any(|text| body.contains(text)) { NEEDS_TLS } else { "" }
}

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::connection_hint;

/// Returns an empty text, because a browser does not report why a connection failed.
#[cfg(target_family = "wasm")]
pub(crate) fn connection_hint(
    _: &http::Uri,
    _: &(dyn std::error::Error + 'static),
) -> &'static str {
    ""
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::error::Error;
    use std::io;

    use http::Uri;
    use http::uri::Scheme;

    use super::NEEDS_TLS;
    use crate::transport::causes;

    /// Returns the end of the text of a connection's error. The text is empty unless the error is typical of a URL with
    /// the wrong scheme.
    pub(crate) fn connection_hint(uri: &Uri, error: &(dyn Error + 'static)) -> &'static str {
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let is_plain = causes(error).any(is_not_tls);
            return if is_plain {
                "; the server does not use TLS on this port: the base URL must begin with `http://`, or name another \
                 port"
            } else {
                ""
            };
        }
        // 443, 8443 and their like.
        let is_tls_port = uri.port_u16().is_some_and(|port| port % 1000 == 443);
        let hyper = causes(error).find_map(|cause| cause.downcast_ref::<hyper::Error>());
        match hyper {
            // OpenSSL and rustls send a TLS alert.
            Some(error) if error.is_parse() && !crate::transport::is_large_head(error) => {
                "; the server does not use HTTP on this port: the base URL must name another port, or begin with \
                 `https://` if the port is for TLS"
            }
            Some(error) if error.is_incomplete_message() && is_tls_port => NEEDS_TLS,
            _ => "",
        }
    }

    /// Returns `true` if a TLS handshake failed because the peer sent bytes that are not TLS.
    fn is_not_tls(error: &(dyn Error + 'static)) -> bool {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            // The source of an I/O error is the source of the error that it contains.
            return error.get_ref().is_some_and(|inner| is_not_tls(inner));
        }
        matches!(error.downcast_ref(), Some(rustls::Error::InvalidMessage(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(location: &str, shown: &str) {
        let expected =
            format!("redirected to {shown}, which is not followed: the base URL must lead there");
        assert_eq!(redirect(location), expected);
    }

    #[test]
    fn redirect_is_shown_without_user_and_query() {
        check("https://a.example/v1/chat?key=hunter2", "https://a.example/v1/chat");
        check("https://user:hunter2@a.example:8443#hunter2", "https://a.example:8443");
        check("https://user:hunt@er2@a.example/x@y", "https://a.example/x@y");
        check("//a.example/v1", "//a.example/v1");
        check("/login?next=hunter2", "/login");
        check("?key=hunter2", "");
        check("", "");
    }

    #[test]
    fn page_is_recognised_by_its_first_tags() {
        for page in ["<html>", " \n<!DOCTYPE HTML>", "<?xml version='1.0'?>\n<!doctype html>"] {
            assert!(is_page(page.as_bytes()), "{page}");
        }
        for other in ["", "<", "<xml/>", "{\"html\": 1}", "data: <html>"] {
            assert!(!is_page(other.as_bytes()), "{other}");
        }
    }
}
