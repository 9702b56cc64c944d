//! Detection of idle connections that the server closed.
//!
//! A server closes a connection that has been idle for some time, and may do so while a request is in flight. hyper
//! sends a request again if it had not begun to write it. Otherwise it cannot know how much the server has read, and
//! reports an error. [`was_closed`] recognises these errors.
//!
//! A server that closes an idle connection does so [within a second](CLOSE_WINDOW). A server that closes a connection
//! later has processed the request, and a second attempt would be paid twice.
//!
//! Even within that second the server may have processed the request, so in rare cases a model is paid twice. That is
//! accepted because the server nearly always has read nothing, because the caller would retry anyway, and because the
//! official clients of OpenAI and Anthropic repeat any failed connection twice.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Extensions;
use hyper_util::client::legacy;

use crate::transport::causes;

/// Maximum time between sending a request and the error of a closed idle connection.
pub(crate) const CLOSE_WINDOW: Duration = Duration::from_secs(1);

/// A flag of a connection, set after its first response. The pool attaches it to each response and each error.
#[derive(Debug, Clone, Default)]
pub(crate) struct HasServed(Arc<AtomicBool>);

impl HasServed {
    /// Sets the flag of the connection that received a response.
    pub(crate) fn mark(extensions: &Extensions) {
        if let Some(Self(has_served)) = extensions.get() {
            has_served.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns `true` if the server closed or reset a connection after an earlier response, before a complete response
/// head.
///
/// hyper does not distinguish a partial response head from a missing one.
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
