//! The actions of a server for one request, planned in full before the first.

use std::time::Duration;

use bytes::Bytes;

/// The actions of a server for one request.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The steps before the response begins.
    pub(crate) before: Vec<Step>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<Step>,
}

/// A step of a response. After the last step the body ends as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends these bytes as one chunk.
    Send(Bytes),
    Wait(Duration),
    /// Closes the connection.
    Abort,
    /// Sends nothing more, and does not end the response.
    Hang,
}

impl Plan {
    /// Plans a request that gets no response, because the step never ends or is an error.
    pub(crate) fn no_response(step: Step) -> Self {
        Self { before: vec![step], status: 500, headers: Vec::new(), body: Vec::new() }
    }
}
