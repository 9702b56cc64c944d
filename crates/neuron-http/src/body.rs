//! Bodies: read whole, or as they arrive.

use std::fmt;
#[cfg(not(target_family = "wasm"))]
use std::future::Future;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Response, Uri};
use neuron_types::{AnswerMetadata, BoxError, ProviderError};

use crate::chunks::Chunks;
use crate::deadline::Deadline;
use crate::headers::metadata;
use crate::transport;

/// The most bytes that a body which is read whole may have. Answers of models stay far below it; the
/// largest batch of embeddings (2,048 vectors of 3,072 numbers, as text) has 82 MB.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// Reads a whole body.
///
/// # Errors
///
/// [`ProviderError::Network`] or [`ProviderError::Timeout`]; [`ProviderError::Other`] for a body
/// that does not end.
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
    give_way().await;
    Ok(body)
}

/// Lets others have a turn. Once a body has been read the client takes its connection back, in a task
/// of its own: who asks again at once would come before it, and open another.
#[cfg(not(target_family = "wasm"))]
async fn give_way() {
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

/// The length of the beginning of a body that explains something, in bytes.
const ENOUGH: usize = 64 * 1024;

/// Reads the beginning of a body that explains a status: what comes of it is better than nothing.
pub(crate) async fn read_beginning(mut chunks: Chunks, deadline: Deadline) -> Vec<u8> {
    read_more(&mut chunks, Vec::new(), deadline).await
}

/// Reads on from the beginning of a body that has been read already.
async fn read_more(chunks: &mut Chunks, mut body: Vec<u8>, deadline: Deadline) -> Vec<u8> {
    let read = async {
        while body.len() < ENOUGH
            && let Some(Ok(chunk)) = next(chunks).await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // What had come by then is kept.
    let _ = deadline.within(read).await;
    body
}

async fn next(chunks: &mut Chunks) -> Option<Result<Bytes, BoxError>> {
    poll_fn(|cx| chunks.poll_next(cx)).await
}

/// A response's body as it arrives, which must not stand still for longer than the idle limit.
pub struct Body {
    /// Bytes that were read in advance.
    read: Bytes,
    chunks: Chunks,
    uri: Uri,
    idle: Duration,
    /// The facts in the response's headers.
    pub(crate) metadata: AnswerMetadata,
    /// Runs while a piece is waited for.
    #[cfg(not(target_family = "wasm"))]
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Body {
    pub(crate) fn new(response: Response<Chunks>, uri: Uri, idle: Duration) -> Self {
        Self {
            uri,
            metadata: metadata(response.headers()),
            read: Bytes::new(),
            chunks: response.into_body(),
            idle,
            #[cfg(not(target_family = "wasm"))]
            timer: None,
        }
    }

    /// Reads until `is_wanted` recognises the beginning, which remains a part of the body. Returns the beginning of a
    /// body that is not wanted.
    ///
    /// An empty body is wanted, because an answer that ends too early has an error of its own.
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
                // White space need not end.
                None if read.len() < ENOUGH => {}
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

    /// Waits no longer than a moment for what comes now, which should be the end. Says whether there
    /// is anything to wait for: the browser reads to the end by itself.
    pub(crate) fn expect_end(&mut self) -> bool {
        self.idle = Duration::from_millis(50).min(self.idle);
        cfg!(not(target_family = "wasm"))
    }

    #[cfg(not(target_family = "wasm"))]
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        timer.as_mut().poll(cx)
    }

    #[cfg(target_family = "wasm")]
    fn poll_idle(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
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
                #[cfg(not(target_family = "wasm"))]
                {
                    self.timer = None;
                }
                let broken = |error: BoxError| transport::broken_stream(&self.uri, &*error);
                Poll::Ready(next.map(|chunk| chunk.map_err(broken)))
            }
            Poll::Pending => {
                let idle = self.idle;
                self.poll_idle(cx).map(|()| Some(Err(ProviderError::Timeout(idle))))
            }
        }
    }
}
