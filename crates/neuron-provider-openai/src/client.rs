//! The client [`OpenAi`], its settings, and the HTTP headers of its requests.

use std::borrow::Cow;
use std::time::Duration;

use neuron_http::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use neuron_http::{
    AnswerStream, Endpoint, HttpClient, KeySource, Rejection, Reply, RequestBody, Secret,
    header_value,
};
use neuron_model::{
    CompletionResponse, EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    Provider, ProviderError, ProviderInfo, RequestRef, StreamHandle, WasmBoxedFuture,
    WasmCompatSend,
};

use crate::dialect::{Dialect, KeyHeader, ReasoningBack, SystemRole, Vendor};
use crate::error::ApiError;
use crate::models::{GPT_5_4_MINI, TEXT_EMBEDDING_3_SMALL};
use crate::request::{self, NAMES, Settings};
use crate::responses::stream::ResponsesDecoder;
use crate::stream::ChatDecoder;
use crate::{embed, error, response, responses};

/// Name of the default model of completion requests.
///
/// OpenAI retires models after some time, so choose a model with [`OpenAi::model`] in production. The default model
/// reasons and does not accept sampling parameters, such as a temperature.
pub const DEFAULT_MODEL: &str = GPT_5_4_MINI;

/// Name of the default model of embedding requests.
pub const DEFAULT_EMBEDDING_MODEL: &str = TEXT_EMBEDDING_3_SMALL;

const DEFAULT_BASE_URL: &str = "https://api.openai.com";

/// Version of OpenAI's API, which is inserted between the base URL and the path of each request.
const VERSION: &str = "v1/";

const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROJECT: HeaderName = HeaderName::from_static("openai-project");

/// A client of OpenAI's API, or of a compatible server.
///
/// The client sends completion requests to the Chat Completions API, or to the Responses API after a call of
/// [`responses_api`](Self::responses_api). It also creates embeddings. Clones share the connections. The `Debug` output
/// contains neither the API key nor the values of custom headers.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_provider_openai::OpenAi;
///
/// let provider = OpenAi::new("sk-...")
///     .model("gpt-5.5")
///     .organization("org-...")
///     .timeout(Duration::from_secs(120));
/// assert!(!format!("{provider:?}").contains("sk-..."));
/// ```
#[derive(Debug, Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    organization: Option<String>,
    project: Option<String>,
    api: Api,
    dialect: Dialect,
    /// Text between the base URL and the path of a request. This is `v1/` for OpenAI. It is empty for compatible
    /// servers, whose base URL contains the version.
    prefix: &'static str,
    /// Set if the model may make only one tool call per response.
    disables_parallel_calls: bool,
    /// Names and values of the caller's headers.
    headers: Vec<(String, Secret)>,
    key_source: Option<KeySource>,
}

/// The API that receives completion requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    ChatCompletions,
    Responses,
}

impl OpenAi {
    /// Creates a client of OpenAI's API that authenticates with `api_key`.
    pub fn new(api_key: impl Into<String>) -> Self {
        Self {
            endpoint: Endpoint::new(DEFAULT_BASE_URL, Secret::new(api_key)),
            model: DEFAULT_MODEL.to_owned(),
            organization: None,
            project: None,
            api: Api::ChatCompletions,
            dialect: Dialect::openai(),
            prefix: VERSION,
            disables_parallel_calls: false,
            headers: Vec::new(),
            key_source: None,
        }
    }

    /// Creates a client of the compatible server that `dialect` describes. Pass an empty key to a server that needs no
    /// key.
    ///
    /// Choose a model of the server with [`model`](Self::model). The default is OpenAI's [`DEFAULT_MODEL`].
    pub fn compatible(dialect: Dialect, api_key: impl Into<String>) -> Self {
        let endpoint = Endpoint::new(&*dialect.base_url, Secret::new(api_key));
        // The dialect's base URL already contains the version, so no prefix is inserted.
        Self { endpoint, dialect, prefix: "", ..Self::new("") }
    }

    /// Creates a client of a compatible server, with the API key from the dialect's environment variable.
    ///
    /// The variable is [`Dialect::key_variable`]. If the dialect names no variable, the client sends no key.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] if the variable is not set or is empty.
    pub fn compatible_from_env(dialect: Dialect) -> Result<Self, ProviderError> {
        let name = dialect.key_variable;
        if name.is_empty() {
            return Ok(Self::compatible(dialect, ""));
        }
        match std::env::var(name).map(|key| key.trim().to_owned()) {
            Ok(key) if !key.is_empty() => Ok(Self::compatible(dialect, key)),
            _ => Err(ProviderError::Authentication(format!(
                "{name} is not set: export it, or pass a key to OpenAi::compatible"
            ))),
        }
    }

    /// Creates a client of OpenAI's API from environment variables.
    ///
    /// `OPENAI_API_KEY` contains the API key. `OPENAI_ORG_ID` is optional and contains the
    /// [organization](Self::organization). `OPENAI_BASE_URL` is optional and contains the
    /// [base URL](Self::base_url). OpenAI's own clients read the same variables.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] if `OPENAI_API_KEY` is not set or is empty.
    pub fn from_env() -> Result<Self, ProviderError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let names = ["OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_BASE_URL"];
        Self::from_variables(names.map(variable))
    }

    /// Creates a client from the values of the key, the organization and the base URL. An empty value counts as not set.
    fn from_variables(values: [String; 3]) -> Result<Self, ProviderError> {
        let [api_key, organization, base_url] = values.each_ref().map(|value| value.trim());
        if api_key.is_empty() {
            return Err(ProviderError::Authentication(
                "OPENAI_API_KEY is not set: export it, or pass a key to OpenAi::new".into(),
            ));
        }
        let mut client = Self::new(api_key);
        if !organization.is_empty() {
            client = client.organization(organization);
        }
        if !base_url.is_empty() {
            client = client.base_url(base_url);
        }
        Ok(client)
    }

    /// Sets the model of completion requests that do not name a model themselves. Default: [`DEFAULT_MODEL`].
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the base URL, for example of a proxy or of a test server. The URL may end with a slash or with `/v1`.
    /// Default: `https://api.openai.com`.
    ///
    /// The URL of a [compatible](Self::compatible) client must contain the version of the API, as described at
    /// [`Dialect::base_url`].
    ///
    /// A server outside of `openai.com` decides itself about the number of stop sequences and the types of images, as
    /// described at [`Dialect::at`].
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        self.dialect = self.dialect.at(url.clone());
        self.endpoint = self.endpoint.with_base_url(url);
        self
    }

    /// Sets the organization that pays for the requests. Needed only if the API key belongs to several organizations.
    /// The client sends the id in the `OpenAI-Organization` header.
    #[must_use]
    pub fn organization(mut self, organization: impl Into<String>) -> Self {
        self.organization = Some(organization.into());
        self
    }

    /// Sets the project that pays for the requests. The client sends the id in the `OpenAI-Project` header.
    #[must_use]
    pub fn project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Sends completion requests to the Responses API instead of Chat Completions.
    ///
    /// The next request contains all items of a response unchanged, including encrypted reasoning, items of OpenAI's
    /// own tools, and ids. OpenAI does not store the conversation (`store` is false), unless
    /// [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) overrides this setting. Requests ask for
    /// reasoning in encrypted form. A model without reasoning rejects such a request, so set `"include": []` in `extra`
    /// for this model.
    #[must_use]
    pub fn responses_api(mut self) -> Self {
        self.api = Api::Responses;
        self
    }

    /// Sets the role in which system prompts are sent. Default: [`SystemRole::Developer`]. Many compatible servers
    /// require [`SystemRole::System`].
    #[must_use]
    pub fn system_role(mut self, role: SystemRole) -> Self {
        self.dialect.system_role = role;
        self
    }

    /// Limits the model to one tool call per response. By default a response may contain several tool calls.
    #[must_use]
    pub fn disable_parallel_tool_calls(mut self) -> Self {
        self.disables_parallel_calls = true;
        self
    }

    /// Sends the reasoning of earlier responses back to the server, in [`Dialect::reasoning_field`]
    /// (`reasoning_content` by default). Some compatible servers require the reasoning while the model calls tools.
    /// OpenAI's own API has no such field.
    #[must_use]
    pub fn echo_reasoning(mut self) -> Self {
        self.dialect.reasoning = ReasoningBack::Always;
        self
    }

    /// Adds a header to each request, for example for a gateway or for attribution. Replaces a header of the same name.
    ///
    /// The value may be a secret. Neither the `Debug` output of this client nor the error of a rejected request
    /// contains it.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), Secret::new(value)));
        self
    }

    /// Sets a source of API keys, for tokens that expire. The client calls the source before each request. The time
    /// until the source returns a key counts towards [`timeout`](Self::timeout).
    #[must_use]
    pub fn key_source(mut self, source: KeySource) -> Self {
        self.key_source = Some(source);
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

    /// Sets the timeout between two chunks of a stream. Default: 2 minutes. Raise the timeout for a model that reasons
    /// for longer without sending anything.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_idle_timeout(timeout);
        self
    }

    /// Posts `body` to `path` and returns the reply. A status that is not a success becomes an error.
    async fn post(&self, path: &str, body: impl Into<RequestBody>) -> Result<Reply, ProviderError> {
        let path = format!("{}{path}", self.prefix);
        let reject = |rejection: &Rejection| self.dialect.explain(rejection);
        self.endpoint.post(&path, self.headers()?, body, reject).await
    }

    async fn send(&self, request: RequestRef<'_>, stream: bool) -> Result<Reply, ProviderError> {
        let renamed = NAMES.rename(request);
        let model = request.model_or(&self.model);
        let (path, body) = match self.api {
            Api::ChatCompletions => (
                "chat/completions",
                request::write_renamed(&renamed, model, self.settings(), stream)?,
            ),
            Api::Responses => (
                "responses",
                responses::request::write_renamed(&renamed, model, self.settings(), stream)?,
            ),
        };
        self.post(path, RequestBody::new(body, renamed.into_originals())).await
    }

    /// Sends a request and parses the whole response.
    async fn whole(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        let reply = self.send(request, false).await?;
        let (secret, vendor) = (self.endpoint.secret(), Vendor(self.dialect.name));
        let read = |body: &[u8]| match self.api {
            Api::ChatCompletions => response::read(body, secret, vendor),
            Api::Responses => responses::response::read(body, secret),
        };
        let mut response = reply.answer(read).await?;
        // Raw blocks are sent back only to the vendor whose name they have.
        vendor.sign(&mut response.message);
        Ok(response)
    }

    /// Sends a request and returns the stream of its response.
    async fn streamed(&self, request: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
        let reply = self.send(request, true).await?;
        // Some servers send a JSON error with a successful status instead of a stream.
        let explain = |body: &[u8]| ApiError::find_in(body).map(|error| error::from_answer(&error));
        let body = reply.stream(&["text/event-stream"], explain).await?;
        let secret = self.endpoint.secret().clone();
        let vendor = Vendor(self.dialect.name);
        Ok(match self.api {
            Api::ChatCompletions => {
                // The decoder rejects a stream without `[DONE]` if a requested usage is missing.
                let requests_usage = request::requests_usage(request, &self.dialect);
                AnswerStream::new(body, ChatDecoder::new(requests_usage, vendor), secret).into()
            }
            Api::Responses => AnswerStream::new(body, ResponsesDecoder::new(vendor), secret).into(),
        })
    }

    fn settings(&self) -> Settings<'_> {
        Settings { dialect: &self.dialect, disables_parallel_calls: self.disables_parallel_calls }
    }

    /// Returns a client with the key that the key source returns for this request. Returns `self` if there is no key
    /// source, and the key source's error if the source fails.
    async fn with_current_key(&self) -> Result<Cow<'_, Self>, ProviderError> {
        let Some(source) = &self.key_source else {
            return Ok(Cow::Borrowed(self));
        };
        let endpoint = self.endpoint.for_call(source).await?;
        Ok(Cow::Owned(Self { endpoint, ..self.clone() }))
    }

    async fn embedded(
        &self,
        request: &EmbeddingRequest,
    ) -> Result<EmbeddingResponse, ProviderError> {
        let body = embed::write(request, DEFAULT_EMBEDDING_MODEL, self.dialect.left_out)?;
        let body = self.post("embeddings", body).await?.read().await?;
        embed::read(&body, request.input.len(), self.endpoint.secret())
    }

    fn headers(&self) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (key, prefix) = match self.dialect.key_header {
            KeyHeader::Bearer => (AUTHORIZATION, "Bearer "),
            KeyHeader::Named(name) => (header_name(name)?, ""),
        };
        // Local servers need no key.
        if !self.endpoint.secret().is_empty() {
            headers.insert(key, self.endpoint.secret().header(prefix)?);
        }
        if let Some(organization) = &self.organization {
            headers.insert(ORGANIZATION, header_value("OpenAI-Organization", organization)?);
        }
        if let Some(project) = &self.project {
            headers.insert(PROJECT, header_value("OpenAI-Project", project)?);
        }
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
        // Custom headers come last, so that they replace the dialect's headers of the same name.
        for (name, value) in self.dialect.headers.iter().copied().chain(own) {
            let mut value = header_value(name, value)?;
            // A sensitive value is not shown in debug output and in errors that quote it.
            value.set_sensitive(true);
            headers.insert(header_name(name)?, value);
        }
        Ok(headers)
    }
}

fn header_name(name: &str) -> Result<HeaderName, ProviderError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| ProviderError::InvalidRequest(format!("`{name}` is not a valid header name")))
}

impl Provider for OpenAi {
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
        Box::pin(async move {
            let client = self.with_current_key().await?;
            let answer = client.whole(request).await;
            answer.map_err(|error| client.endpoint.secret().redact_error(error))
        })
    }

    fn complete_stream_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        Box::pin(async move {
            let client = self.with_current_key().await?;
            let answer = client.streamed(request).await;
            answer.map_err(|error| client.endpoint.secret().redact_error(error))
        })
    }

    fn info(&self) -> ProviderInfo<'_> {
        let info = self.endpoint.info(self.dialect.name, &self.model);
        info.with_forced_calls(self.dialect.forced_calls)
    }
}

impl EmbeddingProvider for OpenAi {
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + WasmCompatSend {
        let answer: WasmBoxedFuture<'_, _> = Box::pin(async move {
            let client = self.with_current_key().await?;
            let answer = client.embedded(&request).await;
            answer.map_err(|error| client.endpoint.secret().redact_error(error).into())
        });
        answer
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.endpoint.info(self.dialect.name, DEFAULT_EMBEDDING_MODEL)
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, ProviderDyn};

    use super::*;

    fn from(api_key: &str, organization: &str) -> Result<OpenAi, ProviderError> {
        OpenAi::from_variables([api_key, organization, ""].map(str::to_owned))
    }

    #[test]
    fn from_env_without_key_reports_the_variable() {
        for key in ["", " \n"] {
            let error = from(key, "").unwrap_err();
            assert_eq!(
                error.to_string(),
                "authentication failed: OPENAI_API_KEY is not set: export it, or pass a key to OpenAi::new"
            );
        }
        let provider = from("key\n", "").unwrap();
        let key = provider.endpoint.secret().expose();
        assert_eq!(key, "key", "a file's last line break is no part of it");
    }

    /// Regression test. The limits of OpenAI's server were applied to gateways too.
    #[test]
    fn limits_of_the_server_depend_on_the_base_url() {
        let client = || OpenAi::new("k");
        let azure = || OpenAi::compatible(Dialect::azure("r"), "k");
        let mut own = Dialect::new("http://localhost:4000/v1");
        own.max_stop_sequences = 4;
        for (client, accepts_many) in [
            (client(), false),
            (client().base_url("https://eu.api.openai.com"), false),
            (client().base_url("http://localhost:4000/v1"), true),
            (client().base_url("http://localhost:4000/v1").responses_api(), true),
            (OpenAi::compatible(Dialect::openai().at("http://localhost:4000/v1"), "k"), true),
            (azure(), false),
            (azure().base_url("http://localhost:4000/v1"), false),
            (OpenAi::compatible(Dialect::azure_deployment("r", "d", "v"), "k"), false),
            (OpenAi::compatible(own, "k").base_url("http://localhost:5000/v1"), false),
        ] {
            let check = |sequences: &[&str]| {
                let stop_sequences = sequences.iter().map(|&sequence| sequence.to_owned());
                let stop_sequences = stop_sequences.collect();
                let request = CompletionRequest { stop_sequences, ..Default::default() };
                client.dialect.limits().check(request.view()).is_ok()
            };
            assert_eq!(check(&["a", "b", "c", "d", "e"]), accepts_many, "{client:?}");
            assert!(check(&["a", "b", "c", "d"]) && !check(&[""]), "{client:?}");
            assert!(!accepts_many || !client.dialect.only_common_images, "{client:?}");
        }
    }

    #[test]
    fn from_env_reads_the_base_url() {
        let client =
            OpenAi::from_variables(["key", "", " http://localhost:8080/v1\n"].map(str::to_owned));
        let chats = client.unwrap().endpoint.base_url().join("v1/chat/completions").unwrap();
        assert_eq!(chats.to_string(), "http://localhost:8080/v1/chat/completions");
    }

    #[test]
    fn organization_and_project_are_sent_as_headers() {
        let names = |provider: OpenAi| {
            let headers = provider.headers().unwrap();
            let value = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (value(ORGANIZATION), value(PROJECT))
        };
        assert_eq!(names(from("k", "").unwrap()), (None, None));
        assert_eq!(names(from("k", " ").unwrap()), (None, None));
        assert_eq!(names(from("k", "org-1\n").unwrap()), (Some("org-1".into()), None));
        let provider = OpenAi::new("k").organization("org-2").project("proj-1");
        assert_eq!(names(provider), (Some("org-2".into()), Some("proj-1".into())));
        let error = OpenAi::new("k").organization("a\nb").headers().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: the value of OpenAI-Organization has characters that no header can carry: \
             a line break, perhaps"
        );
    }

    #[test]
    fn info_contains_server_and_default_models() {
        let provider = OpenAi::new("k").model("m");
        let chats = ProviderInfo::new("openai", "m");
        let embeddings = ProviderInfo::new("openai", "text-embedding-3-small");
        assert_eq!(provider.info(), chats.at_server("api.openai.com", Some(443)));
        assert_eq!(provider.embedding_info(), embeddings.at_server("api.openai.com", Some(443)));
        let provider = provider.base_url("http://user:hunter2@[::1]:8080/proxy");
        assert_eq!(provider.info(), chats.at_server("::1", Some(8080)));
        assert_eq!(provider.embedding_info(), embeddings.at_server("::1", Some(8080)));
        let deepseek = OpenAi::compatible(Dialect::deepseek(), "k").model("deepseek-reasoner");
        assert_eq!(
            (deepseek.info().name, deepseek.embedding_info().name),
            ("deepseek", "deepseek")
        );
        assert!(!deepseek.info().can_force_call(CompletionRequest::default().view()));
        let provider = provider.base_url("no URL");
        assert_eq!((provider.info(), provider.embedding_info()), (chats, embeddings));
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let provider = OpenAi::new("sk-hunter2");
        assert!(!format!("{provider:#?}").contains("hunter2"));
        assert!(!format!("{:?}", provider.headers().unwrap()).contains("hunter2"));
        let error = OpenAi::new("sk\nhunter2").headers().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn debug_hides_secrets_in_url_and_headers() {
        let mut dialect = Dialect::new("https://user:hunter2@h/v1?key=hunter2");
        dialect.headers = &[("x-team", "hunter2")];
        let shown = format!("{dialect:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("https://[redacted]@h/v1?[redacted]"), "{shown}");
        assert!(shown.contains("x-team"), "{shown}");
        let provider = OpenAi::compatible(dialect, "k").header("x-gateway-key", " hunter2 ");
        let headers = provider.headers().unwrap();
        for shown in [format!("{provider:?}"), format!("{provider:#?}"), format!("{headers:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        assert_eq!(headers.get("x-gateway-key").unwrap(), " hunter2 ");
        let error = provider.header("x-gateway-key", "hunter2\n").headers().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: the value of x-gateway-key has characters that no header can carry: \
             a line break, perhaps"
        );
    }

    /// The large futures of calls are boxed in this crate, so that programs do not compile them again. They are boxed
    /// only once.
    #[test]
    fn futures_of_calls_are_boxed_once() {
        let (client, request) = (OpenAi::new("k"), RequestRef::default());
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
