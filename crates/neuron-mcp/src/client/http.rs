//! The connector for servers over Streamable HTTP, with URL, headers and TLS.

mod deep_list;
mod legacy;
pub(crate) mod proxy;
mod session_client;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, header};
use neuron_types::McpError;
use reqwest::{Client, ClientBuilder, Url};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpClientWorker,
};
use tokio_util::sync::CancellationToken;

use self::session_client::SessionHttpClient;
use super::authorization::Authorization;
use super::connection::{Connector, Opened};
use super::negotiation::patience;
#[cfg(feature = "oauth")]
use super::oauth::{OAuth, OAuthConfig};
use super::settings::Settings;
use crate::HttpConfig;
use crate::route::Route;

/// Maximum number of concurrent HTTP requests of a connection. The value is high, because an agent may call many tools
/// concurrently.
const AT_ONCE: usize = 100;
/// Maximum number of redirects for one request.
const REDIRECTS: usize = 5;

/// Headers that the protocol sets. [`HttpConfig::headers`] must not contain these headers.
const RESERVED: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// Opens connections to a server over Streamable HTTP. All connections use the same URL, headers and TLS configuration.
pub(super) struct HttpConnector {
    /// The server's URL without secrets, for error messages.
    name: String,
    client: Client,
    transport: StreamableHttpClientTransportConfig,
    authorization: Authorization,
    /// Maximum wait for the response to `server/discover`.
    patience: Duration,
    /// Host and port in the URL of the server. `None` if the URL has none.
    server: Option<(Arc<str>, u16)>,
    /// Host and port of the proxy. `None` for a direct connection.
    proxy: Option<String>,
}

impl HttpConnector {
    /// Validates a configuration and creates the connector.
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`] if the URL or a header is invalid, or if TLS is not available.
    pub(super) fn new(config: &HttpConfig, settings: &Settings) -> Result<Self, McpError> {
        let url = address(&config.url)?;
        let name = shown(&url);
        let headers = headers(config)?;
        if headers.contains_key(&header::AUTHORIZATION)
            && url.scheme() == "http"
            && !is_loopback(&url)
        {
            tracing::warn!(
                target: "neuron_mcp",
                server = name,
                "the authorization is sent without encryption: use https"
            );
        }
        let builder = builder(&url, settings.connect_timeout, Trust::of(&url))
            .map_err(|error| McpError::Connection(format!("{name}: TLS: {error}")))?;
        let client =
            builder.build().map_err(|error| McpError::Connection(format!("{name}: {error}")))?;
        let transport = StreamableHttpClientTransportConfig::with_uri(url.as_str())
            .custom_headers(headers)
            .max_concurrent_requests(AT_ONCE)
            // The SDK would not restore the subscriptions of the session. See `subscriptions::restore`.
            .reinit_on_expired_session(false)
            .max_sse_event_size(settings.max_message_bytes);
        let host = url.host_str().map(|host| host.trim_matches(['[', ']']).into());
        let server = host.zip(url.port_or_known_default());
        Ok(Self {
            name,
            client,
            transport,
            authorization: Authorization::default(),
            patience: patience(settings),
            server,
            proxy: proxy::of_environment(&url),
        })
    }

    /// Enables OAuth authorization for the requests of all connections that this connector opens.
    ///
    /// # Errors
    ///
    /// - [`McpError::Connection`] if the configured headers include `Authorization`, or if TLS is not available.
    /// - [`McpError::Other`] with an [`OAuthError`](crate::OAuthError) if the setup of OAuth fails.
    #[cfg(feature = "oauth")]
    pub(super) async fn authorize(
        &mut self,
        config: &HttpConfig,
        settings: &Settings,
        oauth: OAuthConfig,
    ) -> Result<(), McpError> {
        if self.transport.custom_headers.contains_key(&header::AUTHORIZATION) {
            let text = "an authorization header is configured, but OAuth sets its own".to_owned();
            return Err(McpError::Connection(text));
        }
        let url = address(&config.url)?;
        // Even if the MCP server is local and needs no certificates, its authorization server may be remote.
        let builder = builder(&url, settings.connect_timeout, Trust::System)
            .map_err(|error| McpError::Connection(format!("{}: TLS: {error}", self.name)))?;
        let oauth = OAuth::new(oauth, url.as_str(), builder).await?;
        self.authorization = Authorization::by(Arc::new(oauth));
        Ok(())
    }

    /// Returns the OAuth authorization that all requests of the client share. Has no effect on requests if OAuth is not
    /// configured.
    pub(super) fn authorization(&self) -> Authorization {
        self.authorization.clone()
    }
}

impl Connector for HttpConnector {
    type Transport = StreamableHttpClientTransport<SessionHttpClient>;

    fn name(&self) -> &str {
        &self.name
    }

    fn proxy(&self) -> Option<&str> {
        self.proxy.as_deref()
    }

    /// Opens a connection. All requests and streams of the connection are cancelled when the connection ends.
    async fn open(&self) -> Result<Opened<Self::Transport>, McpError> {
        let route = Route { server: self.server.clone(), ..Route::http() };
        let ended = CancellationToken::new();
        let client = SessionHttpClient {
            client: self.client.clone(),
            authorization: self.authorization.clone(),
            max_message_bytes: self.transport.max_sse_event_size,
            ended: ended.clone(),
            patience: self.patience,
            begun: Arc::default(),
            session: route.session.clone(),
            legacy: Arc::default(),
        };
        let worker = StreamableHttpClientWorker::new(client, self.transport.clone());
        let transport = StreamableHttpClientTransport::spawn_with_ct(worker, ended);
        Ok(Opened { transport, route, exit_report: None })
    }
}

/// Parses the server's URL. Returns an error if the scheme is neither `http` nor `https`.
fn address(text: &str) -> Result<Url, McpError> {
    let url = Url::parse(text)
        .map_err(|error| McpError::Connection(format!("`url` is not a valid URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        let text = format!("`url` has the scheme {}: use http or https", url.scheme());
        return Err(McpError::Connection(text));
    }
    Ok(url)
}

/// Returns a URL without its credentials, query and fragment, which may contain secrets.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// Returns the headers of the configuration. Error messages contain the name of a header, but never its value.
fn headers(config: &HttpConfig) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let mut headers = HashMap::new();
    for (name, value) in &config.headers {
        let parsed = HeaderName::try_from(name.as_str())
            .map_err(|_| McpError::Connection(format!("`{name}` is not a valid header name")))?;
        if RESERVED.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-param-") {
            let text = format!("the header `{name}` is set by the protocol: remove it");
            return Err(McpError::Connection(text));
        }
        let value = header_value(name, value)?;
        if headers.insert(parsed, value).is_some() {
            return Err(McpError::Connection(format!("the header `{name}` is set twice")));
        }
    }
    if let Some(authorization) = &config.auth_header {
        // A value without a scheme is a bearer token.
        let authorization = match authorization.trim() {
            token if token.contains(char::is_whitespace) => token.to_owned(),
            token => format!("Bearer {token}"),
        };
        let value = header_value("Authorization", &authorization)?;
        if headers.insert(header::AUTHORIZATION, value).is_some() {
            let text = "the authorization is set in both `auth_header` and `headers`".to_owned();
            return Err(McpError::Connection(text));
        }
    }
    Ok(headers)
}

/// Parses the value of a header, and marks it as sensitive so that it is not logged.
fn header_value(name: &str, value: &str) -> Result<HeaderValue, McpError> {
    let mut value = HeaderValue::try_from(value).map_err(|_| {
        McpError::Connection(format!(
            "the value of the header `{name}` contains invalid characters"
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns a builder of the HTTP client for the server at `url`. `connect` is the connect timeout, and `trust` selects
/// the trusted certificates.
fn builder(url: &Url, connect: Duration, trust: Trust) -> Result<ClientBuilder, rustls::Error> {
    let builder = Client::builder()
        .connect_timeout(connect)
        .redirect(redirects())
        .user_agent(concat!("neuron/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(trust)?);
    // Servers on this machine are not reached through a proxy.
    Ok(if is_loopback(url) { builder.no_proxy() } else { builder })
}

/// Returns the redirect policy. A redirect is followed only if it has the status 307 or 308 and goes to the same
/// server, for example from `/mcp` to `/mcp/`. Other redirects would send the headers to another server, or lose the
/// request body.
fn redirects() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let same_request = matches!(attempt.status().as_u16(), 307 | 308);
        let same_server = attempt
            .previous()
            .first()
            .is_some_and(|first| first.origin() == attempt.url().origin());
        if same_request && same_server && attempt.previous().len() <= REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// The certificates that the client trusts.
#[derive(Clone, Copy)]
enum Trust {
    /// The certificates that the operating system trusts.
    System,
    /// Trusts no certificates. Used for plain HTTP, so that a machine without installed certificates can use plain
    /// HTTP.
    Nobody,
}

impl Trust {
    /// Returns [`Trust::System`] for an `https` URL, and [`Trust::Nobody`] for any other URL.
    fn of(url: &Url) -> Self {
        if url.scheme() == "https" { Self::System } else { Self::Nobody }
    }
}

/// Returns a TLS configuration of rustls, with the cryptography of the crate `ring`.
fn tls_config(trust: Trust) -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::System => builder.with_platform_verifier()?,
        Trust::Nobody => builder.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

/// Returns `true` if the host of a URL is `localhost` or a loopback address, so the URL names this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
