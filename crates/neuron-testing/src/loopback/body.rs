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

pub(super) fn body(steps: Vec<Step>, in_flight: InFlight) -> Body {
    let state = (steps.into_iter(), in_flight);
    StreamBody::new(stream::unfold(state, next_frame).boxed())
}

async fn next_frame(
    (mut steps, mut in_flight): (std::vec::IntoIter<Step>, InFlight),
) -> Option<(io::Result<Frame<Bytes>>, (std::vec::IntoIter<Step>, InFlight))> {
    loop {
        let Some(step) = steps.next() else {
            in_flight.done();
            return None;
        };
        let result = match step {
            Step::Send(chunk) => Ok(Frame::data(chunk)),
            Step::Wait(duration) => {
                tokio::time::sleep(duration).await;
                continue;
            }
            Step::Abort => {
                // Hyper drops what it has not written yet; while the body is pending it writes.
                tokio::task::yield_now().await;
                in_flight.done();
                Err(io::Error::other("the script aborts the connection here"))
            }
            Step::Hang => pending().await,
        };
        return Some((result, (steps, in_flight)));
    }
}
