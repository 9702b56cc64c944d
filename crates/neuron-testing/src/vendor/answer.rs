//! The types for the call in a request, the response and the response for an error.

use neuron_types::CompletionResponse;
use serde_json::Value;

use crate::Wire;

/// The call in a request that passed every check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call<D> {
    /// The model.
    pub model: String,
    /// Set if the response is a stream.
    pub stream: bool,
    /// Other values of the request that determine the response.
    pub detail: D,
}

impl<D> Call<D> {
    /// Creates a call.
    pub fn new(model: impl Into<String>, stream: bool, detail: D) -> Self {
        Self { model: model.into(), stream, detail }
    }
}

/// A response and the values for its encoding in a vendor's format.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer<'a, D> {
    /// The call to respond to.
    pub call: &'a Call<D>,
    /// The response.
    pub response: &'a CompletionResponse,
    /// The number of characters in a delta of a stream.
    pub chunk_chars: usize,
    /// The id of the request. The first id is `req_1`.
    pub request_id: &'a str,
    /// The encoding of a stream's lines.
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
    /// Additional headers of this response.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl ErrorReply {
    /// Creates a response without additional headers.
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// Adds a `retry-after` header if there is a value for it.
    pub(crate) fn retry_after(self, delay: Option<String>) -> Self {
        match delay {
            Some(delay) => self.header("retry-after", delay),
            None => self,
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}
