//! Opens connections, directly or through a proxy, with TLS if the scheme of the URL is `https` ([`Connector`]).

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use neuron_model::BoxError;
use rustls::ClientConfig;
use tokio::time::Instant;
use tower_service::Service;

use crate::idle::HasServed;

/// Opens connections to one server, directly or through a proxy.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    /// The TLS of connections that offer only HTTP/1.1, and of connections to a proxy.
    tls: Arc<ClientConfig>,
    /// The TLS of connections that offer HTTP/2.
    tls_http2: Arc<ClientConfig>,
    /// A new connection whose server chose HTTP/1.1. [`Service::call`] returns it instead of opening another one.
    kept: Arc<Mutex<Option<(Instant, Io)>>>,
    proxy: Option<Arc<Intercept>>,
    timeout: Duration,
}

impl Connector {
    /// Creates a connector to the server of `uri`. `timeout` is the maximum time for opening a connection, including
    /// the TLS handshake and the settings of HTTP/2.
    ///
    /// # Errors
    ///
    /// Returns an error if the root certificates of the operating system cannot be used.
    pub(crate) fn new(uri: &Uri, timeout: Duration) -> Result<Self, rustls::Error> {
        let proxy = proxy(uri).map(Arc::new);
        let proxy_scheme = proxy.as_ref().and_then(|proxy| proxy.uri().scheme());
        let uses_tls = [uri.scheme(), proxy_scheme].contains(&Some(&Scheme::HTTPS));
        let tls = tls_config(uses_tls)?;
        let mut tls_http2 = tls.clone();
        tls_http2.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Keepalive detects a dead peer during a long wait for a response.
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(2 * KEEPALIVE));
        Ok(Self {
            tcp,
            tls: Arc::new(tls),
            tls_http2: Arc::new(tls_http2),
            kept: Arc::default(),
            proxy,
            timeout,
        })
    }

    /// Returns the maximum time for opening a connection.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Opens a connection that offers HTTP/2.
    pub(crate) async fn open(&self, uri: Uri) -> Result<Io, ConnectError> {
        let opened = self.connect_in_time(uri, &self.tls_http2).await;
        opened.map_err(ConnectError::new)
    }

    /// Keeps a new connection for the next request over HTTP/1.1.
    pub(crate) fn keep(&self, io: Io) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), io));
    }

    /// Returns the connection that was kept. Returns `None` if there is none, or if it is older than a second, because
    /// the server may have closed it.
    fn take_kept(&self) -> Option<Io> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|(since, _)| since.elapsed() < MAX_KEPT).map(|(_, io)| io)
    }

    /// Opens a connection within the timeout.
    async fn connect_in_time(&self, uri: Uri, tls: &Arc<ClientConfig>) -> Result<Io, BoxError> {
        match tokio::time::timeout(self.timeout, self.connect(uri, tls)).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("no connection within {:?}", self.timeout).into()),
        }
    }

    /// Returns the credentials that a request must send to a proxy. Returns `None` if there is no proxy, or if the
    /// request is tunnelled through the proxy. `connect_through` sends the credentials for a tunnel.
    pub(crate) fn proxy_authorization(&self, uri: &Uri) -> Option<&HeaderValue> {
        let proxy = self.proxy.as_ref().filter(|_| uri.scheme() == Some(&Scheme::HTTP))?;
        proxy.basic_auth()
    }

    /// Opens a connection, through the proxy if there is one.
    async fn connect(&self, uri: Uri, tls: &Arc<ClientConfig>) -> Result<Io, BoxError> {
        let Some(proxy) = &self.proxy else {
            return self.connect_to(uri, tls, false).await;
        };
        let connected = self.connect_through(proxy, uri, tls).await;
        connected.map_err(|source| ProxyError::boxed(proxy, source))
    }

    /// Opens a connection to a server or a proxy. The connection uses TLS if the scheme of `uri` is `https`. Pass
    /// `true` for `is_forwarded` if the peer is a proxy that forwards plain HTTP.
    async fn connect_to(
        &self,
        uri: Uri,
        tls: &Arc<ClientConfig>,
        is_forwarded: bool,
    ) -> Result<Io, BoxError> {
        let mut tcp = self.tcp.clone();
        if uri.scheme() == Some(&Scheme::HTTP) {
            return Ok(Io::new(tcp.call(uri).await?, is_forwarded));
        }
        let mut https = HttpsConnector::from((tcp, Arc::clone(tls)));
        Ok(Io::new(https.call(uri).await?, is_forwarded))
    }

    /// Opens a connection through a proxy. HTTPS is tunnelled with `CONNECT`, and plain HTTP is forwarded.
    async fn connect_through(
        &self,
        proxy: &Intercept,
        uri: Uri,
        tls: &Arc<ClientConfig>,
    ) -> Result<Io, BoxError> {
        let address = proxy.uri().clone();
        let scheme = address.scheme_str().unwrap_or_default();
        if !["http", "https"].contains(&scheme) {
            let text = format!("its scheme `{scheme}` is not supported, only `http` and `https`");
            return Err(text.into());
        }
        if uri.scheme() == Some(&Scheme::HTTP) {
            return self.connect_to(address, &self.tls, true).await;
        }
        // `CONNECT` is sent over HTTP/1.1.
        let to_proxy = HttpsConnector::from((self.tcp.clone(), Arc::clone(&self.tls)));
        let mut tunnel = Tunnel::new(address, to_proxy);
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let mut https = HttpsConnector::from((tunnel, Arc::clone(tls)));
        Ok(Io::new(https.call(uri).await?, false))
    }
}

/// Maximum age of a connection that is kept for the next request.
const MAX_KEPT: Duration = Duration::from_secs(1);

/// Idle time before the first keepalive probe, and the interval between probes.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(15);

/// Returns the proxy for a URL, which environment variables such as `HTTPS_PROXY` set. Returns `None` if there is no
/// proxy, and for a loopback address.
fn proxy(uri: &Uri) -> Option<Intercept> {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost"
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_local { None } else { Matcher::from_env().intercept(uri) }
}

/// Returns a TLS configuration with the cryptography of `ring`. If `is_used` is `true`, it trusts the root certificates
/// of the operating system. Pass `false` if all connections use plain HTTP.
fn tls_config(is_used: bool) -> Result<ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = if is_used {
        builder.with_platform_verifier()?
    } else {
        // The root certificates are not loaded, because plain HTTP must work on a machine without certificates.
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

impl Service<Uri> for Connector {
    type Response = Io;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Io, BoxError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            match connector.take_kept() {
                Some(io) => Ok(io),
                None => connector.connect_in_time(uri, &connector.tls).await,
            }
        })
    }
}

/// The error of a connection that was not opened. Requests that waited for the same connection share it.
#[derive(Debug, Clone)]
pub(crate) struct ConnectError(Arc<dyn std::error::Error + Send + Sync>);

impl ConnectError {
    pub(crate) fn new(source: impl Into<BoxError>) -> Self {
        Self(source.into().into())
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot connect")
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// The error of a connection through a proxy, which names the proxy.
#[derive(Debug)]
struct ProxyError {
    /// Host and port of the proxy, without its credentials.
    proxy: String,
    source: BoxError,
}

impl ProxyError {
    fn boxed(proxy: &Intercept, source: BoxError) -> BoxError {
        let uri = proxy.uri();
        let mut proxy = uri.host().unwrap_or_default().to_owned();
        if let Some(port) = uri.port() {
            proxy = format!("{proxy}:{port}");
        }
        Box::new(Self { proxy, source })
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "through the proxy {}", self.proxy)
    }
}

impl std::error::Error for ProxyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// An open connection to a server or a proxy, with or without TLS.
pub(crate) struct Io {
    stream: Box<dyn Stream>,
    /// Set if the peer is a proxy that forwards plain HTTP. Requests on this connection then contain the whole URL.
    is_forwarded: bool,
}

/// A byte stream of a connection, for boxing.
trait Stream: Read + Write + Connection + Send + Unpin {}

impl<S: Read + Write + Connection + Send + Unpin> Stream for S {}

impl Io {
    fn new(stream: impl Stream + 'static, is_forwarded: bool) -> Self {
        Self { stream: Box::new(stream), is_forwarded }
    }

    /// Returns `true` if the peer chose HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.stream.connected().is_negotiated_h2()
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").finish_non_exhaustive()
    }
}

impl Connection for Io {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_forwarded).extra(HasServed::default())
    }
}

impl Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}
