//! Detection of idle connections that the server closed.
//!
//! A server closes a connection that was idle for some time. This may happen while a request is sent on the connection.
//! hyper itself sends the request again if hyper had not started to write it. After the start, hyper cannot know how
//! much the server has read, and returns an error. [`was_closed`] recognises these errors, so that the client can retry
//! the request.
//!
//! The error of a closed idle connection arrives [within a second](CLOSE_WINDOW). If a server closes the connection
//! later, it has probably processed the request. A retry could then be charged twice.
//!
//! Even within this second the server may have processed the request, so in rare cases a model call is charged twice.
//! This risk is accepted for three reasons. The server has almost always read nothing, the caller would retry anyway,
//! and the official clients of OpenAI and Anthropic retry every failed connection twice.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Extensions;
use hyper_util::client::legacy;

use crate::transport::causes;

/// Maximum time between sending a request and the error of a closed idle connection. After a later error the request is
/// not sent again.
pub(crate) const CLOSE_WINDOW: Duration = Duration::from_secs(1);

/// A flag of a connection, which is `true` after the connection's first response. The pool attaches the flag to each
/// response and each error of the connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct HasServed(Arc<AtomicBool>);

impl HasServed {
    /// Sets the flag [`HasServed`] of a connection after a response. `extensions` are those of the response.
    pub(crate) fn mark(extensions: &Extensions) {
        if let Some(Self(has_served)) = extensions.get() {
            has_served.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns `true` if the server closed or reset a connection before a complete response head, and the connection had
/// served an earlier response.
///
/// hyper reports the same error whether a part of the response head arrived or nothing.
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

/// Returns `true` if an I/O error means that the peer closed or reset the connection.
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
