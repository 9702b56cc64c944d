//! A response body that follows the steps of a `Plan`. A step sends bytes, waits, or breaks the connection. If the body
//! is dropped before its last step, a disconnect is counted.

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

/// A response that is not complete yet. Hyper drops the response when the client disconnects, and `drop` then counts
/// the disconnect.
pub(super) struct InFlight {
    record: Arc<Record>,
    done: bool,
}

impl InFlight {
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self { record, done: false }
    }

    /// Marks the response as ended by the server. Dropping the response then does not count as a disconnect.
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
    /// Runs the step. Returns the bytes to send, or `None` if the step sends no bytes.
    ///
    /// Returns an error for [`Step::Abort`], which makes hyper close the connection. Never returns for [`Step::Hang`].
    pub(super) async fn take(self, in_flight: &mut InFlight) -> io::Result<Option<Bytes>> {
        match self {
            Self::Send(chunk) => return Ok(Some(chunk)),
            Self::Wait(duration) => tokio::time::sleep(duration).await,
            Self::Abort => {
                // Hyper discards unwritten bytes if the body returns an error, but writes them while the body is
                // pending.
                tokio::task::yield_now().await;
                in_flight.done();
                return Err(io::Error::other("the script closes the connection here"));
            }
            Self::Hang => pending().await,
        }
        Ok(None)
    }
}

/// Creates a response body that runs `steps` in order and sends their bytes.
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
