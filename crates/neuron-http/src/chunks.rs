//! The chunks of a response body from any HTTP client ([`Chunks`]).

use std::fmt;
#[cfg(not(target_family = "wasm"))]
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use neuron_model::BoxError;

#[cfg(not(target_family = "wasm"))]
use crate::http2::Place;

/// The chunks of a response body.
#[cfg(not(target_family = "wasm"))]
pub(crate) enum Chunks {
    /// The body of hyper's client, which this crate uses by default.
    Incoming(hyper::body::Incoming),
    /// A body on a shared HTTP/2 connection. It has a place on the connection until it ends.
    Shared { body: hyper::body::Incoming, place: Option<Place> },
    /// The boxed body of a client that the caller provides.
    Boxed(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>),
}

#[cfg(not(target_family = "wasm"))]
impl Chunks {
    /// Boxes the body of a client that the caller provides.
    pub(crate) fn boxed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        use http_body_util::BodyExt as _;

        Self::Boxed(Box::pin(body.map_err(Into::into)))
    }

    /// Polls for the next chunk. Returns `None` at the end of the body.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        use http_body::Body as _;

        loop {
            let frame = match self {
                Self::Incoming(body) => {
                    ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(BoxError::from))
                }
                Self::Shared { body, place } => {
                    let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
                    if !matches!(frame, Some(Ok(_))) {
                        *place = None;
                    }
                    // hyper returns no error for GOAWAY and RST_STREAM with the code NO_ERROR.
                    if frame.is_none() && !body.is_end_stream() {
                        let error = "the server reset the stream before its end";
                        return Poll::Ready(Some(Err(error.into())));
                    }
                    frame.map(|frame| frame.map_err(BoxError::from))
                }
                Self::Boxed(body) => ready!(body.as_mut().poll_frame(cx)),
            };
            match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                None => return Poll::Ready(None),
                Some(Ok(Ok(chunk))) => return Poll::Ready(Some(Ok(chunk))),
                // Trailers are ignored.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

/// The chunks of a response body on wasm32, from `reqwest`.
#[cfg(target_family = "wasm")]
pub(crate) struct Chunks(pub(crate) neuron_model::WasmBoxedStream<'static, reqwest::Result<Bytes>>);

#[cfg(target_family = "wasm")]
impl Chunks {
    /// Polls for the next chunk. Returns `None` at the end of the body.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        let chunk = ready!(self.0.as_mut().poll_next(cx));
        Poll::Ready(chunk.map(|chunk| chunk.map_err(|error| error.without_url().into())))
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").finish_non_exhaustive()
    }
}
