//! Recognises idle connections that the server closed.
//!
//! A server may close an idle connection while a request is sent on it. hyper sends the request again if it had not
//! started to write it. Otherwise hyper returns an error, because the server may have read the request. [`was_closed`]
//! recognises this error, so that the client can retry the request.
//!
//! The error of a closed idle connection arrives [within a second](CLOSE_WINDOW). After a later error the request is
//! not retried, because the server has probably processed it and would charge it twice.
//!
//! Even within this second, the server may in rare cases have processed the request. The risk of a second charge is
//! accepted for these reasons:
//!
//! - The server has almost always read nothing.
//! - The caller would retry anyway.
//! - The official clients of OpenAI and Anthropic retry every failed connection twice.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Extensions;
use hyper_util::client::legacy;

use crate::transport::causes;

/// Maximum time from the start of a request to the error of a closed idle connection. A request that fails later is not
/// sent again.
pub(crate) const CLOSE_WINDOW: Duration = Duration::from_secs(1);

/// A flag that is `true` after the first response of a connection. The pool attaches the connection's flag to each of
/// its responses and errors.
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

/// Returns `true` if the server closed or reset a connection after an earlier response, and before the head of the next
/// response was complete.
///
/// A part of this head may have arrived, because hyper does not report the difference.
pub(crate) fn was_closed(error: &legacy::Error) -> bool {
    let Some(connection) = error.connect_info() else {
        return false;
    };
    let mut extensions = Extensions::new();
    connection.get_extras(&mut extensions);
    let has_served =
        extensions.get().is_some_and(|HasServed(has_served)| has_served.load(Ordering::Relaxed));
    has_served && is_close(error)
}

/// Returns `true` if an error means that the peer closed or reset the connection.
pub(crate) fn is_close(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
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
