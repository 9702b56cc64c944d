//! Transport, addresses and session of a connection, for the attributes of spans.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use http::HeaderName;

/// The HTTP header that contains the session id.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The transport, the addresses and the session between a client and a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// Value of the span attribute `network.transport`, either `pipe` or `tcp`. `None` if the user of this crate
    /// supplied the streams, whose kind is unknown.
    pub(crate) transport: Option<&'static str>,
    /// Name of the protocol that carries the messages. `http` for connections over HTTP, and `None` for all others.
    pub(crate) protocol: Option<&'static str>,
    /// Host and port of the server, from the URL in the client's configuration. `None` in a server, and for a client
    /// that does not use HTTP.
    pub(crate) server: Option<(Arc<str>, u16)>,
    /// Address of the client. `None` in a client, and if the server does not know the address.
    pub(crate) client: Option<SocketAddr>,
    /// The session id, once it is known.
    pub(crate) session: SessionSlot,
}

impl Route {
    /// Returns the [`Route`] of a connection over standard input and output.
    pub(crate) fn pipe() -> Self {
        Self { transport: Some("pipe"), ..Self::default() }
    }

    /// Returns the [`Route`] of a connection over HTTP, without addresses. The value of `transport` is `tcp`.
    pub(crate) fn http() -> Self {
        Self { transport: Some("tcp"), protocol: Some("http"), ..Self::default() }
    }
}

/// The session id of an HTTP connection, once it is known. A client receives the id with the response to its first
/// request.
///
/// Stays empty if the server has no sessions, which is always the case since protocol version 2026-07-28.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSlot(Arc<OnceLock<Arc<str>>>);

impl SessionSlot {
    /// Stores the session id. Does nothing if the slot already has an id.
    pub(crate) fn set(&self, id: impl Into<Arc<str>>) {
        // A connection has one session.
        self.0.get_or_init(|| id.into());
    }

    /// Returns the session id. Returns `None` if the id is not known yet, or if the connection has no session.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(AsRef::as_ref)
    }
}
