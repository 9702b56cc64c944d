//! Reads response bodies, either completely or in chunks ([`Body`]).

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Response, Uri};
use neuron_types::{AnswerMetadata, BoxError, ProviderError, WasmBoxedFuture, clock};

use crate::chunks::Chunks;
use crate::deadline::Deadline;
use crate::headers::metadata;
use crate::transport;

/// Maximum size in bytes of a body that is read completely (256 MiB). The longest known response is a batch of 2,048
/// embeddings with 3,072 numbers each, which has 82 MB as text.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// Reads a body completely, before the deadline.
///
/// # Errors
///
/// - [`ProviderError::Network`] if the transfer fails.
/// - [`ProviderError::Timeout`] at the deadline.
/// - [`ProviderError::Other`] if the body has more than 256 MiB.
pub(crate) async fn read_body(
    mut chunks: Chunks,
    uri: &Uri,
    deadline: Deadline,
) -> Result<Vec<u8>, ProviderError> {
    let mut body = Vec::new();
    let read = async {
        while let Some(chunk) = next(&mut chunks).await {
            let chunk = chunk.map_err(|error| transport::network_error(uri, &*error))?;
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(ProviderError::Other("the response is too large".into()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(())
    };
    deadline.within(read).await??;
    #[cfg(not(target_family = "wasm"))]
    yield_now().await;
    Ok(body)
}

/// Yields to the runtime once. A task of the HTTP client can then return the connection to the pool, so that the next
/// request reuses the connection.
#[cfg(not(target_family = "wasm"))]
async fn yield_now() {
    let mut given = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Maximum length in bytes of the part of an error body that is read.
const MAX_EXPLANATION_BYTES: usize = 64 * 1024;

/// Reads the beginning of a body that explains an error, up to [`MAX_EXPLANATION_BYTES`]. At the deadline or after a
/// transfer error, returns the bytes that have arrived.
pub(crate) async fn read_beginning(mut chunks: Chunks, deadline: Deadline) -> Vec<u8> {
    read_more(&mut chunks, Vec::new(), deadline).await
}

/// Reads on until the beginning of a body is complete. `body` contains the bytes that were already read.
async fn read_more(chunks: &mut Chunks, mut body: Vec<u8>, deadline: Deadline) -> Vec<u8> {
    let read = async {
        while body.len() < MAX_EXPLANATION_BYTES
            && let Some(Ok(chunk)) = next(chunks).await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // A timeout is not an error here, because the bytes that arrived in time are used.
    let _ = deadline.within(read).await;
    body
}

async fn next(chunks: &mut Chunks) -> Option<Result<Bytes, BoxError>> {
    poll_fn(|cx| chunks.poll_next(cx)).await
}

/// The body of a response, as a stream of chunks. The next chunk is an error if it does not arrive within the idle
/// timeout.
pub struct Body {
    /// Bytes that were read by `check_beginning` and not returned yet.
    read: Bytes,
    chunks: Chunks,
    uri: Uri,
    /// Idle timeout, which is the maximum wait for the next chunk.
    idle: Duration,
    /// Request id and rate limits from the response's headers.
    pub(crate) metadata: AnswerMetadata,
    /// Timer of the idle timeout. `None` if no chunk is awaited.
    timer: Option<WasmBoxedFuture<'static, Option<()>>>,
}

impl Body {
    pub(crate) fn new(response: Response<Chunks>, uri: Uri, idle: Duration) -> Self {
        Self {
            uri,
            metadata: metadata(response.headers()),
            read: Bytes::new(),
            chunks: response.into_body(),
            idle,
            timer: None,
        }
    }

    /// Reads the beginning of the body and checks it with `is_wanted`. This function receives the bytes read so far,
    /// and returns `None` if it needs more bytes.
    ///
    /// The inner result is `Ok` if the body is accepted. The bytes that were read then remain part of the body. If the
    /// body is rejected, the inner result is `Err` with the beginning of the body.
    ///
    /// An empty body is accepted, because the decoder reports it as an incomplete response.
    pub(crate) async fn check_beginning(
        &mut self,
        is_wanted: impl Fn(&[u8]) -> Option<bool>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Result<(), Vec<u8>>, ProviderError> {
        let mut read = Vec::new();
        loop {
            match is_wanted(&read) {
                Some(true) => {
                    self.read = read.into();
                    return Ok(Ok(()));
                }
                // Limits the bytes, because a server may send white space without end.
                None if read.len() < MAX_EXPLANATION_BYTES => {}
                _ => return Ok(Err(read_more(&mut self.chunks, read, deadline()).await)),
            }
            match poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await {
                Some(chunk) => read.extend_from_slice(&chunk?),
                None if read.trim_ascii().is_empty() => {
                    self.read = read.into();
                    return Ok(Ok(()));
                }
                None => return Ok(Err(read)),
            }
        }
    }

    /// Shortens the idle timeout to at most 50 ms, because only the end of the body is missing. Returns `true` if the
    /// caller should wait for this end. Returns `false` on wasm32, where the browser itself reads to the end.
    pub(crate) fn expect_end(&mut self) -> bool {
        self.idle = Duration::from_millis(50).min(self.idle);
        cfg!(not(target_family = "wasm"))
    }

    /// Polls the idle timer, and starts it if it does not run. Without a clock, as described for [`clock::sleep`], the
    /// timer never fires.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.idle;
        let timer =
            self.timer.get_or_insert_with(|| Box::pin(clock::within(idle, pending::<()>())));
        timer.as_mut().poll(cx).map(|_| ())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("idle", &self.idle).finish_non_exhaustive()
    }
}

impl Stream for Body {
    type Item = Result<Bytes, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.read.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.read))));
        }
        match self.chunks.poll_next(cx) {
            Poll::Ready(next) => {
                self.timer = None;
                let broken = |error: BoxError| transport::broken_stream(&self.uri, &*error);
                Poll::Ready(next.map(|chunk| chunk.map_err(broken)))
            }
            Poll::Pending => {
                let idle = self.idle;
                self.poll_idle(cx).map(|()| {
                    // An ended timer must not be polled again.
                    self.timer = None;
                    Some(Err(ProviderError::Timeout(idle)))
                })
            }
        }
    }
}
