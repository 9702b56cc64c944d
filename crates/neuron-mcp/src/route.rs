//! The way between a client and a server, as far as spans tell of it.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use http::HeaderName;

/// The header that names a session.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The way between a client and a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// `pipe` or `tcp`. `None` for streams that the caller opened.
    pub(crate) transport: Option<&'static str>,
    /// Protocol that carries the messages (`http`).
    pub(crate) protocol: Option<&'static str>,
    /// Host and port of the server, from the URL that the client was given.
    pub(crate) server: Option<(Arc<str>, u16)>,
    /// Address of the client.
    pub(crate) client: Option<SocketAddr>,
    pub(crate) session: SessionSlot,
}

impl Route {
    /// Standard input and output.
    pub(crate) fn pipe() -> Self {
        Self { transport: Some("pipe"), ..Self::default() }
    }

    /// HTTP, which runs over TCP only, here.
    pub(crate) fn http() -> Self {
        Self { transport: Some("tcp"), protocol: Some("http"), ..Self::default() }
    }
}

/// The id of the session over HTTP. A client learns it with the answer to its first request; some servers, and
/// all since 2026-07-28, have no sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSlot(Arc<OnceLock<Arc<str>>>);

impl SessionSlot {
    pub(crate) fn set(&self, id: impl Into<Arc<str>>) {
        // A connection has one session.
        self.0.get_or_init(|| id.into());
    }

    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(AsRef::as_ref)
    }
}
