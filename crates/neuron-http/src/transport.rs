//! Converts errors of connections and transfers into [`ProviderError`].

use std::error::Error;
use std::fmt;

use http::Uri;
use neuron_model::{BoxError, ProviderError, Unsent};

#[cfg(not(target_family = "wasm"))]
use crate::connect::ConnectError;
use crate::wrong_url::connection_hint;

type Cause = dyn Error + 'static;

/// Converts the error of a request's first attempt, before the head of the response. The result is marked as [`Unsent`]
/// if no connection was opened, because the server then cannot have received the request.
pub(crate) fn network_error(uri: &Uri, error: &Cause) -> ProviderError {
    #[cfg(not(target_family = "wasm"))]
    if let Some(error) = large_head(uri, error) {
        return error;
    }
    let described = describe(uri, error);
    let is_unsent = is_unsent(error);
    ProviderError::Network(if is_unsent { Box::new(Unsent(described)) } else { described })
}

/// Converts the error of the second attempt of a request on a closed idle connection. The result is never marked as
/// [`Unsent`], because the server may have received the first attempt.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn second_attempt_error(uri: &Uri, error: &Cause) -> ProviderError {
    large_head(uri, error).unwrap_or_else(|| ProviderError::Network(describe(uri, error)))
}

/// Maximum number of headers of a response. It is the default of hyper for HTTP/1.1. With another number, hyper allocates
/// for each response.
#[cfg(not(target_family = "wasm"))]
const MAX_HEADERS: usize = 100;

/// Maximum size in bytes of the headers of a response (408 KiB). It is the default of hyper for HTTP/1.1.
#[cfg(not(target_family = "wasm"))]
pub(crate) const MAX_HEAD_BYTES: u32 = 8192 + 4096 * 100;

/// Returns `true` for hyper's error about an HTTP/1.1 head that is too large. hyper has a method for it only together with
/// its server.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn is_large_head(error: &hyper::Error) -> bool {
    error.is_parse() && error.to_string().contains("too large")
}

/// Returns the error of a response whose headers exceed a limit, which a retry would not change. Returns `None` for
/// other errors. Pass no error of a body, because `h2` reports an invalid body in the same way.
#[cfg(not(target_family = "wasm"))]
fn large_head(uri: &Uri, error: &Cause) -> Option<ProviderError> {
    let is_large = |cause: &Cause| {
        cause.downcast_ref::<hyper::Error>().is_some_and(is_large_head)
            // `h2` reports a head that is too large as it reports an invalid one.
            || cause.downcast_ref::<h2::Error>().is_some_and(|error| {
                let is_protocol = error.reason() == Some(h2::Reason::PROTOCOL_ERROR);
                error.is_reset() && error.is_library() && is_protocol
            })
    };
    causes(error).any(is_large).then(|| {
        let origin = origin(uri);
        let text = format!(
            "{origin}: the response has more than {MAX_HEADERS} headers, more than {} \
             KiB of headers, or over HTTP/2 invalid headers",
            MAX_HEAD_BYTES / 1024
        );
        ProviderError::Other(text.into())
    })
}

/// Converts the transfer error of a body that is read completely.
pub(crate) fn broken_body(uri: &Uri, error: &Cause) -> ProviderError {
    ProviderError::Network(describe(uri, error))
}

/// Converts the transfer error of a stream. The result is not retryable, because the caller may already have used the
/// beginning of the stream.
pub(crate) fn broken_stream(uri: &Uri, error: &Cause) -> ProviderError {
    ProviderError::StreamError(describe(uri, error).to_string())
}

/// Converts the error of a TLS configuration, for example about missing root certificates.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn tls_error(error: &rustls::Error) -> ProviderError {
    ProviderError::Network(Box::new(TransportError::new("TLS", error)))
}

/// Creates an error with the origin of the URL and all causes.
fn describe(uri: &Uri, error: &Cause) -> BoxError {
    let TransportError(text) = TransportError::new(&origin(uri), error);
    Box::new(TransportError(text + connection_hint(uri, error)))
}

/// Returns `true` if no connection was opened, so the request was not sent.
#[cfg(not(target_family = "wasm"))]
fn is_unsent(error: &Cause) -> bool {
    causes(error).any(|cause| {
        if cause.is::<ConnectError>() {
            return true;
        }
        let pool = cause.downcast_ref::<hyper_util::client::legacy::Error>();
        #[cfg(feature = "reqwest")]
        if cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return true;
        }
        pool.is_some_and(hyper_util::client::legacy::Error::is_connect)
    })
}

/// Returns `false`, because a browser does not report whether the request was sent.
#[cfg(target_family = "wasm")]
fn is_unsent(_: &Cause) -> bool {
    false
}

/// Returns an error and its causes, from the outermost to the innermost.
pub(crate) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// Returns the scheme, host and port of a URL, for errors.
fn origin(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}

/// An error whose text contains all of its causes in one line. hyper's outermost error alone does not say enough.
#[derive(Debug)]
struct TransportError(String);

impl TransportError {
    fn new(peer: &str, error: &(dyn Error + 'static)) -> Self {
        let mut text = peer.to_owned();
        for cause in causes(error) {
            let cause = text_of(cause);
            if !text.ends_with(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        Self(text)
    }
}

/// Returns the text of an error without its causes.
#[cfg(not(target_family = "wasm"))]
fn text_of(error: &(dyn Error + 'static)) -> String {
    // hyper's own texts are generic, such as `client error (Connect)`.
    match error.downcast_ref::<hyper_util::client::legacy::Error>() {
        Some(error) if error.is_connect() => "cannot connect".to_owned(),
        Some(_) => "cannot send the request".to_owned(),
        None => error.to_string(),
    }
}

/// Returns the text of an error without its causes.
#[cfg(target_family = "wasm")]
fn text_of(error: &(dyn Error + 'static)) -> String {
    error.to_string()
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TransportError {}
