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

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Extensions;
use hyper_util::client::legacy;

use crate::transport::causes;

/// Maximum time from the sending of a request until a connection that was idle is found to be closed.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

/// A mark of a connection, set after its first response. The pool hands it out with each response and each error.
#[derive(Debug, Clone, Default)]
pub(crate) struct HasServed(Arc<AtomicBool>);

impl HasServed {
    /// Marks the connection of a response.
    pub(crate) fn mark(extensions: &Extensions) {
        if let Some(Self(has_served)) = extensions.get() {
            has_served.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns `true` if the server closed or reset a connection that was idle before, and sent no complete head of a
/// response.
///
/// hyper does not distinguish a head that was cut from one that never began.
pub(crate) fn was_closed(error: &legacy::Error) -> bool {
    let Some(connection) = error.connect_info() else {
        return false;
    };
    let mut extensions = Extensions::new();
    connection.get_extras(&mut extensions);
    let has_served =
        extensions.get().is_some_and(|HasServed(has_served)| has_served.load(Ordering::Relaxed));
    has_served
        && causes(error).any(|cause| {
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
