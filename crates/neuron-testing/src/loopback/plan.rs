//! The actions of a server for one request, which are all planned before the first action.

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

/// A step of a response. After the last step the body ends normally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends these bytes as one chunk.
    Send(Bytes),
    Wait(Duration),
    /// Closes the connection.
    Abort,
    /// Sends nothing more and keeps the response open.
    Hang,
}

impl Plan {
    /// Creates a plan without a response. The step hangs or closes the connection.
    pub(crate) fn no_response(step: Step) -> Self {
        Self { before: vec![step], status: 500, headers: Vec::new(), body: Vec::new() }
    }
}
