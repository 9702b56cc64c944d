//! One vendor's API: where it is, whose key asks, how long to wait.

use std::future::Future;
use std::time::Duration;

use http::HeaderMap;
#[cfg(not(target_family = "wasm"))]
use http::HeaderValue;
use http::header::AUTHORIZATION;
#[cfg(not(target_family = "wasm"))]
use http::header::USER_AGENT;
use neuron_types::{ProviderError, ProviderInfo, WasmCompatSend};

use crate::body::read_beginning;
use crate::client::{Http, HttpClient};
use crate::deadline::Deadline;
use crate::{BaseUrl, KeySource, Rejection, Reply, Secret};

/// How long to wait for the body that explains a status: the status says the most, and a retry should
/// not wait for a server that does not go on.
pub(crate) const EXPLANATION: Duration = Duration::from_secs(5);

/// The value of `user-agent`. A browser sends its own.
#[cfg(not(target_family = "wasm"))]
const AGENT: HeaderValue = HeaderValue::from_static(concat!("neuron/", env!("CARGO_PKG_VERSION")));

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

/// A vendor's API: where it is, whose key asks, how long to wait.
///
/// Clones share the connections. `Debug` shows neither the key nor a password in the address.
///
/// # Example
///
/// ```no_run
/// use neuron_http::{Endpoint, Rejection, Secret};
/// use neuron_types::ProviderError;
///
/// # async fn ask() -> Result<(), ProviderError> {
/// let endpoint = Endpoint::new("https://api.example.com", Secret::new("key"));
/// let body = b"{}".to_vec();
/// let reply = endpoint.post("v1/answer", Default::default(), body, Rejection::error).await?;
/// let body = reply.read().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Endpoint {
    base_url: BaseUrl,
    secret: Secret,
    timeouts: Timeouts,
    http: Http,
    /// Set for a call that has begun.
    deadline: Option<Deadline>,
}

impl Endpoint {
    /// Creates an endpoint that waits 10 seconds for a connection, 10 minutes for an answer, and
    /// 2 minutes between two pieces of a stream.
    pub fn new(base_url: impl Into<String>, secret: Secret) -> Self {
        Self {
            base_url: BaseUrl::new(base_url),
            secret,
            timeouts: Timeouts {
                connect: Duration::from_secs(10),
                call: Duration::from_secs(600),
                idle: Duration::from_secs(120),
            },
            http: Http::default(),
            deadline: None,
        }
    }

    /// Returns an endpoint for one call, with the current key of a source. The time limit of the call includes the
    /// wait for the key.
    ///
    /// # Errors
    ///
    /// The errors of the source, [`ProviderError::Timeout`] if there is no key in time, and [`ProviderError::Other`]
    /// outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as [`KeySource::key`].
    pub async fn for_call(&self, source: &KeySource) -> Result<Self, ProviderError> {
        check_runtime()?;
        let deadline = Deadline::after(self.timeouts.call);
        let secret = deadline.within(source.key()).await??;
        Ok(Self { secret, deadline: Some(deadline), ..self.clone() })
    }

    /// Sets the address.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = BaseUrl::new(url);
        // The connections' settings depend on the address.
        self.http.reset();
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn with_secret(mut self, secret: Secret) -> Self {
        self.secret = secret;
        self
    }

    /// Limits the wait for a connection, TLS included. On wasm the browser decides.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self.http.reset();
        self
    }

    /// Sends requests with a client of your own, for example for certificates that the operating system does not have.
    ///
    /// The client decides on TLS, proxies, redirects and the time for a connection, and this endpoint's
    /// [connect timeout](Self::with_connect_timeout) has no effect. Turn redirects off (in `reqwest`,
    /// `redirect::Policy::none()`), because they may carry the key to another server. No request is sent twice on a
    /// client of your own (see [`post`](Self::post)).
    #[must_use]
    pub fn with_client(mut self, client: impl Into<HttpClient>) -> Self {
        self.http = Http::from(client.into());
        self
    }

    /// Limits the wait for a whole answer, or for a stream to begin. On wasm the browser decides.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.call = timeout;
        self
    }

    /// Limits the wait between two pieces of a stream. On wasm there is no limit.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.idle = timeout;
        self
    }

    /// The address.
    #[must_use]
    pub fn base_url(&self) -> &BaseUrl {
        &self.base_url
    }

    /// What a provider says of itself: its name, its default model, and the server that the address names.
    #[must_use]
    pub fn info<'a>(&'a self, provider: &'a str, default_model: &'a str) -> ProviderInfo<'a> {
        let (host, port) = (self.base_url.host(), self.base_url.port());
        ProviderInfo::new(provider, default_model).at_server(host, port)
    }

    /// The key.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Posts a body to a path below the address, and returns what answers it once the headers are
    /// there. `reject` makes an error of a status that is not a success; what it is given is
    /// without the key.
    ///
    /// A server may close an idle connection just when a request is sent on it. Then the request is
    /// sent once more on a new connection, so the server may see it twice, and in a rare case the
    /// model is paid twice. Nothing else is sent again: no request on a new connection, none after
    /// the head of a response, and none after a timeout. The official clients of OpenAI and
    /// Anthropic repeat any failed connection twice.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Network`] or [`ProviderError::Timeout`] before an answer,
    /// [`ProviderError::InvalidRequest`] for an address that is none, those of `reject`, and
    /// [`ProviderError::Other`] outside of a tokio runtime, which the connections need.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub fn post<'a>(
        &'a self,
        path: &'a str,
        mut headers: HeaderMap,
        body: Vec<u8>,
        reject: impl FnOnce(&Rejection) -> ProviderError + WasmCompatSend + 'a,
    ) -> impl Future<Output = Result<Reply, ProviderError>> + WasmCompatSend + 'a {
        async move {
            check_runtime()?;
            let Timeouts { connect, call, .. } = self.timeouts;
            let deadline = self.deadline.unwrap_or_else(|| Deadline::after(call));
            let uri = self.base_url.join(path)?;
            #[cfg(not(target_family = "wasm"))]
            headers.entry(USER_AGENT).or_insert(AGENT);
            if let Some(credentials) = self.base_url.authorization() {
                headers.entry(AUTHORIZATION).or_insert_with(|| credentials.clone());
            }
            let response = self.http.post(&uri, headers, body, connect, deadline).await?;
            if response.status().is_success() {
                return Ok(Reply::new(response, uri, deadline, self.timeouts, self.secret.clone()));
            }
            let (head, chunks) = response.into_parts();
            let (status, headers) = (head.status, head.headers);
            let body = read_beginning(chunks, deadline.or_after(EXPLANATION)).await;
            let body = self.secret.redact(String::from_utf8_lossy(&body).into_owned());
            Err(reject(&Rejection::new(status.as_u16(), headers, body.as_bytes(), call)))
        }
    }
}

/// Returns an error outside of a tokio runtime, where timers and connections would panic.
fn check_runtime() -> Result<(), ProviderError> {
    #[cfg(not(target_family = "wasm"))]
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(ProviderError::Other(
            "a request over HTTP needs a tokio runtime: call it within one".into(),
        ));
    }
    Ok(())
}
