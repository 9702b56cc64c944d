//! The client [`Anthropic`], its settings, and the HTTP headers of its requests.

use std::time::Duration;

use neuron_http::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use neuron_http::{
    AnswerStream, Endpoint, HttpClient, Rejection, Reply, RequestBody, Secret, header_value,
};
use neuron_model::{
    CacheControl, CompletionResponse, ForcedCalls, Provider, ProviderError, ProviderInfo,
    RequestRef, StreamHandle, WasmBoxedFuture,
};

use crate::betas;
use crate::models::CLAUDE_SONNET_4_6;
use crate::request::{self, NAMES, PROVIDER, Settings};
use crate::stream::MessageDecoder;
use crate::{error, response};

/// The requests in which the API accepts a forced tool call. While a model thinks, the API accepts only the tool
/// choices `auto` and `none`. The listed models think by default. Fable and Mythos always think, and reject forced calls
/// since 5.1.
///
/// - <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>
/// - <https://platform.claude.com/docs/en/models/fable-5-1/whats-new-fable-5-1#forced-tool-use-is-not-supported>
const FORCED_CALLS: ForcedCalls = ForcedCalls::NotWhileThinking {
    thinking_models: &["claude-fable", "claude-mythos", "claude-opus-5", "claude-sonnet-5"],
};

/// Name of the default model of requests.
///
/// The model supports every feature that neuron offers. The newest models do not support sampling parameters, forced
/// tool calls or compaction. Anthropic retires models after some time, so choose a model with [`Anthropic::model`] in
/// production.
pub const DEFAULT_MODEL: &str = CLAUDE_SONNET_4_6;

/// Default maximum number of output tokens of a response. The API requires a maximum in each request.
pub const DEFAULT_MAX_TOKENS: usize = 8192;

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// Domain of Anthropic's servers.
const DOMAIN: &str = "anthropic.com";

/// Default of the `anthropic-version` header. This version accepts sampling parameters, and later versions reject them.
const DEFAULT_API_VERSION: &str = "2023-06-01";

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
#[cfg(target_family = "wasm")]
const BROWSER: HeaderName = HeaderName::from_static("anthropic-dangerous-direct-browser-access");

/// A client of Anthropic's Messages API.
///
/// Clones share the connections. The `Debug` output does not contain the API key.
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
    endpoint: Endpoint,
    model: String,
    api_version: String,
    /// Names that the caller added to the `anthropic-beta` header.
    betas: Vec<String>,
    /// Maximum number of output tokens of a request that sets no maximum.
    max_tokens: usize,
    /// Set if each request has a cache breakpoint at the end of the conversation.
    cache: Option<CacheControl>,
}

impl Anthropic {
    /// Creates a client that authenticates with `api_key`.
    pub fn new(api_key: impl Into<String>) -> Self {
        Self {
            endpoint: Endpoint::new(DEFAULT_BASE_URL, Secret::new(api_key)),
            model: DEFAULT_MODEL.to_owned(),
            api_version: DEFAULT_API_VERSION.to_owned(),
            betas: Vec::new(),
            max_tokens: DEFAULT_MAX_TOKENS,
            cache: None,
        }
    }

    /// Creates a client from environment variables.
    ///
    /// `ANTHROPIC_API_KEY` contains the API key. `ANTHROPIC_BASE_URL` is optional and contains the
    /// [base URL](Self::base_url), as for Anthropic's own clients.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] if `ANTHROPIC_API_KEY` is not set or is empty.
    pub fn from_env() -> Result<Self, ProviderError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Self::from_variables(&variable("ANTHROPIC_API_KEY"), &variable("ANTHROPIC_BASE_URL"))
    }

    fn from_variables(api_key: &str, base_url: &str) -> Result<Self, ProviderError> {
        let (api_key, base_url) = (api_key.trim(), base_url.trim());
        if api_key.is_empty() {
            return Err(ProviderError::Authentication(
                "ANTHROPIC_API_KEY is not set: export it, or pass a key to Anthropic::new".into(),
            ));
        }
        let client = Self::new(api_key);
        Ok(if base_url.is_empty() { client } else { client.base_url(base_url) })
    }

    /// Sets the model of requests that do not name a model themselves. Default: [`DEFAULT_MODEL`].
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the base URL, for example of a proxy or of a test server. The URL may end with a slash or with `/v1`.
    /// Default: `https://api.anthropic.com`.
    ///
    /// A server outside of `anthropic.com` decides itself about stop sequences of white space and the types of images.
    /// The client rejects them only for Anthropic's server.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint = self.endpoint.with_base_url(url);
        self
    }

    /// Sets the value of the `anthropic-version` header. The default, `2023-06-01`, accepts sampling parameters. The
    /// version `2026-10-21` rejects sampling parameters.
    #[must_use]
    pub fn api_version(mut self, version: impl Into<String>) -> Self {
        self.api_version = version.into();
        self
    }

    /// Adds the name of a beta feature to the `anthropic-beta` header of every request. The client automatically adds
    /// the names of the features that a request uses.
    #[must_use]
    pub fn beta(mut self, name: impl Into<String>) -> Self {
        self.betas.push(name.into());
        self
    }

    /// Sets the maximum number of output tokens for requests without their own maximum. If such a request has a
    /// thinking budget, the client adds the budget to the maximum. Default: [`DEFAULT_MAX_TOKENS`].
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// Adds a cache breakpoint at the end of the conversation to every request.
    ///
    /// Each request then reads the prefix that the previous request cached, and caches the new messages. By default
    /// only system prompts and tools have breakpoints. The API itself selects the last block that supports a
    /// breakpoint. The JSON of the messages therefore does not change from turn to turn.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_provider_anthropic::Anthropic;
    /// use neuron_provider_anthropic::types::{CacheControl, CacheTtl};
    ///
    /// let provider = Anthropic::new("sk-ant-...")
    ///     .cache_conversation(CacheControl { ttl: Some(CacheTtl::OneHour) });
    /// # let _ = provider;
    /// ```
    #[must_use]
    pub fn cache_conversation(mut self, cache: CacheControl) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the HTTP client that sends the requests. Use a client of your own for an explicit proxy, or for
    /// certificates that the operating system does not trust. With the feature `reqwest`, `client` may be a
    /// `reqwest::Client`. Turn off redirects in the HTTP client, because a redirect may send the API key to another
    /// server. See [`Endpoint::with_client`].
    #[must_use]
    pub fn http_client(mut self, client: impl Into<HttpClient>) -> Self {
        self.endpoint = self.endpoint.with_client(client);
        self
    }

    /// Sets the timeout for opening a connection, including the TLS handshake. Default: 10 seconds. Has no effect on
    /// wasm, where the browser opens connections, or with an [HTTP client of your own](Self::http_client).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_connect_timeout(timeout);
        self
    }

    /// Sets the timeout for a whole response or, if the response is streamed, for the beginning of the stream. Default:
    /// 10 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_timeout(timeout);
        self
    }

    /// Sets the timeout between two chunks of a stream. Default: 2 minutes, which is longer than the interval between
    /// the API's `ping` events.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_idle_timeout(timeout);
        self
    }

    /// Writes the headers and the body of a request.
    fn write(&self, request: RequestRef<'_>, stream: bool) -> Written {
        let settings = Settings {
            model: &self.model,
            max_tokens: self.max_tokens,
            cache: self.cache.as_ref(),
            is_other_server: !self.endpoint.base_url().is_within(DOMAIN),
        };
        let renamed = NAMES.rename(request);
        let body = request::write_renamed(&renamed, settings, stream)?;
        Ok((self.headers(request)?, RequestBody::new(body, renamed.into_originals())))
    }

    /// Sends a request and returns the reply. A status that is not a success becomes an error.
    async fn post(&self, written: Written) -> Result<Reply, ProviderError> {
        let (headers, body) = written?;
        self.endpoint.post("v1/messages", headers, body, Rejection::error).await
    }

    /// Sends a request and parses the whole response.
    async fn whole(&self, written: Written) -> Result<CompletionResponse, ProviderError> {
        let reply = self.post(written).await?;
        reply.answer(|body| response::read(body, self.endpoint.secret())).await
    }

    /// Sends a request and returns the stream of its response.
    async fn streamed(&self, written: Written) -> Result<StreamHandle, ProviderError> {
        let body = self.post(written).await?;
        // Some proxies send a JSON error with a successful status instead of a stream.
        let body = body.stream(&["text/event-stream"], error::find_in).await?;
        let secret = self.endpoint.secret().clone();
        Ok(AnswerStream::new(body, MessageDecoder::default(), secret).into())
    }

    /// Removes the API key from the error of a request.
    fn redact<T>(&self, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        answer.map_err(|error| self.endpoint.secret().redact_error(error))
    }

    fn headers(&self, request: RequestRef<'_>) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(API_KEY, self.endpoint.secret().header("")?);
        headers.insert(API_VERSION, header_value("anthropic-version", &self.api_version)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Without this header, Anthropic rejects requests of web pages: "CORS requests must set
        // 'anthropic-dangerous-direct-browser-access' header" (401).
        #[cfg(target_family = "wasm")]
        headers.insert(BROWSER, HeaderValue::from_static("true"));
        // Names that the caller added come first. No name is sent twice.
        let mut names: Vec<&str> = self.betas.iter().map(String::as_str).collect();
        for needed in betas::of(request) {
            if !names.contains(&needed) {
                names.push(needed);
            }
        }
        if !names.is_empty() {
            headers.insert(BETA, header_value("anthropic-beta", &names.join(","))?);
        }
        Ok(headers)
    }
}

/// Headers and body of a request, or the error of a request that cannot be sent.
type Written = Result<(HeaderMap, RequestBody), ProviderError>;

// The requests are written outside of the futures, so that the futures are smaller.
impl Provider for Anthropic {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.complete_ref_boxed(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.complete_stream_ref_boxed(request).await
    }

    fn complete_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
        let written = self.write(request, false);
        Box::pin(async move { self.redact(self.whole(written).await) })
    }

    fn complete_stream_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        let written = self.write(request, true);
        Box::pin(async move { self.redact(self.streamed(written).await) })
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.endpoint.info(PROVIDER, &self.model).with_forced_calls(FORCED_CALLS)
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, ProviderDyn};

    use super::*;

    /// Regression test. The limits of Anthropic's server were applied to gateways too.
    #[test]
    fn limits_of_the_server_depend_on_the_base_url() {
        let write = |url: Option<&str>, sequence: &str| {
            let client = Anthropic::new("k");
            let client = if let Some(url) = url { client.base_url(url) } else { client };
            let stop_sequences = vec![sequence.to_owned()];
            let request = CompletionRequest { stop_sequences, ..Default::default() };
            client.write(request.view(), false).is_ok()
        };
        for (url, accepts_blank) in [
            (None, false),
            (Some("https://api.anthropic.com/v1"), false),
            (Some("http://localhost:4000"), true),
        ] {
            assert_eq!(write(url, "\n"), accepts_blank, "{url:?}");
            assert!(!write(url, ""), "{url:?}");
        }
    }

    #[test]
    fn from_env_reads_the_base_url() {
        for (base_url, url) in [
            ("", "https://api.anthropic.com/v1/messages"),
            (" http://localhost:8080/v1\n", "http://localhost:8080/v1/messages"),
        ] {
            let client = Anthropic::from_variables("key", base_url).unwrap();
            let messages = client.endpoint.base_url().join("v1/messages").unwrap();
            assert_eq!(messages.to_string(), url);
        }
    }

    #[test]
    fn from_env_without_key_reports_the_variable() {
        for key in ["", " \n"] {
            let error = Anthropic::from_variables(key, "http://localhost").unwrap_err();
            assert_eq!(
                error.to_string(),
                "authentication failed: ANTHROPIC_API_KEY is not set: export it, or pass a key to Anthropic::new"
            );
        }
        let provider = Anthropic::from_variables("key\n", "").unwrap();
        assert_eq!(
            provider.endpoint.secret().expose(),
            "key",
            "a file's last line break is no part of it"
        );
    }

    #[test]
    fn info_contains_the_server() {
        let provider = Anthropic::new("k").model("m");
        let info = ProviderInfo::new("anthropic", "m").with_forced_calls(FORCED_CALLS);
        assert_eq!(provider.info(), info.at_server("api.anthropic.com", Some(443)));
        let provider = provider.base_url("http://user:hunter2@[::1]:8080/proxy");
        assert_eq!(provider.info(), info.at_server("::1", Some(8080)));
        assert_eq!(provider.base_url("no URL").info(), info);
    }

    #[test]
    fn thinking_by_default_forbids_forced_calls() {
        for (model, can_force) in [
            ("claude-fable-5-1", false),
            ("claude-mythos-5-2", false),
            ("claude-opus-5-5", false),
            ("claude-sonnet-5", false),
            ("claude-haiku-5-5", true),
            ("claude-sonnet-4-6", true),
        ] {
            let provider = Anthropic::new("k").model(model);
            let can = provider.info().can_force_call(RequestRef::default());
            assert_eq!(can, can_force, "{model}");
        }
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let provider = Anthropic::new("sk-ant-hunter2").beta("b");
        assert!(!format!("{provider:#?}").contains("hunter2"));
        let headers = provider.headers(CompletionRequest::default().view()).unwrap();
        assert!(!format!("{headers:?}").contains("hunter2"));
        let error = Anthropic::new("sk\nhunter2").headers(CompletionRequest::default().view());
        assert!(!error.unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn duplicate_beta_is_sent_once() {
        let request = CompletionRequest {
            context_management: Some(neuron_model::ContextManagement {
                edits: vec![neuron_model::ContextEdit::Compact {
                    strategy: "compact_20260112".into(),
                }],
            }),
            ..Default::default()
        };
        let beta = |provider: Anthropic| provider.headers(request.view()).unwrap()[BETA].clone();
        assert_eq!(beta(Anthropic::new("k")), "compact-2026-01-12");
        assert_eq!(beta(Anthropic::new("k").beta("compact-2026-01-12")), "compact-2026-01-12");
        assert_eq!(beta(Anthropic::new("k").beta("other")), "other,compact-2026-01-12");
        let plain = Anthropic::new("k").headers(CompletionRequest::default().view()).unwrap();
        assert!(!plain.contains_key(BETA));
    }

    /// The large futures of calls are boxed in this crate, so that programs do not compile them again. They are boxed
    /// only once.
    #[test]
    fn futures_of_calls_are_boxed_once() {
        let (client, request) = (Anthropic::new("k"), RequestRef::default());
        let [whole, streamed] = [
            (
                size_of_val(&client.complete_ref(request)),
                size_of_val(&*client.complete_ref_dyn(request)),
            ),
            (
                size_of_val(&client.complete_stream_ref(request)),
                size_of_val(&*client.complete_stream_ref_dyn(request)),
            ),
        ];
        assert!(whole.0 < whole.1 && streamed.0 < streamed.1, "{whole:?}, {streamed:?}");
    }
}
