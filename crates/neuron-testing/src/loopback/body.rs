//! A response body that runs its steps, and records a disconnect if it is dropped before the last step.

use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::Step;
use super::record::Record;

/// The type of every response body.
pub(super) type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// A response that is not complete yet. Hyper drops it when the client disconnects.
pub(super) struct InFlight {
    record: Arc<Record>,
    done: bool,
}

impl InFlight {
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self { record, done: false }
    }

    /// Marks the response as ended by the server, so that it does not count as a disconnect.
    pub(super) fn done(&mut self) {
        self.done = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.done {
            self.record.count(|counts| counts.disconnects += 1);
        }
    }
}

impl Step {
    /// Runs the step. Returns the bytes to send, if there are any.
    pub(super) async fn take(self, in_flight: &mut InFlight) -> io::Result<Option<Bytes>> {
        match self {
            Self::Send(chunk) => return Ok(Some(chunk)),
            Self::Wait(duration) => tokio::time::sleep(duration).await,
            Self::Abort => {
                // Hyper drops unwritten bytes on an error. While the body is pending, hyper writes them.
                tokio::task::yield_now().await;
                in_flight.done();
                return Err(io::Error::other("the script closes the connection here"));
            }
            Self::Hang => pending().await,
        }
        Ok(None)
    }
}

pub(super) fn body(steps: Vec<Step>, in_flight: InFlight) -> Body {
    let state = (steps.into_iter(), in_flight);
    let frames = stream::unfold(state, |(mut steps, mut in_flight)| async move {
        for step in steps.by_ref() {
            if let Some(result) = step.take(&mut in_flight).await.transpose() {
                return Some((result.map(Frame::data), (steps, in_flight)));
            }
        }
        in_flight.done();
        None
    });
    StreamBody::new(frames.boxed())
}
