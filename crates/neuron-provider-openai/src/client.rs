//! The client: its settings, its headers, and the calls.

use std::time::Duration;

use neuron_http::reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use neuron_http::{AnswerStream, Endpoint, Reply, Secret, header_value};
use neuron_types::{
    CompletionRequest, CompletionResponse, EmbeddingError, EmbeddingProvider, EmbeddingRequest,
    EmbeddingResponse, Provider, ProviderError, ProviderInfo, RequestRef, StreamHandle,
};

use crate::error::ApiError;
use crate::models::{GPT_5_4_MINI, TEXT_EMBEDDING_3_SMALL};
use crate::request::{self, PROVIDER, Settings, SystemRole};
use crate::stream::ChatAnswer;
use crate::{embed, error, response, responses};

/// The model for requests that name none.
///
/// Models end: set [`OpenAi::model`] in production. This one reasons, and takes no sampling
/// parameters.
pub const DEFAULT_MODEL: &str = GPT_5_4_MINI;

/// The model for embeddings that name none.
pub const DEFAULT_EMBEDDING_MODEL: &str = TEXT_EMBEDDING_3_SMALL;

const DEFAULT_BASE_URL: &str = "https://api.openai.com";

const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROJECT: HeaderName = HeaderName::from_static("openai-project");

/// A client of OpenAI's API, and of servers that are compatible with it.
///
/// It speaks Chat Completions, or the Responses API after [`responses_api`](Self::responses_api),
/// and it embeds. Clones share the connections. `Debug` does not show the key.
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
    settings: Settings,
}

/// Which of the two APIs answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    ChatCompletions,
    Responses,
}

impl OpenAi {
    /// Creates a client with a key.
    pub fn new(api_key: impl Into<String>) -> Self {
        Self {
            endpoint: Endpoint::new(DEFAULT_BASE_URL, Secret::new(api_key)),
            model: DEFAULT_MODEL.to_owned(),
            organization: None,
            project: None,
            api: Api::ChatCompletions,
            settings: Settings::default(),
        }
    }

    /// Creates a client with the key in `OPENAI_API_KEY` and, if it is set, the organization in
    /// `OPENAI_ORG_ID`.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] when the key's variable is not set or empty.
    pub fn from_env() -> Result<Self, ProviderError> {
        let variable = |name| std::env::var(name).ok();
        Self::from_variables(variable("OPENAI_API_KEY"), variable("OPENAI_ORG_ID"))
    }

    fn from_variables(
        api_key: Option<String>,
        organization: Option<String>,
    ) -> Result<Self, ProviderError> {
        let set = |value: Option<String>| {
            let value = value?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let Some(api_key) = set(api_key) else {
            return Err(ProviderError::Authentication(
                "OPENAI_API_KEY is not set: export it, or pass a key to OpenAi::new".into(),
            ));
        };
        Ok(Self { organization: set(organization), ..Self::new(api_key) })
    }

    /// Sets the model for requests that name none. Default: [`DEFAULT_MODEL`].
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets where the API is, for compatible servers, proxies and tests; with or without a slash or
    /// `/v1` at its end. Default: `https://api.openai.com`.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint = self.endpoint.with_base_url(url);
        self
    }

    /// Sets the organization that pays, for keys that belong to several: the
    /// `OpenAI-Organization` header.
    #[must_use]
    pub fn organization(mut self, organization: impl Into<String>) -> Self {
        self.organization = Some(organization.into());
        self
    }

    /// Sets the project that pays: the `OpenAI-Project` header.
    #[must_use]
    pub fn project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Answers by the Responses API in place of Chat Completions.
    ///
    /// What comes back goes back as it came: reasoning with its encrypted content, items of the
    /// vendor's own tools, ids. The conversation is not stored at the vendor (`store` is false)
    /// unless [`CompletionRequest::extra`] says otherwise, and reasoning comes encrypted; a model
    /// that does not reason refuses that, and wants `"include": []` in `extra`.
    #[must_use]
    pub fn responses_api(mut self) -> Self {
        self.api = Api::Responses;
        self
    }

    /// Sets the role of system prompts. Default: [`SystemRole::Developer`]; many compatible servers
    /// want [`SystemRole::System`].
    #[must_use]
    pub fn system_role(mut self, role: SystemRole) -> Self {
        self.settings.system_role = role;
        self
    }

    /// Lets the model call one tool at a time. By default it may call several at once.
    #[must_use]
    pub fn disable_parallel_tool_calls(mut self) -> Self {
        self.settings.one_call_at_a_time = true;
        self
    }

    /// Sends reasoning that came as `reasoning_content` back in that field, as some compatible
    /// servers want while the model calls tools. OpenAI's own API has no such field.
    #[must_use]
    pub fn echo_reasoning(mut self) -> Self {
        self.settings.echo_reasoning = true;
        self
    }

    /// Sends requests with a client of your own: for a proxy that is not in the environment, or for certificates that
    /// the operating system does not have. Turn redirects off, because they may carry the key to another server.
    /// [`Endpoint::with_client`] has the details.
    #[must_use]
    pub fn http_client(mut self, client: neuron_http::reqwest::Client) -> Self {
        self.endpoint = self.endpoint.with_client(client);
        self
    }

    /// Limits the wait for a connection, TLS included. Default: 10 seconds. On wasm the browser
    /// decides.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_connect_timeout(timeout);
        self
    }

    /// Limits the wait for a whole answer, or for a stream to begin. Default: 10 minutes. On wasm
    /// the browser decides.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_timeout(timeout);
        self
    }

    /// Limits the wait between two pieces of a stream. Default: 2 minutes; a model that reasons
    /// long may be silent for longer. On wasm there is no limit.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_idle_timeout(timeout);
        self
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Reply, ProviderError> {
        self.endpoint.post(path, self.headers()?, body, error::from_rejection).await
    }

    async fn ask(&self, request: RequestRef<'_>, stream: bool) -> Result<Reply, ProviderError> {
        let model = match request.model {
            "" => &self.model,
            model => model,
        };
        match self.api {
            Api::ChatCompletions => {
                let body = request::write(request, model, self.settings, stream)?;
                self.post("v1/chat/completions", body).await
            }
            Api::Responses => {
                let body = responses::request::write(request, model, self.settings, stream)?;
                self.post("v1/responses", body).await
            }
        }
    }

    async fn whole(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        let body = self.ask(request, false).await?.read().await?;
        match self.api {
            Api::ChatCompletions => response::read(&body, self.endpoint.secret()),
            Api::Responses => responses::response::read(&body, self.endpoint.secret()),
        }
    }

    async fn streamed(&self, request: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
        let reply = self.ask(request, true).await?;
        let explain = |body: &[u8]| ApiError::find_in(body).map(|error| error::from_answer(&error));
        let body = reply.stream(&["text/event-stream"], explain).await?;
        let secret = self.endpoint.secret().clone();
        Ok(match self.api {
            Api::ChatCompletions => AnswerStream::new(body, ChatAnswer::default(), secret).into(),
            Api::Responses => {
                AnswerStream::new(body, responses::stream::ResponseAnswer::default(), secret).into()
            }
        })
    }

    async fn embedded(
        &self,
        request: &EmbeddingRequest,
    ) -> Result<EmbeddingResponse, ProviderError> {
        let body = embed::write(request, DEFAULT_EMBEDDING_MODEL)?;
        let body = self.post("v1/embeddings", body).await?.read().await?;
        embed::read(&body, request.input.len(), self.endpoint.secret())
    }

    fn headers(&self) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.endpoint.secret().header("Bearer ")?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(organization) = &self.organization {
            headers.insert(ORGANIZATION, header_value("OpenAI-Organization", organization)?);
        }
        if let Some(project) = &self.project {
            headers.insert(PROJECT, header_value("OpenAI-Project", project)?);
        }
        Ok(headers)
    }
}

impl Provider for OpenAi {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.complete_ref(request.view()).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.complete_stream_ref(request.view()).await
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        let answer = self.whole(request).await;
        answer.map_err(|error| self.endpoint.secret().redact_error(error))
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let answer = self.streamed(request).await;
        answer.map_err(|error| self.endpoint.secret().redact_error(error))
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.endpoint.info(PROVIDER, &self.model)
    }
}

impl EmbeddingProvider for OpenAi {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        let answer = self.embedded(&request).await;
        answer.map_err(|error| self.endpoint.secret().redact_error(error).into())
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.endpoint.info(PROVIDER, DEFAULT_EMBEDDING_MODEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(api_key: Option<&str>, organization: Option<&str>) -> Result<OpenAi, ProviderError> {
        OpenAi::from_variables(api_key.map(str::to_owned), organization.map(str::to_owned))
    }

    #[test]
    fn a_missing_key_says_what_to_do() {
        for key in [None, Some(""), Some(" \n")] {
            let error = from(key, None).unwrap_err();
            assert_eq!(
                error.to_string(),
                "authentication failed: OPENAI_API_KEY is not set: export it, or pass a key to OpenAi::new"
            );
        }
        let provider = from(Some("key\n"), None).unwrap();
        let key = provider.endpoint.secret().expose();
        assert_eq!(key, "key", "a file's last line break is no part of it");
    }

    #[test]
    fn who_pays_is_in_the_headers() {
        let names = |provider: OpenAi| {
            let headers = provider.headers().unwrap();
            let value = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (value(ORGANIZATION), value(PROJECT))
        };
        assert_eq!(names(from(Some("k"), None).unwrap()), (None, None));
        assert_eq!(names(from(Some("k"), Some(" ")).unwrap()), (None, None));
        assert_eq!(names(from(Some("k"), Some("org-1\n")).unwrap()), (Some("org-1".into()), None));
        let provider = OpenAi::new("k").organization("org-2").project("proj-1");
        assert_eq!(names(provider), (Some("org-2".into()), Some("proj-1".into())));
        let error = OpenAi::new("k").organization("a\nb").headers().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: `a\nb` cannot be sent as OpenAI-Organization"
        );
    }

    #[test]
    fn telemetry_learns_the_server_and_the_model_of_each_task() {
        let provider = OpenAi::new("k").model("m");
        let chats = ProviderInfo::new("openai", "m");
        let embeddings = ProviderInfo::new("openai", "text-embedding-3-small");
        assert_eq!(provider.info(), chats.at_server("api.openai.com", Some(443)));
        assert_eq!(provider.embedding_info(), embeddings.at_server("api.openai.com", Some(443)));
        let provider = provider.base_url("http://user:hunter2@[::1]:8080/proxy");
        assert_eq!(provider.info(), chats.at_server("::1", Some(8080)));
        assert_eq!(provider.embedding_info(), embeddings.at_server("::1", Some(8080)));
        let provider = provider.base_url("no URL");
        assert_eq!((provider.info(), provider.embedding_info()), (chats, embeddings));
    }

    #[test]
    fn the_key_shows_nowhere() {
        let provider = OpenAi::new("sk-hunter2");
        assert!(!format!("{provider:#?}").contains("hunter2"));
        assert!(!format!("{:?}", provider.headers().unwrap()).contains("hunter2"));
        let error = OpenAi::new("sk\nhunter2").headers().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
