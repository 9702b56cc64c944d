//! Connections that were idle and that the server closed.
//!
//! A server closes a connection that has been idle for some time, and may do so while a request is on its way. hyper
//! sends a request again if it had not begun to write it. Once it has written a part, it cannot know how much the
//! server read, and reports an error. [`was_closed`] recognises these errors.
//!
//! A server that closes an idle connection does so [at once](AT_ONCE). A server that closes a connection later has worked
//! on the request, which would be paid twice.
//!
//! The server may have processed the request nevertheless, so in a rare case a model is paid twice. That is accepted
//! because nearly always the server saw nothing, because the caller would call again anyhow, and because the official
//! clients of OpenAI and Anthropic do more: they repeat any failed connection twice.

use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::transport::causes;

/// Maximum time from the sending of a request until a connection that was idle is found to be closed.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// Set when the request of this task makes a connection.
    static HAS_CONNECTED: Arc<AtomicBool>;
}

/// Runs a request. Returns `true` beside its result if a connection was begun for it.
pub(crate) async fn note_connections<T>(request: impl Future<Output = T>) -> (T, bool) {
    let has_connected = Arc::new(AtomicBool::new(false));
    let result = HAS_CONNECTED.scope(Arc::clone(&has_connected), request).await;
    (result, has_connected.load(Ordering::Relaxed))
}

/// Records that a connection begins.
pub(crate) fn note_connection() {
    // Outside of the scope hyper finishes a connection that no request waits for.
    let _ = HAS_CONNECTED.try_with(|connected| connected.store(true, Ordering::Relaxed));
}

/// Returns `true` if the server closed or reset the connection before the head of its response was complete.
///
/// hyper does not distinguish a head that was cut from one that never began.
pub(crate) fn was_closed(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        let hyper = cause.downcast_ref::<hyper::Error>();
        hyper.is_some_and(hyper::Error::is_incomplete_message)
            || cause.downcast_ref().is_some_and(is_reset)
    })
}

fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::NotConnected
            | Kind::UnexpectedEof
    )
}
