//! A loopback server with TLS that speaks HTTP/2 or HTTP/1.1.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// The protocols that a server offers in the TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocols {
    Both,
    Http1,
    /// The server has no such extension, and speaks HTTP/1.1.
    None,
}

/// A running server. It stops with the runtime of the test.
pub(super) struct Server {
    pub(super) url: String,
    connections: Arc<AtomicUsize>,
    closing: watch::Sender<usize>,
    closed: watch::Receiver<usize>,
}

impl Server {
    /// Starts a server that accepts `streams` requests at the same time on a connection with HTTP/2.
    pub(super) async fn start<H, F>(protocols: Protocols, streams: u32, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let connections = Arc::new(AtomicUsize::new(0));
        let (closing, closing_seen) = watch::channel(0);
        let (closed_seen, closed) = watch::channel(0);
        let acceptor = acceptor(protocols);
        let handler = Arc::new(handler);
        let count = Arc::clone(&connections);
        let closed_seen = Arc::new(closed_seen);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
                let mut closing = closing_seen.clone();
                let closed = Arc::clone(&closed_seen);
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| {
                        let answer = handler(request);
                        async move { Ok::<_, Infallible>(answer.await) }
                    });
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let io = TokioIo::new(stream);
                    if !is_http2 {
                        let _ = http1::Builder::new().serve_connection(io, service).await;
                        return;
                    }
                    closing.mark_unchanged();
                    let mut builder = http2::Builder::new(TokioExecutor::new());
                    builder.max_concurrent_streams(streams);
                    let mut connection = Box::pin(builder.serve_connection(io, service));
                    tokio::select! {
                        _ = &mut connection => {}
                        Ok(()) = closing.changed() => {
                            connection.as_mut().graceful_shutdown();
                            let _ = connection.await;
                        }
                    }
                    closed.send_modify(|count| *count += 1);
                });
            }
        });
        Self { url, connections, closing, closed }
    }

    /// Returns the number of accepted connections.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Closes all connections with GOAWAY, and waits until they are closed.
    pub(super) async fn close_gracefully(&self) {
        let connections = self.connections();
        self.closing.send_modify(|count| *count += 1);
        let mut closed = self.closed.clone();
        closed.wait_for(|closed| *closed == connections).await.expect("a server");
    }
}

/// Returns the acceptor of TLS connections.
pub(super) fn acceptor(protocols: Protocols) -> TlsAcceptor {
    const SERVER: &[u8] = include_bytes!("../tls/server.pem");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(SERVER).collect::<Result<_, _>>().expect("PEM");
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(SERVER).expect("PEM"))
        .expect("a certificate and its key");
    config.alpn_protocols = match protocols {
        Protocols::Both => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocols::Http1 => vec![b"http/1.1".to_vec()],
        Protocols::None => Vec::new(),
    };
    TlsAcceptor::from(Arc::new(config))
}

/// Returns the response `{}`.
pub(super) fn answer() -> Answer {
    Response::new(Full::new(Bytes::from_static(b"{}")).boxed())
}

/// Returns a response whose body has a beginning and no end.
pub(super) fn endless() -> Answer {
    use futures_util::StreamExt as _;

    let beginning = stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
    Response::new(BodyExt::boxed(StreamBody::new(beginning.chain(stream::pending()))))
}

/// Returns a value that sends a message when it is dropped.
pub(super) fn hold(sender: mpsc::UnboundedSender<()>) -> impl Drop {
    struct Held(mpsc::UnboundedSender<()>);
    impl Drop for Held {
        fn drop(&mut self) {
            // The test may have ended.
            let _ = self.0.send(());
        }
    }
    Held(sender)
}
