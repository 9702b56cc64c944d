//! The client [`Ollama`], its settings, and the HTTP headers of its requests.

use std::time::Duration;

use neuron_http::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use neuron_http::{AnswerStream, Endpoint, HttpClient, Reply, Secret};
use neuron_model::{
    CompletionResponse, EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    ForcedCalls, Provider, ProviderError, ProviderInfo, RequestRef, StreamHandle, WasmBoxedFuture,
    WasmCompatSend,
};
use serde_json::{Number, Value};

use crate::models::LLAMA_3_2;
use crate::request::{self, PROVIDER, Settings};
use crate::stream::ChatDecoder;
use crate::{embed, error, host, response};

/// Name of the default model of completion requests.
///
/// The model is small enough for most machines and supports tools. Pull it before the first request.
pub const DEFAULT_MODEL: &str = LLAMA_3_2;

/// Name of Ollama's cloud in [`ProviderInfo`].
const CLOUD: &str = "ollama-cloud";

const DEFAULT_BASE_URL: &str = "http://localhost:11434";

/// Default timeout between two chunks of a stream. The server sends nothing until a tool call is complete, and a tool
/// call takes long on a machine without a GPU.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Content types that the response to a streamed request may have. A server that does not stream sends its whole
/// response as a single line of JSON.
const CONTENT_TYPES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/json"];

/// A client of Ollama's native API.
///
/// Clones share the connections. The `Debug` output does not contain the API key.
///
/// # Example
///
/// ```
/// use neuron_provider_ollama::Ollama;
/// use serde_json::json;
///
/// let provider = Ollama::new()
///     .model("qwen3")
///     .base_url("http://gpu-box:11434")
///     .keep_alive("30m")
///     .options(json!({"num_ctx": 16384}));
/// # let _ = provider;
/// ```
#[derive(Debug, Clone)]
pub struct Ollama {
    endpoint: Endpoint,
    model: String,
    /// Time for which the model stays in memory after a request, in the format of the API.
    keep_alive: Option<Value>,
    /// Options of all requests, as a JSON object.
    options: Option<Value>,
}

impl Default for Ollama {
    fn default() -> Self {
        Self::new()
    }
}

impl Ollama {
    /// Creates a client of the Ollama server on the local machine, without an API key.
    #[must_use]
    pub fn new() -> Self {
        let endpoint = Endpoint::new(DEFAULT_BASE_URL, Secret::default());
        Self {
            endpoint: endpoint.with_idle_timeout(IDLE_TIMEOUT),
            model: DEFAULT_MODEL.to_owned(),
            keep_alive: None,
            options: None,
        }
    }

    /// Creates a client from environment variables. `OLLAMA_HOST` contains the address of the server, and
    /// `OLLAMA_API_KEY` contains the API key. Both variables are optional.
    ///
    /// `OLLAMA_HOST` is parsed as in Ollama's own clients, with optional scheme, port and path. The default port is
    /// 11434 or, if there is a scheme, the port of the scheme. `0.0.0.0`, on which a server may listen, means the local
    /// machine.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if `OLLAMA_HOST` is not a valid address.
    pub fn from_env() -> Result<Self, ProviderError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Self::from_variables(&variable("OLLAMA_HOST"), &variable("OLLAMA_API_KEY"))
    }

    fn from_variables(host: &str, api_key: &str) -> Result<Self, ProviderError> {
        let client = Self::new().api_key(api_key.trim());
        if host.trim().is_empty() {
            return Ok(client);
        }
        Ok(client.base_url(host::base_url(host)?))
    }

    /// Sets the API key. Ollama's cloud and some proxies require a key. Default: no key.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.endpoint = self.endpoint.with_secret(Secret::new(api_key));
        self
    }

    /// Sets the model of completion requests that do not name a model themselves. Default: [`DEFAULT_MODEL`].
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the base URL. The URL may end with a slash or with `/api`. Default: `http://localhost:11434`. The URL of
    /// Ollama's cloud is `https://ollama.com`.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint = self.endpoint.with_base_url(url);
        self
    }

    /// Sets the time for which the server keeps the model in memory after a request.
    ///
    /// Valid values are a duration such as `5m` or `1h30m`, a number of seconds, `0` to unload the model immediately,
    /// and a negative number to keep the model forever. By default, and if the text is empty, the server's own setting
    /// applies.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_provider_ollama::Ollama;
    ///
    /// let provider = Ollama::new().keep_alive("5m");
    /// # let _ = provider;
    /// ```
    #[must_use]
    pub fn keep_alive(mut self, duration: impl Into<String>) -> Self {
        self.keep_alive = keep_alive(&duration.into());
        self
    }

    /// Sets the options of all requests, including embedding requests. The value is an object such as
    /// `{"num_ctx": 16384}`. Options of a single request, such as its temperature or the options in its `extra`, take
    /// precedence. Default: no options.
    ///
    /// The server reloads the model if `num_ctx` differs from the value in the previous request.
    #[must_use]
    pub fn options(mut self, options: impl Into<Value>) -> Self {
        self.options = Some(options.into());
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

    /// Sets the timeout for a whole response or, if the response is streamed, for the beginning of the stream. The time
    /// to load the model counts towards the timeout. Default: 10 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_timeout(timeout);
        self
    }

    /// Sets the timeout between two chunks of a stream. Default: 5 minutes, because the server sends nothing until a
    /// tool call is complete.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_idle_timeout(timeout);
        self
    }

    /// Returns the name of the vendor, which differs for Ollama's cloud, so that a price list can distinguish its models.
    fn vendor(&self) -> &'static str {
        let mut labels = self.endpoint.base_url().host().rsplit('.');
        let is_cloud = ["com", "ollama"]
            .iter()
            .all(|name| labels.next().is_some_and(|label| label.eq_ignore_ascii_case(name)));
        if is_cloud { CLOUD } else { PROVIDER }
    }

    fn settings(&self) -> Settings<'_> {
        Settings {
            model: &self.model,
            keep_alive: self.keep_alive.as_ref(),
            options: self.options.as_ref(),
        }
    }

    /// Posts `body` to `path` and returns the reply. A status that is not a success becomes an error.
    async fn post(&self, path: &'static str, body: Vec<u8>) -> Result<Reply, ProviderError> {
        self.endpoint.post(path, self.headers()?, body, error::from_rejection).await
    }

    async fn chat(&self, request: RequestRef<'_>, stream: bool) -> Result<Reply, ProviderError> {
        self.post("api/chat", request::write(request, self.settings(), stream)?).await
    }

    /// Sends a request and parses the whole response.
    async fn whole(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        let reply = self.chat(request, false).await?;
        reply.answer(|body| response::read(body, self.endpoint.secret())).await
    }

    /// Sends a request and returns the stream of its response.
    async fn streamed(&self, request: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
        // An error with a successful status is a line of JSON, so the decoder reports it.
        let body = self.chat(request, true).await?.stream(&CONTENT_TYPES, |_| None).await?;
        let secret = self.endpoint.secret().clone();
        Ok(AnswerStream::new(body, ChatDecoder::default(), secret).into())
    }

    async fn vectors(
        &self,
        request: &EmbeddingRequest,
    ) -> Result<EmbeddingResponse, ProviderError> {
        let body = embed::write(request, self.settings())?;
        let body = self.post("api/embed", body).await?.read().await?;
        embed::read(&body, request.input.len(), self.endpoint.secret())
    }

    fn headers(&self) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let secret = self.endpoint.secret();
        // A local server needs no key.
        if !secret.is_empty() {
            headers.insert(AUTHORIZATION, secret.header("Bearer ")?);
        }
        Ok(headers)
    }

    /// Prepares an error for the caller. Removes the API key from its texts, and adds a hint if the connection was
    /// refused.
    fn shown(&self, error: ProviderError) -> ProviderError {
        self.endpoint.secret().redact_error(error::with_hint(error))
    }
}

/// Converts a duration into JSON. A number becomes a JSON number, because the server rejects it as a text. A text with
/// a unit stays a text. Returns `None` for an empty text.
fn keep_alive(duration: &str) -> Option<Value> {
    let duration = duration.trim();
    if duration.is_empty() {
        return None;
    }
    let whole = duration.parse::<i64>().ok().map(Number::from);
    let number = whole.or_else(|| Number::from_f64(duration.parse().ok()?));
    Some(number.map_or_else(|| duration.into(), Value::Number))
}

impl Provider for Ollama {
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
        Box::pin(async move { self.whole(request).await.map_err(|error| self.shown(error)) })
    }

    fn complete_stream_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        Box::pin(async move { self.streamed(request).await.map_err(|error| self.shown(error)) })
    }

    /// The name is `ollama`, and `ollama-cloud` if the server is `ollama.com`, whose models are not free.
    fn info(&self) -> ProviderInfo<'_> {
        let info = self.endpoint.info(self.vendor(), &self.model);
        info.with_forced_calls(ForcedCalls::Refused)
    }
}

/// Creates embeddings. A request without texts is not sent, and has an empty response.
impl EmbeddingProvider for Ollama {
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + WasmCompatSend {
        let answer: WasmBoxedFuture<'_, _> = Box::pin(async move {
            if request.input.is_empty() {
                let model = embed::model_of(&request).to_owned();
                return Ok(EmbeddingResponse { model, ..Default::default() });
            }
            self.vectors(&request).await.map_err(|error| self.shown(error).into())
        });
        answer
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.endpoint.info(self.vendor(), embed::DEFAULT_EMBEDDING_MODEL)
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::ProviderDyn;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_variables(host: &str, api_key: &str, url: &str, key: &str) {
        let client = Ollama::from_variables(host, api_key).unwrap();
        let chat = client.endpoint.base_url().join("api/chat").unwrap();
        assert_eq!(chat.to_string(), format!("{url}/api/chat"));
        assert_eq!(client.endpoint.secret().expose(), key);
    }

    #[test]
    fn from_env_reads_host_and_key() {
        check_variables("", "", "http://localhost:11434", "");
        check_variables(" ", " \n", "http://localhost:11434", "");
        check_variables("0.0.0.0:8080", "", "http://127.0.0.1:8080", "");
        check_variables("https://ollama.com", "key\n", "https://ollama.com", "key");
        let error = Ollama::from_variables("ftp://h", "").unwrap_err();
        assert_eq!(error.kind(), "InvalidRequest");
    }

    #[test]
    fn keep_alive_accepts_durations_and_numbers() {
        for (duration, expected) in [
            ("5m", json!("5m")),
            ("1h30m", json!("1h30m")),
            (" 5m ", json!("5m")),
            ("0", json!(0)),
            ("-1", json!(-1)),
            ("300", json!(300)),
            ("1.5", json!(1.5)),
            ("-1m", json!("-1m")),
            ("inf", json!("inf")),
            ("NaN", json!("NaN")),
        ] {
            assert_eq!(keep_alive(duration), Some(expected));
        }
        // A variable that is not set is read as an empty text.
        assert_eq!(keep_alive(" "), None);
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let client = Ollama::new().api_key("hunter2");
        assert!(!format!("{client:#?}").contains("hunter2"));
        let headers = client.headers().unwrap();
        assert_eq!(headers[AUTHORIZATION], "Bearer hunter2");
        assert!(!format!("{headers:?}").contains("hunter2"));
        let error = Ollama::new().api_key("sk\nhunter2").headers().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
        assert!(!Ollama::new().headers().unwrap().contains_key(AUTHORIZATION));
    }

    #[test]
    fn default_model_is_the_small_model() {
        let client = Ollama::default();
        let info = ProviderInfo::new("ollama", "llama3.2").with_forced_calls(ForcedCalls::Refused);
        assert_eq!(client.info(), info.at_server("localhost", Some(11434)));
    }

    #[test]
    fn info_contains_server_and_default_models() {
        let client = Ollama::new().model("m").base_url("http://[::1]:8080/ollama");
        let other = ProviderInfo::new("ollama", "m").with_forced_calls(ForcedCalls::Refused);
        assert_eq!(client.info(), other.at_server("::1", Some(8080)));
        let embeddings = ProviderInfo::new("ollama", "nomic-embed-text");
        assert_eq!(client.embedding_info(), embeddings.at_server("::1", Some(8080)));

        let client = Ollama::from_variables("gpu-box", "").unwrap();
        let server = (client.info().server_address, client.info().server_port);
        assert_eq!(server, ("gpu-box", Some(11434)));
        for url in ["https://ollama.com", "https://Ollama.com/api/", "https://api.ollama.com"] {
            let cloud = Ollama::new().api_key("k").base_url(url);
            let names = (cloud.info().name, cloud.embedding_info().name);
            assert_eq!(names, ("ollama-cloud", "ollama-cloud"), "{url}");
        }
        assert_eq!(Ollama::new().base_url("https://not-ollama.com").info().name, "ollama");
        let unknown = client.base_url("gpu-box:11434");
        let unnamed = ProviderInfo::new("ollama", "llama3.2");
        assert_eq!(unknown.info(), unnamed.with_forced_calls(ForcedCalls::Refused));
    }

    /// The large futures of calls are boxed in this crate, so that programs do not compile them again. They are boxed
    /// only once.
    #[test]
    fn futures_of_calls_are_boxed_once() {
        let (client, request) = (Ollama::new(), RequestRef::default());
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
        let box_size = size_of::<WasmBoxedFuture<'_, ()>>();
        assert!(size_of_val(&client.embed(EmbeddingRequest::default())) <= box_size);
    }
}
