//! HTTP below the provider: one POST, its time limits, and what goes wrong on the way.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_types::{ProviderError, WasmBoxedStream};
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url};

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// For a connection, TLS included.
    pub(crate) connect: Duration,
    /// For a whole answer, or for a stream to begin.
    pub(crate) call: Duration,
    /// Between two pieces of a stream.
    pub(crate) idle: Duration,
}

/// An HTTP client for one address. Clones share its connections.
///
/// It is made with the first request, because that may fail and constructors of providers do not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Http {
    client: Arc<OnceLock<Client>>,
}

impl Http {
    /// Sends a JSON body, and returns the response once its headers are there.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Network`] or [`ProviderError::Timeout`]. A response with any status is no
    /// error here.
    pub(crate) async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Vec<u8>,
        timeouts: Timeouts,
    ) -> Result<Response, ProviderError> {
        let client = self.client(&url, timeouts)?;
        let request = client.post(url.clone()).headers(headers).body(body);
        let sent = within(timeouts.call, request.send()).await?;
        sent.map_err(|error| network_error(&url, error))
    }

    fn client(&self, url: &Url, timeouts: Timeouts) -> Result<&Client, ProviderError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = build(url, timeouts)
            .map_err(|error| ProviderError::Network(Box::new(Transport::new("TLS", &*error))))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Reads a whole body.
pub(crate) async fn read_body(
    response: Response,
    timeouts: Timeouts,
) -> Result<Bytes, ProviderError> {
    let url = response.url().clone();
    let read = within(timeouts.call, response.bytes()).await?;
    read.map_err(|error| network_error(&url, error))
}

#[cfg(not(target_family = "wasm"))]
fn build(url: &Url, timeouts: Timeouts) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let builder = Client::builder()
        .connect_timeout(timeouts.connect)
        // A redirect would carry the key to somebody else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("neuron/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(url)?);
    // What runs on this machine is not reached through a proxy.
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    Ok(builder.build()?)
}

#[cfg(target_family = "wasm")]
fn build(_url: &Url, _timeouts: Timeouts) -> Result<Client, Box<dyn Error + Send + Sync>> {
    Ok(Client::builder().build()?)
}

/// TLS by rustls with ring, trusting what the operating system trusts.
#[cfg(not(target_family = "wasm"))]
fn tls_config(url: &Url) -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    let builder = if url.scheme() == "https" {
        builder.with_platform_verifier()?
    } else {
        // Without TLS, a machine that has no certificates will do.
        builder.with_root_certificates(rustls::RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

#[cfg(not(target_family = "wasm"))]
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Limits the time of `work`.
#[cfg(not(target_family = "wasm"))]
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, ProviderError> {
    tokio::time::timeout(limit, work).await.map_err(|_| ProviderError::Timeout(limit))
}

/// The browser limits the time of its requests itself.
#[cfg(target_family = "wasm")]
async fn within<T>(_limit: Duration, work: impl Future<Output = T>) -> Result<T, ProviderError> {
    Ok(work.await)
}

/// A response's body as it arrives, which must not stand still for longer than the idle limit.
pub(crate) struct Body {
    chunks: WasmBoxedStream<'static, reqwest::Result<Bytes>>,
    url: Url,
    idle: Duration,
    /// Runs while a piece is waited for.
    #[cfg(not(target_family = "wasm"))]
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Body {
    pub(crate) fn new(response: Response, timeouts: Timeouts) -> Self {
        Self {
            url: response.url().clone(),
            chunks: Box::pin(response.bytes_stream()),
            idle: timeouts.idle,
            #[cfg(not(target_family = "wasm"))]
            timer: None,
        }
    }

    #[cfg(not(target_family = "wasm"))]
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        timer.as_mut().poll(cx)
    }

    #[cfg(target_family = "wasm")]
    fn poll_idle(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Stream for Body {
    type Item = Result<Bytes, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.chunks.as_mut().poll_next(cx) {
            Poll::Ready(next) => {
                #[cfg(not(target_family = "wasm"))]
                {
                    self.timer = None;
                }
                Poll::Ready(
                    next.map(|chunk| chunk.map_err(|error| broken_stream(&self.url, error))),
                )
            }
            Poll::Pending => {
                let idle = self.idle;
                self.poll_idle(cx).map(|()| Some(Err(ProviderError::Timeout(idle))))
            }
        }
    }
}

fn network_error(url: &Url, error: reqwest::Error) -> ProviderError {
    ProviderError::Network(Box::new(Transport::new(&origin(url), &error.without_url())))
}

/// Whatever has been shown of a stream cannot be taken back, so a broken one is not retryable as a
/// failed connection is.
fn broken_stream(url: &Url, error: reqwest::Error) -> ProviderError {
    ProviderError::StreamError(Transport::new(&origin(url), &error.without_url()).to_string())
}

/// The address without path, query and credentials.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// What went wrong on the way, with all its causes in one line: the outermost says little.
#[derive(Debug)]
struct Transport(String);

impl Transport {
    fn new(whom: &str, error: &(dyn Error + 'static)) -> Self {
        let mut text = format!("{whom}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self(text)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Transport {}
