//! The values that a [`Vendor`](super::Vendor) and its server exchange. They describe a checked request, a response or
//! an error.

use std::time::Duration;

use neuron_types::CompletionResponse;
use serde_json::Value;

use crate::Wire;

/// A request that passed all checks of its [`Vendor`](super::Vendor).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call<D> {
    /// The model that the request names.
    pub model: String,
    /// `true` if the request asks for a streamed response.
    pub stream: bool,
    /// Other values of the request that determine the response, in the vendor's own type.
    pub detail: D,
}

impl<D> Call<D> {
    /// Creates a call of `model`. `stream` is `true` if the request asks for a streamed response.
    pub fn new(model: impl Into<String>, stream: bool, detail: D) -> Self {
        Self { model: model.into(), stream, detail }
    }
}

/// A response to send, with all values that a [`Vendor`](super::Vendor) needs to encode it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer<'a, D> {
    /// The request to respond to.
    pub call: &'a Call<D>,
    /// The response to encode.
    pub response: &'a CompletionResponse,
    /// Number of characters in a delta of a stream.
    pub chunk_chars: usize,
    /// The id of the request. The first request of a server has the id `req_1`.
    pub request_id: &'a str,
    /// The encoding of the lines of a stream.
    pub wire: &'a Wire,
}

impl<'a, D> Answer<'a, D> {
    /// Creates a response to the request `req_1`, with deltas of 16 characters.
    pub fn new(call: &'a Call<D>, response: &'a CompletionResponse, wire: &'a Wire) -> Self {
        Self { call, response, chunk_chars: 16, request_id: "req_1", wire }
    }
}

/// The HTTP response for an error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct ErrorReply {
    /// The HTTP status.
    pub status: u16,
    /// Response headers in addition to [`Vendor::headers`](super::Vendor::headers).
    pub headers: Vec<(String, String)>,
    /// The JSON body.
    pub body: Value,
}

impl ErrorReply {
    /// Creates an error response without additional headers.
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// Adds a `retry-after` header with the delay in seconds. `None` adds no header.
    pub(crate) fn retry_after(self, delay: Option<Duration>) -> Self {
        match delay {
            Some(delay) => self.header("retry-after", delay.as_secs_f64().to_string()),
            None => self,
        }
    }

    /// Adds a response header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_header_is_in_seconds() {
        let header = |millis: Option<u64>| {
            let delay = millis.map(Duration::from_millis);
            ErrorReply::new(429, Value::Null).retry_after(delay).headers
        };
        assert_eq!(header(Some(2_000)), [("retry-after".to_owned(), "2".to_owned())]);
        assert_eq!(header(Some(250)), [("retry-after".to_owned(), "0.25".to_owned())]);
        assert_eq!(header(None), []);
    }
}
