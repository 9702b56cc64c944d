//! The HTTP endpoint of a vendor's API ([`Endpoint`]).

use std::future::Future;
use std::time::Duration;

use http::header::AUTHORIZATION;
#[cfg(not(target_family = "wasm"))]
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Response};
use neuron_model::{ProviderError, ProviderInfo, WasmCompatSend};

use crate::body::read_beginning;
use crate::client::{Http, HttpClient};
use crate::content::{Content, Encoding};
use crate::deadline::Deadline;
use crate::tool_positions::with_tool_names;
use crate::{BaseUrl, KeySource, Rejection, Reply, RequestBody, Secret};

/// Maximum time to read the body of an error response. The body only explains the error, so a slow body must not delay
/// a retry for longer.
pub(crate) const EXPLANATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Value of the `user-agent` header. Not used on wasm32, where the browser sends its own.
#[cfg(not(target_family = "wasm"))]
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("neuron/", env!("CARGO_PKG_VERSION")));

/// The timeouts of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// Timeout for opening a connection, including the TLS handshake.
    pub(crate) connect: Duration,
    /// Timeout for a whole response, or for the start of a stream.
    pub(crate) call: Duration,
    /// Maximum wait for the next chunk of a stream.
    pub(crate) idle: Duration,
}

/// The HTTP endpoint of a vendor's API, with its base URL, API key and timeouts.
///
/// Clones share their connections. `Debug` hides the key and a password in the URL.
///
/// # Example
///
/// ```no_run
/// use neuron_http::{Endpoint, Rejection, Secret};
/// use neuron_model::ProviderError;
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
    /// Deadline of the call for which [`for_call`](Self::for_call) created this endpoint. `None` for other endpoints.
    deadline: Option<Deadline>,
}

impl Endpoint {
    /// Creates an endpoint with these default timeouts.
    ///
    /// - Opening a connection may take 10 seconds.
    /// - A response may take 10 minutes.
    /// - The time between two chunks of a stream may be 2 minutes.
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

    /// Returns an endpoint for a single call, with the current key of `source`. The call's timeout starts now, so it
    /// includes the wait for the key.
    ///
    /// # Errors
    ///
    /// - The error of the source.
    /// - [`ProviderError::Timeout`] if the source returns no key in time.
    /// - [`ProviderError::Other`] outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is as cancel safe as [`KeySource::key`].
    pub async fn for_call(&self, source: &KeySource) -> Result<Self, ProviderError> {
        check_runtime()?;
        let deadline = Deadline::after(self.timeouts.call);
        let secret = deadline.within(source.key()).await??;
        Ok(Self { secret, deadline: Some(deadline), ..self.clone() })
    }

    /// Sets the base URL. Open connections are dropped.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = BaseUrl::new(url);
        // The clients are reset, because their proxy and their TLS settings depend on the URL.
        self.http.reset();
        self
    }

    /// Sets the API key.
    #[must_use]
    pub fn with_secret(mut self, secret: Secret) -> Self {
        self.secret = secret;
        self
    }

    /// Sets the timeout for opening a connection, including the TLS handshake. Has no effect on wasm32, where the
    /// browser decides.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self.http.reset();
        self
    }

    /// Sends requests with your own client. It may, for example, trust certificates that the operating system does not
    /// trust.
    ///
    /// The client controls TLS, proxies, redirects and the timeout for opening a connection. The [connect
    /// timeout](Self::with_connect_timeout) of this endpoint therefore has no effect. A request is never sent a second
    /// time by the endpoint (see [`post`](Self::post)).
    ///
    /// Disable redirects (in `reqwest`, `redirect::Policy::none()`), because they may send the key to another server.
    #[must_use]
    pub fn with_client(mut self, client: impl Into<HttpClient>) -> Self {
        self.http = Http::from(client.into());
        self
    }

    /// Sets the maximum time for a whole response, or for the headers of a stream.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.call = timeout;
        self
    }

    /// Sets the maximum wait between two chunks of a stream.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.idle = timeout;
        self
    }

    /// Returns the base URL.
    #[must_use]
    pub fn base_url(&self) -> &BaseUrl {
        &self.base_url
    }

    /// Returns the description of a provider with this name and default model, at the server of the base URL.
    #[must_use]
    pub fn info<'a>(&'a self, provider: &'a str, default_model: &'a str) -> ProviderInfo<'a> {
        let (host, port) = (self.base_url.host(), self.base_url.port());
        ProviderInfo::new(provider, default_model).at_server(host, port)
    }

    /// Returns the API key.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Sends a body to a path below the base URL, with the method POST. Returns the response when its headers have
    /// arrived.
    ///
    /// A body that the server compressed with gzip or deflate is decoded, although the request does not ask for it.
    ///
    /// `reject` converts a response without a successful status into an error. The key is redacted in the body that
    /// `reject` receives, and the values of sensitive headers in its error. A [`ProviderError::RateLimit`] has no text,
    /// so the vendor's text and the request id are logged with `tracing`, at level `INFO`. If an
    /// [`InvalidRequest`](ProviderError::InvalidRequest) names a tool by its position in the request, as `tools.0` does,
    /// the name of the tool is added: ``tools.0 (`look`)``.
    ///
    /// # Second attempt
    ///
    /// A server may close an idle connection while a request is sent on it. The request is then sent again on a new
    /// connection. In rare cases the server receives both requests, and the model call is charged twice. For
    /// comparison, the official clients of OpenAI and Anthropic retry every failed connection twice.
    ///
    /// There is no second attempt in these cases:
    ///
    /// - The request was sent on a new connection.
    /// - The head of the response has arrived.
    /// - The connection failed more than a second after the request was started.
    /// - The request timed out.
    /// - The endpoint sends requests with [your own client](Self::with_client).
    ///
    /// Over HTTP/2, a request is also sent again if the server says that it has not processed it.
    ///
    /// # Errors
    ///
    /// - The error of `reject` if the status is not a success.
    /// - [`ProviderError::Network`] if there is no response.
    /// - [`ProviderError::Timeout`] if the response is late.
    /// - [`ProviderError::InvalidRequest`] if the URL is invalid.
    /// - [`ProviderError::Other`] outside of a tokio runtime, or if a successful response has an encoding such as `br`
    ///   or `zstd`, which is not supported.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub fn post<'a>(
        &'a self,
        path: &'a str,
        mut headers: HeaderMap,
        body: impl Into<RequestBody>,
        reject: impl FnOnce(&Rejection) -> ProviderError + WasmCompatSend + 'a,
    ) -> impl Future<Output = Result<Reply, ProviderError>> + WasmCompatSend + 'a {
        let RequestBody { json, names } = body.into();
        async move {
            check_runtime()?;
            let Timeouts { connect, call, .. } = self.timeouts;
            let deadline = self.deadline.unwrap_or_else(|| Deadline::after(call));
            let uri = self.base_url.join(path)?;
            #[cfg(not(target_family = "wasm"))]
            headers.entry(USER_AGENT).or_insert(USER_AGENT_VALUE);
            if let Some(credentials) = self.base_url.authorization() {
                headers.entry(AUTHORIZATION).or_insert_with(|| credentials.clone());
            }
            let sensitive = headers.values().filter(|value| value.is_sensitive());
            let sensitive: Vec<HeaderValue> = sensitive.cloned().collect();
            let response = self.http.post(&uri, headers, json.clone(), connect, deadline).await?;
            let (head, chunks) = response.into_parts();
            let encoding = Encoding::of(&head.headers);
            if head.status.is_success() {
                let encoding = encoding.map_err(|text| ProviderError::Other(text.into()))?;
                let response = Response::from_parts(head, Content::new(chunks, encoding));
                let (timeouts, secret) = (self.timeouts, self.secret.clone());
                return Ok(Reply::new(response, uri, deadline, timeouts, secret, names));
            }
            let (status, headers) = (head.status, head.headers);
            let body = match encoding {
                Ok(encoding) => {
                    let content = Content::new(chunks, encoding);
                    read_beginning(content, deadline.or_after(EXPLANATION_TIMEOUT)).await
                }
                // The status decides the class of the error, even without a body that can be read.
                Err(text) => text.into_bytes(),
            };
            let body = self.secret.redact(String::from_utf8_lossy(&body).into_owned());
            let rejection = Rejection::new(status.as_u16(), headers, body.as_bytes(), call);
            // A server may quote the request's headers, and the values of some are secrets.
            let values = sensitive.iter().filter_map(|value| value.to_str().ok());
            let secrets: Vec<Secret> = values.map(Secret::new).collect();
            let error = secrets.iter().fold(reject(&rejection), |e, secret| secret.redact_error(e));
            if let ProviderError::RateLimit { .. } = error {
                // The error has no field for the text.
                let text = self.secret.show(rejection.text());
                let text = secrets.iter().fold(text, |text, secret| secret.show(text));
                tracing::info!(error = text, "the server limits the rate");
            }
            Err(with_tool_names(error, &json, &names))
        }
    }
}

/// Returns [`ProviderError::Other`] if no tokio runtime runs on this thread. Without this check, timers and connections
/// would panic.
fn check_runtime() -> Result<(), ProviderError> {
    #[cfg(not(target_family = "wasm"))]
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(ProviderError::Other(
            "a request over HTTP needs a tokio runtime: call it within one".into(),
        ));
    }
    Ok(())
}
