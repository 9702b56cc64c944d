//! What goes wrong on the way, in words.

use std::error::Error;
use std::fmt;

use neuron_types::{BoxError, ProviderError, Unsent};
use reqwest::Url;

/// The error of the first attempt.
pub(crate) fn network_error(url: &Url, error: reqwest::Error) -> ProviderError {
    let is_unsent = is_unsent(&error);
    let error = describe(url, error);
    ProviderError::Network(if is_unsent { Box::new(Unsent(error)) } else { error })
}

/// The error of a second attempt. The first attempt may have reached the server.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn lost(url: &Url, error: reqwest::Error) -> ProviderError {
    ProviderError::Network(describe(url, error))
}

fn describe(url: &Url, error: reqwest::Error) -> BoxError {
    Box::new(Transport::new(&origin(url), &error.without_url()))
}

/// Whether there was no connection, so that the request did not leave.
#[cfg(not(target_family = "wasm"))]
fn is_unsent(error: &reqwest::Error) -> bool {
    error.is_connect()
}

/// A browser does not say.
#[cfg(target_family = "wasm")]
fn is_unsent(_: &reqwest::Error) -> bool {
    false
}

/// Whatever has been shown of a stream cannot be taken back, so a broken one is not retryable as a
/// failed connection is.
pub(crate) fn broken_stream(url: &Url, error: reqwest::Error) -> ProviderError {
    ProviderError::StreamError(Transport::new(&origin(url), &error.without_url()).to_string())
}

/// The address without path, query and credentials.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// What went wrong on the way, with all its causes in one line: the outermost says little.
#[derive(Debug)]
pub(crate) struct Transport(String);

impl Transport {
    pub(crate) fn new(whom: &str, error: &(dyn Error + 'static)) -> Self {
        let mut text = format!("{whom}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self(text)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Transport {}
