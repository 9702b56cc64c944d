//! A response of a loopback server and its encoding on the wire.

use neuron_types::EmbeddingResponse;

use super::Wire;
use crate::Reply;

/// A response of a loopback server.
///
/// Servers accept every type that converts into a `ServerReply`: a [`Reply`], a text, a response, embeddings or an
/// error.
///
/// # Example
///
/// ```
/// use neuron_testing::{Reply, ServerReply, Wire};
///
/// let script = [
///     ServerReply::raw(502, [("content-type", "text/html")], "<h1>Bad Gateway</h1>"),
///     Reply::text("hello").over(Wire::default().cut_at(100)),
///     ServerReply::from("hello again").header("retry-after-ms", "20"),
/// ];
/// # let _ = script;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ServerReply {
    pub(crate) source: Source,
    /// The encoding on the wire. `None` means the encoding of the server.
    pub(crate) wire: Option<Wire>,
    /// Headers in addition to the headers of the vendor.
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Reply(Box<Reply>),
    Embeddings(Box<EmbeddingResponse>),
    Raw { status: u16, body: Vec<u8> },
}

impl ServerReply {
    /// Creates a reply with this status, these headers and this body.
    ///
    /// Without a `content-length` header the body is sent in chunks.
    pub fn raw(
        status: u16,
        headers: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
        body: impl Into<Vec<u8>>,
    ) -> Self {
        headers
            .into_iter()
            .fold(Self::new(Source::Raw { status, body: body.into() }), |reply, (name, value)| {
                reply.header(name, value)
            })
    }

    /// Sets how the bytes are written and cut. Replaces the setting of the server.
    pub fn over(self, wire: Wire) -> Self {
        Self { wire: Some(wire), ..self }
    }

    /// Adds a response header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn new(source: Source) -> Self {
        Self { source, wire: None, headers: Vec::new() }
    }
}

impl Reply {
    /// Converts the reply to a server reply, and sets how its bytes are written and cut.
    pub fn over(self, wire: Wire) -> ServerReply {
        ServerReply::from(self).over(wire)
    }
}

impl<T: Into<Reply>> From<T> for ServerReply {
    fn from(reply: T) -> Self {
        Self::new(Source::Reply(Box::new(reply.into())))
    }
}

/// Creates a reply to a request for embeddings. An empty model is replaced by the model of the request.
impl From<EmbeddingResponse> for ServerReply {
    fn from(response: EmbeddingResponse) -> Self {
        Self::new(Source::Embeddings(Box::new(response)))
    }
}
