//! Reads response bodies, either completely or in chunks ([`Body`]).

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Response, Uri};
use neuron_model::{AnswerMetadata, BoxError, ProviderError, WasmBoxedFuture, clock};

use crate::OriginalNames;
use crate::content::Content;
use crate::deadline::{Deadline, Instant};
use crate::headers::metadata;
use crate::transport;

/// Maximum size in bytes of a body that is read completely (256 MiB). The longest known response is a batch of 2,048
/// embeddings with 3,072 numbers each, which has 82 MB as text.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// Reads a body completely, before the deadline. The limit of the size counts decoded bytes.
///
/// # Errors
///
/// - [`ProviderError::Network`] if the transfer fails.
/// - [`ProviderError::Timeout`] at the deadline.
/// - [`ProviderError::Other`] if the body has more than 256 MiB.
pub(crate) async fn read_body(
    mut content: Content,
    uri: &Uri,
    deadline: Deadline,
) -> Result<Vec<u8>, ProviderError> {
    let body = deadline.within(read_all(&mut content, uri, MAX_BODY_BYTES)).await??;
    #[cfg(not(target_family = "wasm"))]
    yield_now().await;
    Ok(body)
}

/// Reads a body of at most `most` decoded bytes.
async fn read_all(content: &mut Content, uri: &Uri, most: usize) -> Result<Vec<u8>, ProviderError> {
    let mut body = Vec::new();
    while let Some(chunk) = next(content).await {
        let chunk = chunk.map_err(|error| transport::broken_body(uri, &*error))?;
        if body.len() + chunk.len() > most {
            return Err(ProviderError::Other("the response is too large".into()));
        }
        body.extend_from_slice(&chunk);
    }
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
pub(crate) async fn read_beginning(mut content: Content, deadline: Deadline) -> Vec<u8> {
    read_more(&mut content, Vec::new(), deadline).await
}

/// Reads on until the beginning of a body is complete. `body` contains the bytes that were already read.
async fn read_more(content: &mut Content, mut body: Vec<u8>, deadline: Deadline) -> Vec<u8> {
    let read = async {
        while body.len() < MAX_EXPLANATION_BYTES
            && let Some(Ok(chunk)) = next(content).await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // A timeout is not an error here, because the bytes that arrived in time are used.
    let _ = deadline.within(read).await;
    body
}

async fn next(content: &mut Content) -> Option<Result<Bytes, BoxError>> {
    poll_fn(|cx| content.poll_next(cx)).await
}

/// The clock of a timer, which is the tokio runtime. `None` outside of a runtime.
#[cfg(not(target_family = "wasm"))]
pub(crate) type Clock = Option<tokio::runtime::Id>;

/// The clock of a timer. There is only one on wasm32.
#[cfg(target_family = "wasm")]
type Clock = ();

/// Returns the clock of the current thread.
pub(crate) fn current_clock() -> Clock {
    #[cfg(not(target_family = "wasm"))]
    tokio::runtime::Handle::try_current().ok().map(|runtime| runtime.id())
}

/// The body of a response, as a stream of chunks. The next chunk is an error if it does not arrive within the idle
/// timeout.
pub struct Body {
    /// Bytes that were read by `check_beginning` and not returned yet.
    read: Bytes,
    content: Content,
    uri: Uri,
    /// Idle timeout, which is the maximum wait for the next chunk.
    idle: Duration,
    /// Request id and rate limits from the response's headers.
    pub(crate) metadata: AnswerMetadata,
    /// The original names of tools that have another name in the request.
    pub(crate) names: OriginalNames,
    /// Start of the wait for the next chunk. `None` if no chunk is awaited.
    awaited: Option<Instant>,
    /// Timer of the idle timeout, with its clock. The timer keeps running when a chunk arrives, and starts again for the
    /// rest of the wait if it fires too early. A stream with short waits therefore needs one timer and not one for each
    /// chunk.
    timer: Option<(Clock, WasmBoxedFuture<'static, Option<()>>)>,
}

impl Body {
    pub(crate) fn new(
        response: Response<Content>,
        uri: Uri,
        idle: Duration,
        names: OriginalNames,
    ) -> Self {
        Self {
            uri,
            metadata: metadata(response.headers()),
            names,
            read: Bytes::new(),
            content: response.into_body(),
            idle,
            awaited: None,
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
                _ => return Ok(Err(read_more(&mut self.content, read, deadline()).await)),
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
        // The timer of an earlier wait may run for longer.
        self.timer = None;
        cfg!(not(target_family = "wasm"))
    }

    /// Polls the idle timer, and starts it if it does not run. Without a clock, as described for [`clock::sleep`], the
    /// timer never fires.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.idle;
        let awaited = *self.awaited.get_or_insert_with(Instant::now);
        // A timer stops with the runtime in which it was started.
        let clock = current_clock();
        self.timer.take_if(|(started, _)| *started != clock);
        loop {
            let (_, timer) = self.timer.get_or_insert_with(|| {
                let left = idle.saturating_sub(awaited.elapsed());
                (clock, Box::pin(clock::within(left, pending::<()>())))
            });
            ready!(timer.as_mut().poll(cx));
            // An ended timer must not be polled again.
            self.timer = None;
            if awaited.elapsed() >= idle {
                self.awaited = None;
                return Poll::Ready(());
            }
        }
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
        match self.content.poll_next(cx) {
            Poll::Ready(next) => {
                self.awaited = None;
                let broken = |error: BoxError| transport::broken_stream(&self.uri, &*error);
                Poll::Ready(next.map(|chunk| chunk.map_err(broken)))
            }
            Poll::Pending => {
                self.poll_idle(cx).map(|()| Some(Err(ProviderError::Timeout(self.idle))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use tokio::time::sleep;

    use super::*;
    use crate::chunks::Chunks;
    use crate::content::Encoding;

    const IDLE: Duration = Duration::from_secs(60);

    /// Returns a body whose chunks arrive after these waits. After the last chunk it never ends.
    fn body(waits: &'static [Duration]) -> Body {
        let chunk = |wait: &Duration| {
            let wait = *wait;
            async move {
                sleep(wait).await;
                Ok::<_, BoxError>(http_body::Frame::data(Bytes::from_static(b"{}")))
            }
        };
        let chunks = stream::iter(waits).then(chunk).chain(stream::pending());
        let chunks = Chunks::boxed(StreamBody::new(chunks));
        Body::new(
            Response::new(Content::new(chunks, Encoding::Identity)),
            Uri::from_static("http://h"),
            IDLE,
            OriginalNames::default(),
        )
    }

    /// A small compressed body must not fill the memory.
    #[tokio::test]
    async fn limit_of_a_body_counts_decoded_bytes() {
        use std::io::Write as _;

        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&[0; 100_000]).unwrap();
        let compressed = Bytes::from(encoder.finish().unwrap());
        assert!(compressed.len() < 1000);
        let read = async |most| {
            let chunks = Chunks::boxed(http_body_util::Full::new(compressed.clone()));
            let mut content = Content::new(chunks, Encoding::Gzip);
            read_all(&mut content, &Uri::from_static("http://h"), most).await
        };
        assert_eq!(read(100_000).await.unwrap().len(), 100_000);
        let error = read(99_999).await.unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), ("Other", "the response is too large"));
    }

    /// The timer of the first wait fires within a later wait, which then has its whole time.
    #[tokio::test(start_paused = true)]
    async fn idle_timeout_is_measured_from_the_last_chunk() {
        const WAITS: [Duration; 5] = [Duration::from_secs(45); 5];
        let mut body = body(&WAITS);
        for _ in WAITS {
            assert_eq!(body.next().await.unwrap().unwrap(), "{}");
        }
        for _ in 0..2 {
            let last = Instant::now();
            let end = body.next().await;
            assert!(matches!(end, Some(Err(ProviderError::Timeout(IDLE)))), "{end:?}");
            let waited = last.elapsed();
            assert!(waited >= IDLE && waited < IDLE + Duration::from_millis(10), "{waited:?}");
        }
    }

    /// The time between two polls is the reader's, so it does not count.
    #[tokio::test(start_paused = true)]
    async fn idle_timeout_does_not_count_the_time_of_the_reader() {
        const WAITS: [Duration; 3] =
            [Duration::from_secs(45), Duration::ZERO, Duration::from_secs(45)];
        let mut body = body(&WAITS);
        for _ in WAITS {
            assert_eq!(body.next().await.unwrap().unwrap(), "{}");
            sleep(IDLE * 5).await;
        }
        assert!(matches!(body.next().await, Some(Err(ProviderError::Timeout(IDLE)))));
    }

    /// Each poll is in another runtime, and the runtime of the first timer no longer exists.
    #[test]
    fn idle_timeout_moves_to_the_current_runtime() {
        const WAITS: [Duration; 0] = [];
        let mut body = body(&WAITS);
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(body.poll_next_unpin(&mut cx).is_pending());
        let first = runtime();
        first.block_on(async { assert!(body.poll_next_unpin(&mut cx).is_pending()) });
        drop(first);
        let end = runtime().block_on(body.next());
        assert!(matches!(end, Some(Err(ProviderError::Timeout(IDLE)))), "{end:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn expected_end_shortens_a_wait_that_has_a_timer() {
        const WAITS: [Duration; 1] = [Duration::from_secs(45)];
        let mut body = body(&WAITS);
        assert_eq!(body.next().await.unwrap().unwrap(), "{}");
        assert!(body.expect_end());
        let last = Instant::now();
        assert!(matches!(body.next().await, Some(Err(ProviderError::Timeout(_)))));
        assert!(last.elapsed() < Duration::from_millis(60), "{:?}", last.elapsed());
    }
}
