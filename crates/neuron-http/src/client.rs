//! The client: one POST to one address, and TLS.

use std::error::Error;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use neuron_types::{ProviderError, WasmCompatSend};
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url};

use crate::deadline::Deadline;
use crate::transport::{self, Transport};

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
            let client = self.client(&url, connect)?;
            let request = client.post(url.clone()).headers(headers).body(body);
            let sent = deadline.within(request.send()).await?;
            sent.map_err(|error| transport::network_error(&url, error))
        }
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
