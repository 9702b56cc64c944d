//! A response of a loopback server and its encoding on the wire.

use neuron_types::EmbeddingResponse;

use super::Wire;
use crate::Reply;

/// A response of a loopback server.
///
/// Servers accept every type that converts into a `ServerReply`. These types are [`Reply`], strings,
/// [`CompletionResponse`], [`EmbeddingResponse`] and [`ProviderError`].
///
/// [`CompletionResponse`]: neuron_types::CompletionResponse
/// [`ProviderError`]: neuron_types::ProviderError
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
    /// The line format, splits and cuts of the reply. `None` selects the [`Wire`] of the server.
    pub(crate) wire: Option<Wire>,
    /// Response headers in addition to the vendor's own.
    pub(crate) headers: Vec<(String, String)>,
}

/// The content of a server reply.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Reply(Box<Reply>),
    Embeddings(Box<EmbeddingResponse>),
    Raw { status: u16, body: Vec<u8> },
}

impl ServerReply {
    /// Creates a reply with any status, headers and body. The server sends them unchanged.
    ///
    /// Without a `content-length` header the body is sent with `transfer-encoding: chunked`.
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

    /// Sets how the bytes of this reply are encoded, split and cut. Overrides the [`Wire`] of the server.
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
    /// Converts the reply to a [`ServerReply`]. `wire` sets how its bytes are encoded, split and cut.
    pub fn over(self, wire: Wire) -> ServerReply {
        ServerReply::from(self).over(wire)
    }
}

impl<T: Into<Reply>> From<T> for ServerReply {
    fn from(reply: T) -> Self {
        Self::new(Source::Reply(Box::new(reply.into())))
    }
}

/// Creates a reply to a request for embeddings. If `response.model` is empty, the server sends the model of the
/// request.
impl From<EmbeddingResponse> for ServerReply {
    fn from(response: EmbeddingResponse) -> Self {
        Self::new(Source::Embeddings(Box::new(response)))
    }
}
