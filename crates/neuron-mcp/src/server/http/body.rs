//! Reading of request bodies, and [`McpHttpBody`] for responses.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, SizeHint};

use super::peers::Carrying;
use super::sessions::SessionUse;

/// Reason why the body of a request could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// The body is longer than the limit.
    TooLong,
    /// The body was not complete in time.
    TooSlow,
    /// The connection or the body's stream failed.
    Broken(Box<dyn Error + Send + Sync>),
}

/// Reads the complete body of a request. `timeout` limits the duration of the reading.
///
/// # Errors
///
/// Returns an error if the body is longer than `max_bytes`, the timeout is exceeded, or reading fails.
pub(super) async fn read<B>(body: B, max_bytes: usize, timeout: Duration) -> Result<Bytes, Unread>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // A body whose `Content-Length` is above the limit is refused without reading it.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(Unread::TooLong);
    }
    let reading = Limited::new(body, max_bytes).collect();
    match tokio::time::timeout(timeout, reading).await {
        Err(_) => Err(Unread::TooSlow),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Unread::TooLong),
        Ok(Err(error)) => Err(Unread::Broken(error)),
    }
}

/// The body of a response, which is a short text, JSON, or an event stream.
pub struct McpHttpBody {
    /// The data to send.
    inner: BoxBody<Bytes, Infallible>,
    /// Future that completes when the body must end early. `None` for a body that never ends early.
    until: Option<BoxFuture<'static, ()>>,
    /// Guards that mark the session and the connection as used until the body is dropped.
    _used: (Option<SessionUse>, Option<Carrying>),
}

impl McpHttpBody {
    /// Creates a body with a fixed text.
    pub(super) fn text(text: impl Into<Bytes>) -> Self {
        Self { inner: Full::new(text.into()).boxed(), until: None, _used: (None, None) }
    }

    /// Creates a body with the data `inner` of the SDK's response. The body ends early when `until` completes. While
    /// the body exists, the guards in `used` mark the session and the connection as used.
    pub(super) fn stream(
        inner: BoxBody<Bytes, Infallible>,
        until: BoxFuture<'static, ()>,
        used: (Option<SessionUse>, Option<Carrying>),
    ) -> Self {
        Self { inner, until: Some(until), _used: used }
    }
}

impl fmt::Debug for McpHttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttpBody").finish_non_exhaustive()
    }
}

impl Body for McpHttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The data is polled before `until`, so that available data is still sent when the stream ends early.
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        match self.until.as_mut().map(|until| until.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                self.until = None;
                self.inner = BoxBody::default();
                Poll::Ready(None)
            }
            _ => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
