//! The client: one POST to one address, and TLS.

use std::error::Error;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use neuron_types::{ProviderError, WasmCompatSend};
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Response, Url};
#[cfg(not(target_family = "wasm"))]
use tokio::time::Instant;

use crate::deadline::Deadline;
#[cfg(not(target_family = "wasm"))]
use crate::idle;
use crate::transport::{self, Transport};

/// An HTTP client for one address. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) enum Http {
    Own(Arc<Clients>),
    /// A client that the caller made. It has its own rules for connections.
    Given(Client),
}

/// The clients that are made with the first request, because that may fail and constructors of providers do not.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pooled: OnceLock<Client>,
    /// Makes a connection for each request.
    #[cfg(not(target_family = "wasm"))]
    fresh: OnceLock<Client>,
}

impl Default for Http {
    fn default() -> Self {
        Self::Own(Arc::default())
    }
}

impl Http {
    /// Forgets the connections, because a setting has changed. A client that was given stays.
    pub(crate) fn reset(&mut self) {
        if let Self::Own(clients) = self {
            *clients = Arc::default();
        }
    }

    /// Sends a JSON body, and returns the response once its headers are there.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Network`] or [`ProviderError::Timeout`]. A response with any status is no
    /// error here.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub(crate) fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Vec<u8>,
        connect: Duration,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Response, ProviderError>> + WasmCompatSend {
        async move {
            let client = match self {
                Self::Own(clients) => client(&clients.pooled, &url, connect, Pool::Shared)?,
                Self::Given(client) => client,
            };
            let request = client.post(url.clone()).headers(headers).body(body);
            deadline.within(self.send(request, &url, connect)).await?
        }
    }

    /// Sends a request, and once more if the server closed the idle connection on which it was sent. A request that
    /// was sent twice is never reported as [`Unsent`](neuron_types::Unsent).
    #[cfg(not(target_family = "wasm"))]
    async fn send(
        &self,
        request: RequestBuilder,
        url: &Url,
        connect: Duration,
    ) -> Result<Response, ProviderError> {
        let again = request.try_clone();
        let start = Instant::now();
        let (sent, has_connected) = idle::note_connections(request.send()).await;
        let error = match sent {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let was_idle =
            !has_connected && start.elapsed() < idle::AT_ONCE && idle::was_closed(&error);
        match (self, again) {
            (Self::Own(clients), Some(again)) if was_idle => {
                let client = client(&clients.fresh, url, connect, Pool::None)?;
                let sent = async { client.execute(again.build()?).await };
                sent.await.map_err(|error| transport::lost(url, error))
            }
            _ => Err(transport::network_error(url, error)),
        }
    }

    #[cfg(target_family = "wasm")]
    async fn send(
        &self,
        request: RequestBuilder,
        url: &Url,
        _connect: Duration,
    ) -> Result<Response, ProviderError> {
        request.send().await.map_err(|error| transport::network_error(url, error))
    }
}

/// The connections that are kept for later requests.
#[derive(Clone, Copy)]
enum Pool {
    Shared,
    #[cfg(not(target_family = "wasm"))]
    None,
}

fn client<'c>(
    slot: &'c OnceLock<Client>,
    url: &Url,
    connect: Duration,
    pool: Pool,
) -> Result<&'c Client, ProviderError> {
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    let client = build(url, connect, pool)
        .map_err(|error| ProviderError::Network(Box::new(Transport::new("TLS", &*error))))?;
    Ok(slot.get_or_init(|| client))
}

#[cfg(not(target_family = "wasm"))]
fn build(url: &Url, connect: Duration, pool: Pool) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let builder = Client::builder()
        .connect_timeout(connect)
        // A redirect would carry the key to somebody else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("neuron/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(url)?);
    let builder = match pool {
        Pool::Shared => builder.connector_layer(idle::NoteConnections),
        Pool::None => builder.pool_max_idle_per_host(0),
    };
    // What runs on this machine is not reached through a proxy.
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    Ok(builder.build()?)
}

#[cfg(target_family = "wasm")]
fn build(
    _url: &Url,
    _connect: Duration,
    _pool: Pool,
) -> Result<Client, Box<dyn Error + Send + Sync>> {
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
