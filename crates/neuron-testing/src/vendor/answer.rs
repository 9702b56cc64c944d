//! The call that a request makes, its response, and the response to a refused request.

use neuron_types::CompletionResponse;
use serde_json::Value;

use crate::Wire;

/// The call of a request that passed every check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call<D> {
    /// The model.
    pub model: String,
    /// Set if the response is a stream.
    pub stream: bool,
    /// Further values from which the response follows.
    pub detail: D,
}

impl<D> Call<D> {
    /// Describes a call.
    pub fn new(model: impl Into<String>, stream: bool, detail: D) -> Self {
        Self { model: model.into(), stream, detail }
    }
}

/// An answer that is to be written in a vendor's form.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer<'a, D> {
    /// The call that it answers.
    pub call: &'a Call<D>,
    /// The content.
    pub response: &'a CompletionResponse,
    /// The number of characters in a delta of a stream.
    pub chunk_chars: usize,
    /// The request's id, `req_1` for the first.
    pub request_id: &'a str,
    /// The encoding of a stream's lines.
    pub wire: &'a Wire,
}

impl<'a, D> Answer<'a, D> {
    /// Creates an answer to the request `req_1`, with deltas of 16 characters.
    pub fn new(call: &'a Call<D>, response: &'a CompletionResponse, wire: &'a Wire) -> Self {
        Self { call, response, chunk_chars: 16, request_id: "req_1", wire }
    }
}

/// The response for an error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct ErrorReply {
    /// The HTTP status.
    pub status: u16,
    /// Headers besides those of every response.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl ErrorReply {
    /// Builds a response without headers of its own.
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// Adds a `retry-after` header, if the vendor's error has a value for one.
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
