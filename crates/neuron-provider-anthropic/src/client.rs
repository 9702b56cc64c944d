//! The client: its settings, its headers, and the two calls.

use std::time::Duration;

use neuron_http::reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use neuron_http::reqwest::{Response, Url};
use neuron_http::{BaseUrl, Body, Deadline, Http, Secret, Timeouts};
use neuron_types::{
    CompletionRequest, CompletionResponse, Provider, ProviderError, ProviderInfo, StreamHandle,
    StreamReceiver,
};

use crate::request::{self, Defaults, PROVIDER};
use crate::stream::EventStream;
use crate::{error, response};

/// The model for requests that name none.
///
/// Models end: this one takes every feature that neuron offers (sampling, forced tools, compaction),
/// which the newest do not. Set [`Anthropic::model`] in production.
pub const DEFAULT_MODEL: &str = "claude-sonnet-4-6";

/// The most answer tokens for requests that name none; the API demands a number.
pub const DEFAULT_MAX_TOKENS: usize = 8192;

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// The API version that still takes sampling parameters.
const DEFAULT_API_VERSION: &str = "2023-06-01";

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// A client of Anthropic's Messages API.
///
/// Clones share the connections. `Debug` does not show the key.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_provider_anthropic::Anthropic;
///
/// let provider = Anthropic::new("sk-ant-...")
///     .model("claude-opus-4-8")
///     .timeout(Duration::from_secs(120));
/// assert!(!format!("{provider:?}").contains("sk-ant"));
/// ```
#[derive(Debug, Clone)]
pub struct Anthropic {
    api_key: Secret,
    model: String,
    base_url: BaseUrl,
    api_version: String,
    betas: Vec<String>,
    max_tokens: usize,
    timeouts: Timeouts,
    http: Http,
}

impl Anthropic {
    /// Creates a client with a key.
    pub fn new(api_key: impl Into<String>) -> Self {
        Self {
            api_key: Secret::new(api_key),
            model: DEFAULT_MODEL.to_owned(),
            base_url: BaseUrl::new(DEFAULT_BASE_URL),
            api_version: DEFAULT_API_VERSION.to_owned(),
            betas: Vec::new(),
            max_tokens: DEFAULT_MAX_TOKENS,
            timeouts: Timeouts {
                connect: Duration::from_secs(10),
                call: Duration::from_secs(600),
                idle: Duration::from_secs(120),
            },
            http: Http::default(),
        }
    }

    /// Creates a client with the key in `ANTHROPIC_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] when the variable is not set or empty.
    pub fn from_env() -> Result<Self, ProviderError> {
        Self::from_key(std::env::var("ANTHROPIC_API_KEY").ok())
    }

    fn from_key(api_key: Option<String>) -> Result<Self, ProviderError> {
        match api_key.as_deref().map(str::trim) {
            Some(key) if !key.is_empty() => Ok(Self::new(key)),
            _ => Err(ProviderError::Authentication(
                "ANTHROPIC_API_KEY is not set: export it, or pass a key to Anthropic::new".into(),
            )),
        }
    }

    /// Sets the model for requests that name none. Default: [`DEFAULT_MODEL`].
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets where the API is, for proxies and tests; with or without a slash or `/v1` at its end.
    /// Default: `https://api.anthropic.com`.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = BaseUrl::new(url);
        // The connections' settings depend on the address.
        self.http = Http::default();
        self
    }

    /// Sets the `anthropic-version` header. Default: `2023-06-01`, which takes sampling parameters;
    /// `2026-10-21` rejects them.
    #[must_use]
    pub fn api_version(mut self, version: impl Into<String>) -> Self {
        self.api_version = version.into();
        self
    }

    /// Adds a name to the `anthropic-beta` header of every request. What a request itself needs is
    /// added without this.
    #[must_use]
    pub fn beta(mut self, name: impl Into<String>) -> Self {
        self.betas.push(name.into());
        self
    }

    /// Sets the most answer tokens for requests that name none. Default: [`DEFAULT_MAX_TOKENS`]. A
    /// budget for thinking is added to it.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// Limits the wait for a connection, TLS included. Default: 10 seconds. On wasm the browser
    /// decides.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self.http = Http::default();
        self
    }

    /// Limits the wait for a whole answer, or for a stream to begin. Default: 10 minutes. On wasm
    /// the browser decides.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.call = timeout;
        self
    }

    /// Limits the wait between two pieces of a stream. Default: 2 minutes; the API sends a `ping`
    /// more often. On wasm there is no limit.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.idle = timeout;
        self
    }

    async fn post(
        &self,
        request: &CompletionRequest,
        stream: bool,
        deadline: Deadline,
    ) -> Result<Response, ProviderError> {
        let defaults = Defaults { model: &self.model, max_tokens: self.max_tokens };
        let body = request::body(request, defaults, stream)?;
        let (url, headers) = (self.url()?, self.headers(request)?);
        let connect = self.timeouts.connect;
        let response = self.http.post(url, headers, body, connect, deadline).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = neuron_http::read_beginning(response, deadline).await;
        let shown = self.api_key.redact(String::from_utf8_lossy(&body).into_owned());
        Err(error::from_response(status, &headers, shown.as_bytes(), self.timeouts.call))
    }

    async fn whole(
        &self,
        request: &CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let deadline = Deadline::after(self.timeouts.call);
        let response = self.post(request, false, deadline).await?;
        let body = neuron_http::read_body(response, deadline).await?;
        response::parse(&body, &self.api_key)
    }

    async fn streamed(&self, request: &CompletionRequest) -> Result<StreamHandle, ProviderError> {
        let deadline = Deadline::after(self.timeouts.call);
        let response = self.post(request, true, deadline).await?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if let Some(other) = content_type.filter(|kind| !is_event_stream(kind)) {
            let text = format!("a stream was asked for, and the server sent {other}");
            return Err(ProviderError::Other(text.into()));
        }
        let body = Body::new(response, self.timeouts);
        let events = EventStream::new(body, self.api_key.clone(), Body::expect_end);
        Ok(StreamReceiver::new(events).into())
    }

    fn url(&self) -> Result<Url, ProviderError> {
        self.base_url.join("v1/messages")
    }

    fn headers(&self, request: &CompletionRequest) -> Result<HeaderMap, ProviderError> {
        let mut key = HeaderValue::from_str(self.api_key.expose()).map_err(|_| {
            ProviderError::Authentication(
                "the API key has characters that no header can carry: a line break, perhaps".into(),
            )
        })?;
        key.set_sensitive(true);
        let value = |name: &str, text: &str| {
            HeaderValue::from_str(text).map_err(|_| {
                ProviderError::InvalidRequest(format!("`{text}` cannot be sent as {name}"))
            })
        };
        let mut headers = HeaderMap::new();
        headers.insert(API_KEY, key);
        headers.insert(API_VERSION, value("anthropic-version", &self.api_version)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut betas: Vec<&str> = self.betas.iter().map(String::as_str).collect();
        for needed in request::betas(request) {
            if !betas.contains(&needed) {
                betas.push(needed);
            }
        }
        if !betas.is_empty() {
            headers.insert(BETA, value("anthropic-beta", &betas.join(","))?);
        }
        Ok(headers)
    }
}

impl Provider for Anthropic {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.complete_ref(&request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.complete_stream_ref(&request).await
    }

    async fn complete_ref(
        &self,
        request: &CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let answer = self.whole(request).await;
        answer.map_err(|error| self.api_key.redact_error(error))
    }

    async fn complete_stream_ref(
        &self,
        request: &CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let answer = self.streamed(request).await;
        answer.map_err(|error| self.api_key.redact_error(error))
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new(PROVIDER, &self.model)
    }
}

/// Whether a content type is that of events, whatever its parameters.
fn is_event_stream(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_says_what_to_do() {
        for key in [None, Some(String::new()), Some(" \n".into())] {
            let error = Anthropic::from_key(key).unwrap_err();
            assert_eq!(
                error.to_string(),
                "authentication failed: ANTHROPIC_API_KEY is not set: export it, or pass a key to Anthropic::new"
            );
        }
        let provider = Anthropic::from_key(Some("key\n".into())).unwrap();
        assert_eq!(provider.api_key.expose(), "key", "a file's last line break is no part of it");
    }

    #[test]
    fn the_key_shows_nowhere() {
        let provider = Anthropic::new("sk-ant-secret").beta("b");
        assert!(!format!("{provider:#?}").contains("secret"));
        let headers = provider.headers(&CompletionRequest::default()).unwrap();
        assert!(!format!("{headers:?}").contains("secret"));
        let error = Anthropic::new("sk\nsecret").headers(&CompletionRequest::default());
        assert!(!error.unwrap_err().to_string().contains("secret"));
    }

    #[test]
    fn base_urls_in_every_form() {
        let url = |base: &str| Anthropic::new("k").base_url(base).url().map(String::from);
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", " http://h:1 "]
        {
            assert_eq!(url(base).unwrap(), "http://h:1/v1/messages");
        }
        assert_eq!(url("https://h/proxy/").unwrap(), "https://h/proxy/v1/messages");
        for (base, why) in [
            ("api.anthropic.com", "is not a URL: relative URL without a base"),
            ("", "is not a URL: relative URL without a base"),
            ("ftp://h", "must begin with http:// or https://"),
        ] {
            let text = format!("invalid request: the base URL `{base}` {why}");
            assert_eq!(url(base).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn a_password_in_the_base_url_shows_nowhere() {
        let provider = Anthropic::new("k").base_url("https://user:hunter2@proxy.example/x");
        assert!(provider.url().is_ok());
        let text = format!("{provider:?}");
        assert!(text.contains("\"https://[redacted]@proxy.example/x\""), "{text}");
        let error = Anthropic::new("k").base_url("ftp://user:hunter2@h").url().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn a_beta_is_named_once() {
        let request = CompletionRequest {
            context_management: Some(neuron_types::ContextManagement {
                edits: vec![neuron_types::ContextEdit::Compact {
                    strategy: "compact_20260112".into(),
                }],
            }),
            ..Default::default()
        };
        let beta = |provider: Anthropic| provider.headers(&request).unwrap()[BETA].clone();
        assert_eq!(beta(Anthropic::new("k")), "compact-2026-01-12");
        assert_eq!(beta(Anthropic::new("k").beta("compact-2026-01-12")), "compact-2026-01-12");
        assert_eq!(beta(Anthropic::new("k").beta("other")), "other,compact-2026-01-12");
        let plain = Anthropic::new("k").headers(&CompletionRequest::default()).unwrap();
        assert!(!plain.contains_key(BETA));
    }
}
