//! A response body that plays its steps, and notices when it is dropped before the last.

use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::Step;
use super::record::Record;

/// The body of every response.
pub(super) type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// A response that is not complete. Hyper drops it when the client goes away.
pub(super) struct InFlight {
    record: Arc<Record>,
    done: bool,
}

impl InFlight {
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self { record, done: false }
    }

    /// Says that what ends the response now is the server, not the client.
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
    /// Takes the step. Returns the bytes to send, if it sends any.
    pub(super) async fn take(self, in_flight: &mut InFlight) -> io::Result<Option<Bytes>> {
        match self {
            Self::Send(chunk) => return Ok(Some(chunk)),
            Self::Wait(duration) => tokio::time::sleep(duration).await,
            Self::Abort => {
                // Hyper drops what it has not written yet; while the body is pending it writes.
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
