//! The actions of a server for one request, planned in full before the first.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

/// The actions of a server for one request.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The time before the first action.
    pub(crate) delay: Duration,
    /// Delays the first action until the gate is open.
    pub(crate) gate: Option<watch::Receiver<bool>>,
    pub(crate) answer: Answer,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Respond {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<Step>,
    },
    /// Closes the connection without an answer.
    Close,
    /// Never answers.
    Hang,
}

/// A step of sending a body. After the last the body ends as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends these bytes as one chunk.
    Send(Bytes),
    Wait(Duration),
    /// Closes the connection in mid-body.
    Abort,
    /// Sends nothing more, and does not end the body.
    Hang,
}

impl Plan {
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    pub(crate) fn behind(self, gate: watch::Receiver<bool>) -> Self {
        Self { gate: Some(gate), ..self }
    }
}

impl From<Answer> for Plan {
    fn from(answer: Answer) -> Self {
        Self { delay: Duration::ZERO, gate: None, answer }
    }
}
