//! The planned response of a server to one request, with its waits and its break. The plan is complete before the first
//! byte is sent.

use std::time::Duration;

use bytes::Bytes;

/// The planned response of a server to one request, with its waits and its break.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The steps to run before the response begins.
    pub(crate) before: Vec<Step>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<Step>,
}

/// A step of a response. The body ends normally after the last step, except after [`Step::Abort`] and [`Step::Hang`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends the bytes as one chunk.
    Send(Bytes),
    /// Waits before the next step.
    Wait(Duration),
    /// Closes the connection before the response is complete.
    Abort,
    /// Sends nothing more and keeps the response open.
    Hang,
}

impl Plan {
    /// Creates a plan that sends no response. `step` must be [`Step::Abort`] or [`Step::Hang`].
    pub(crate) fn no_response(step: Step) -> Self {
        Self { before: vec![step], status: 500, headers: Vec::new(), body: Vec::new() }
    }
}
