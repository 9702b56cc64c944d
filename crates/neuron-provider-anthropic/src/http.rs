//! HTTP below the provider: one POST, its time limits, and what goes wrong on the way.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
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
        connect: Duration,
        deadline: Deadline,
    ) -> Result<Response, ProviderError> {
        let client = self.client(&url, connect)?;
        let request = client.post(url.clone()).headers(headers).body(body);
        let sent = deadline.within(request.send()).await?;
        sent.map_err(|error| network_error(&url, error))
    }

    fn client(&self, url: &Url, connect: Duration) -> Result<&Client, ProviderError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = build(url, connect)
            .map_err(|error| ProviderError::Network(Box::new(Transport::new("TLS", &*error))))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// The most bytes that a body which is read whole may have. Answers of models stay far below it.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Reads a whole body.
///
/// # Errors
///
/// [`ProviderError::Network`] or [`ProviderError::Timeout`]; [`ProviderError::Other`] for a body
/// that does not end.
pub(crate) async fn read_body(
    response: Response,
    deadline: Deadline,
) -> Result<Vec<u8>, ProviderError> {
    let url = response.url().clone();
    let mut chunks = chunks(response);
    let mut body = Vec::new();
    let read = async {
        while let Some(chunk) = next(&mut chunks).await {
            let chunk = chunk.map_err(|error| network_error(&url, error))?;
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(ProviderError::Other("the response is too large".into()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(())
    };
    deadline.within(read).await??;
    Ok(body)
}

/// Reads the beginning of a body that explains a status: what comes of it is better than nothing.
pub(crate) async fn read_beginning(response: Response, deadline: Deadline) -> Vec<u8> {
    const ENOUGH: usize = 64 * 1024;
    let mut chunks = chunks(response);
    let mut body = Vec::new();
    let read = async {
        while body.len() < ENOUGH
            && let Some(Ok(chunk)) = next(&mut chunks).await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // What had come by then is kept.
    let _ = deadline.within(read).await;
    body
}

type Chunks = WasmBoxedStream<'static, reqwest::Result<Bytes>>;

fn chunks(response: Response) -> Chunks {
    Box::pin(response.bytes_stream())
}

async fn next(chunks: &mut Chunks) -> Option<reqwest::Result<Bytes>> {
    poll_fn(|cx| chunks.as_mut().poll_next(cx)).await
}

#[cfg(not(target_family = "wasm"))]
fn build(url: &Url, connect: Duration) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let builder = Client::builder()
        .connect_timeout(connect)
        // A redirect would carry the key to somebody else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("neuron/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(url)?);
    // What runs on this machine is not reached through a proxy.
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    Ok(builder.build()?)
}

#[cfg(target_family = "wasm")]
fn build(_url: &Url, _connect: Duration) -> Result<Client, Box<dyn Error + Send + Sync>> {
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

/// When a call must be over, whatever it is made of. The browser limits the time of its requests
/// itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    #[cfg(not(target_family = "wasm"))]
    limit: Duration,
    /// `None` is further away than a clock can tell.
    #[cfg(not(target_family = "wasm"))]
    at: Option<tokio::time::Instant>,
}

impl Deadline {
    /// Sets a time limit that begins now.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn after(limit: Duration) -> Self {
        let at = tokio::time::Instant::now().checked_add(limit);
        Self { limit, at }
    }

    #[cfg(target_family = "wasm")]
    pub(crate) fn after(_limit: Duration) -> Self {
        Self {}
    }

    /// Limits the time of `work` to what is left.
    #[cfg(not(target_family = "wasm"))]
    async fn within<T>(self, work: impl Future<Output = T>) -> Result<T, ProviderError> {
        match self.at {
            Some(at) => tokio::time::timeout_at(at, work)
                .await
                .map_err(|_| ProviderError::Timeout(self.limit)),
            None => Ok(work.await),
        }
    }

    #[cfg(target_family = "wasm")]
    async fn within<T>(self, work: impl Future<Output = T>) -> Result<T, ProviderError> {
        Ok(work.await)
    }
}

/// A response's body as it arrives, which must not stand still for longer than the idle limit.
pub(crate) struct Body {
    chunks: Chunks,
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
            chunks: chunks(response),
            idle: timeouts.idle,
            #[cfg(not(target_family = "wasm"))]
            timer: None,
        }
    }

    /// Waits no longer than a moment for what comes now, which should be the end. Says whether there
    /// is anything to wait for: the browser reads to the end by itself.
    pub(crate) fn expect_end(&mut self) -> bool {
        self.idle = Duration::from_millis(50).min(self.idle);
        cfg!(not(target_family = "wasm"))
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
