//! The client [`Gemini`], its settings, and the HTTP headers of its requests.

use std::borrow::Cow;
use std::time::Duration;

use neuron_http::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use neuron_http::{
    AnswerStream, Endpoint, HttpClient, KeySource, Reply, RequestBody, Secret, header_value,
};
use neuron_model::{
    CompletionResponse, EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    Provider, ProviderError, ProviderInfo, RequestRef, StreamHandle, WasmBoxedFuture,
    WasmCompatSend,
};

use crate::model::Platform;
use crate::models::GEMINI_3_8_FLASH;
use crate::names::NAMES;
use crate::parts::Origin;
use crate::request;
use crate::stream::{self, ChunkDecoder};
use crate::{embed, error, response};

/// Name of the default model of completion requests.
///
/// Google retires models after some time, so choose a model with [`Gemini::model`] in production.
pub const DEFAULT_MODEL: &str = GEMINI_3_8_FLASH;

const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com";

/// Default version of the API of Google AI. Only the beta version has all fields that the crate uses.
///
/// <https://ai.google.dev/gemini-api/docs/api-versions>
const API_VERSION: &str = "v1beta";

/// Default version of the API of Vertex AI, which Google's own clients use.
const VERTEX_API_VERSION: &str = "v1beta1";

/// Method of streamed responses.
const STREAM: &str = "streamGenerateContent?alt=sse";

const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const QUOTA_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// A client of the Gemini API, on Google AI or on Vertex AI.
///
/// Clones share the connections. The `Debug` output does not contain the API key.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_provider_gemini::Gemini;
///
/// let provider = Gemini::new("AIza...")
///     .model("gemini-3.5-flash-lite")
///     .timeout(Duration::from_secs(120));
/// assert!(!format!("{provider:?}").contains("AIza"));
/// ```
#[derive(Debug, Clone)]
pub struct Gemini {
    endpoint: Endpoint,
    platform: Platform,
    api_version: String,
    model: String,
    /// Source of access tokens. Set on Vertex AI only.
    key_source: Option<KeySource>,
    quota_project: Option<String>,
}

impl Gemini {
    /// Creates a client of Google AI that authenticates with `api_key`.
    pub fn new(api_key: impl Into<String>) -> Self {
        Self {
            endpoint: Endpoint::new(DEFAULT_BASE_URL, Secret::new(api_key)),
            platform: Platform::GoogleAi,
            api_version: API_VERSION.to_owned(),
            model: DEFAULT_MODEL.to_owned(),
            key_source: None,
            quota_project: None,
        }
    }

    /// Creates a client of Vertex AI, which authenticates with the access tokens of `source`.
    ///
    /// `project` is the id of the Google Cloud project. `location` is a region such as `europe-west4`, or `us`, `eu` or
    /// `global`. Not every location has every model.
    ///
    /// The client calls `source` before each request, so the source should cache its token until the token expires. The
    /// scope of the token is `https://www.googleapis.com/auth/cloud-platform`. For example, the crate
    /// `google-cloud-auth` creates tokens from the application default credentials, and `gcloud auth
    /// print-access-token` prints a token for tests.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_provider_gemini::{Gemini, KeySource};
    ///
    /// let tokens = KeySource::new(|| async { Ok("ya29...".to_owned()) });
    /// let provider = Gemini::vertex("my-project", "global", tokens).model("gemini-4-argon");
    /// # let _ = provider;
    /// ```
    pub fn vertex(project: impl AsRef<str>, location: impl AsRef<str>, source: KeySource) -> Self {
        let (project, location) = (project.as_ref(), location.as_ref());
        Self {
            endpoint: Endpoint::new(vertex_url(location), Secret::default()),
            platform: Platform::Vertex {
                project: project.to_owned(),
                location: location.to_owned(),
            },
            api_version: VERTEX_API_VERSION.to_owned(),
            key_source: Some(source),
            ..Self::new("")
        }
    }

    /// Creates a client of Google AI from environment variables.
    ///
    /// `GOOGLE_API_KEY` or `GEMINI_API_KEY` contains the API key. If both are set, `GOOGLE_API_KEY` is used.
    /// `GOOGLE_GEMINI_BASE_URL` is optional and contains the [base URL](Self::base_url). Google's own clients read the
    /// same variables.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] if neither variable with a key is set, or both are empty.
    pub fn from_env() -> Result<Self, ProviderError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let names = ["GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"];
        Self::from_variables(names.map(variable))
    }

    /// Creates a client from the values of both keys and the base URL. An empty value counts as not set.
    fn from_variables(values: [String; 3]) -> Result<Self, ProviderError> {
        let [google, gemini, base_url] = values.each_ref().map(|value| value.trim());
        let Some(api_key) = [google, gemini].into_iter().find(|key| !key.is_empty()) else {
            return Err(ProviderError::Authentication(
                "neither GOOGLE_API_KEY nor GEMINI_API_KEY is set: export one, or pass a key to Gemini::new".into(),
            ));
        };
        let client = Self::new(api_key);
        Ok(if base_url.is_empty() { client } else { client.base_url(base_url) })
    }

    /// Sets the model of completion requests that do not name a model themselves. Default: [`DEFAULT_MODEL`].
    ///
    /// On Google AI, the name may begin with `models/` or `tunedModels/`. On Vertex AI, it may begin with the name of a
    /// publisher (`publisher/model`), or be the whole name of an endpoint (`projects/…/endpoints/…`).
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the base URL, for example of a proxy or of a test server. The URL may end with a slash or with the
    /// [version](Self::api_version) of the API. Default: `https://generativelanguage.googleapis.com` or, on Vertex AI,
    /// the URL of the location.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint = self.endpoint.with_base_url(url);
        self
    }

    /// Sets the version of the API. Default: `v1beta` or, on Vertex AI, `v1beta1`. The version `v1` rejects the schemas
    /// of tools.
    #[must_use]
    pub fn api_version(mut self, version: impl Into<String>) -> Self {
        self.api_version = version.into();
        self
    }

    /// Sets the Google Cloud project that pays for the requests, if it is not the project of the credentials. The
    /// client sends it in the `x-goog-user-project` header.
    #[must_use]
    pub fn quota_project(mut self, project: impl Into<String>) -> Self {
        self.quota_project = Some(project.into());
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

    /// Sets the timeout for a whole response or, if the response is streamed, for the beginning of the stream. The wait
    /// for an access token counts towards the timeout. Default: 10 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_timeout(timeout);
        self
    }

    /// Sets the timeout between two chunks of a stream. Default: 2 minutes. Raise the timeout for a model that thinks
    /// for longer without sending anything.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint = self.endpoint.with_idle_timeout(timeout);
        self
    }

    /// Posts `body` to a method of a model, and returns the reply. A status that is not a success becomes an error.
    async fn post(
        &self,
        model: &str,
        method: &str,
        body: impl Into<RequestBody>,
    ) -> Result<Reply, ProviderError> {
        let path = format!("{}/{}", self.api_version, self.platform.path(model, method)?);
        self.endpoint.post(&path, self.headers()?, body, error::from_rejection).await
    }

    async fn generate(
        &self,
        request: RequestRef<'_>,
        method: &str,
    ) -> Result<Reply, ProviderError> {
        let model = request.model_or(&self.model);
        let renamed = NAMES.rename(request);
        let body = request::write_renamed(&renamed, model, self.platform.name())?;
        self.post(model, method, RequestBody::new(body, renamed.into_originals())).await
    }

    /// Returns the server that will respond to a request.
    fn origin(&self, request: RequestRef<'_>) -> Origin {
        Origin::new(self.platform.name(), request.model_or(&self.model))
    }

    /// Sends a request and parses the whole response.
    async fn whole(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        let secret = self.endpoint.secret();
        let origin = self.origin(request);
        if request::needs_stream(request, request.model_or(&self.model)) {
            let reply = self.generate(request, STREAM).await?;
            // The stream is read completely before it is decoded, so that the timeout of a whole response applies.
            return reply.answer(|body| stream::read(body, secret, origin)).await;
        }
        let reply = self.generate(request, "generateContent").await?;
        reply.answer(|body| response::read(body, secret, origin)).await
    }

    /// Sends a request and returns the stream of its response.
    async fn streamed(&self, request: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
        let reply = self.generate(request, STREAM).await?;
        // Some proxies send a JSON error with a successful status instead of a stream.
        let explain = |body: &[u8]| error::find_in(body, "the answer");
        let body = reply.stream(&["text/event-stream"], explain).await?;
        let secret = self.endpoint.secret().clone();
        Ok(AnswerStream::new(body, ChunkDecoder::new(self.origin(request)), secret).into())
    }

    /// Requests the vectors of one batch of the texts of `request`.
    async fn vectors(
        &self,
        method: embed::Method,
        request: &EmbeddingRequest,
        texts: &[String],
    ) -> Result<EmbeddingResponse, ProviderError> {
        let body = embed::write(method, request, texts)?;
        let reply = self.post(embed::model_of(request), method.name(), body).await?;
        embed::read(method, &reply.read().await?, texts.len(), self.endpoint.secret())
    }

    /// Returns a client with the current access token. Returns `self` if there is no source of tokens, and the error of
    /// the source if it fails.
    async fn with_current_key(&self) -> Result<Cow<'_, Self>, ProviderError> {
        let Some(source) = &self.key_source else {
            return Ok(Cow::Borrowed(self));
        };
        let endpoint = self.endpoint.for_call(source).await?;
        Ok(Cow::Owned(Self { endpoint, ..self.clone() }))
    }

    fn headers(&self) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        let secret = self.endpoint.secret();
        match self.platform {
            Platform::GoogleAi => headers.insert(API_KEY, secret.header("")?),
            Platform::Vertex { .. } => headers.insert(AUTHORIZATION, secret.header("Bearer ")?),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(project) = &self.quota_project {
            headers.insert(QUOTA_PROJECT, header_value("x-goog-user-project", project)?);
        }
        Ok(headers)
    }
}

/// Returns the URL of Vertex AI at a location.
///
/// <https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations>
fn vertex_url(location: &str) -> String {
    match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

impl Provider for Gemini {
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
        self.endpoint.info(self.platform.name(), &self.model)
    }
}

/// Creates embeddings. A request without texts is not sent, and has an empty response.
///
/// If the API does not accept all texts in one request, they are sent in several requests, one after the other. The
/// response has the vectors of all texts and the sum of their usage. If one of these requests fails, the call returns
/// its error. The vectors of the earlier requests are lost then, although they are charged. The
/// [timeout](Gemini::timeout) applies to each request.
///
/// | platform | model | method | texts per request |
/// |---|---|---|---|
/// | Google AI | all | `batchEmbedContents` | 100 |
/// | Vertex AI | names with `gemini` | `embedContent` for one text, else `batchEmbedContents` | 100 |
/// | Vertex AI | open models, which are names with `maas` | `embedContent` | 1 |
/// | Vertex AI | others, such as `text-embedding-005` | `predict` | 250, with 20,000 bytes in total |
///
/// The fields of [`EmbeddingRequest::extra`] are sent as settings of each text, for example `taskType` and `title`. On
/// Vertex AI they become fields of `embedContentConfig`. In a `predict` request, the fields of a text are set in each
/// text, and other fields such as `autoTruncate` in `parameters`.
impl EmbeddingProvider for Gemini {
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + WasmCompatSend {
        let answer: WasmBoxedFuture<'_, _> = Box::pin(async move {
            let model = embed::model_of(&request).to_owned();
            let mut all = EmbeddingResponse { model, ..Default::default() };
            for (method, texts) in embed::batches(&self.platform, &request) {
                let client = self.with_current_key().await?;
                let answer = client.vectors(method, &request, texts).await;
                let batch = answer.map_err(|error| client.endpoint.secret().redact_error(error))?;
                all.embeddings.extend(batch.embeddings);
                let (sum, usage) = (&mut all.usage, batch.usage);
                sum.prompt_tokens = sum.prompt_tokens.saturating_add(usage.prompt_tokens);
                sum.total_tokens = sum.total_tokens.saturating_add(usage.total_tokens);
            }
            Ok(all)
        });
        answer
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.endpoint.info(self.platform.name(), embed::DEFAULT_EMBEDDING_MODEL)
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::ProviderDyn;

    use super::*;

    fn variables(values: [&str; 3]) -> Result<Gemini, ProviderError> {
        Gemini::from_variables(values.map(str::to_owned))
    }

    #[test]
    fn from_env_prefers_the_key_of_google() {
        for (google, gemini, key) in
            [("a", "b", "a"), (" ", "b\n", "b"), ("a\n", "", "a"), ("", "b", "b")]
        {
            let client = variables([google, gemini, ""]).unwrap();
            assert_eq!(client.endpoint.secret().expose(), key);
        }
        let error = variables(["", " \n", "http://localhost"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "authentication failed: neither GOOGLE_API_KEY nor GEMINI_API_KEY is set: export one, or pass a key to \
             Gemini::new"
        );
    }

    #[test]
    fn from_env_reads_the_base_url() {
        for (url, expected) in [
            ("", "https://generativelanguage.googleapis.com/v1beta/x"),
            (" http://localhost:8080/v1beta/\n", "http://localhost:8080/v1beta/x"),
        ] {
            let client = variables(["key", "", url]).unwrap();
            let joined = client.endpoint.base_url().join("v1beta/x").unwrap();
            assert_eq!(joined.to_string(), expected);
        }
    }

    fn vertex(location: &str) -> Gemini {
        Gemini::vertex("p", location, KeySource::new(|| async { Ok("token".to_owned()) }))
    }

    #[test]
    fn host_of_vertex_depends_on_the_location() {
        for (location, host) in [
            ("global", "aiplatform.googleapis.com"),
            ("us", "aiplatform.us.rep.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
            ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ] {
            let client = vertex(location);
            let info = ProviderInfo::new("gcp.vertex_ai", DEFAULT_MODEL).at_server(host, Some(443));
            assert_eq!(client.info(), info);
        }
    }

    #[test]
    fn info_contains_the_server() {
        let client = Gemini::new("k").model("m");
        let host = "generativelanguage.googleapis.com";
        let info = ProviderInfo::new("gcp.gemini", "m").at_server(host, Some(443));
        assert_eq!(client.info(), info);
        let embeddings = ProviderInfo::new("gcp.gemini", "gemini-embedding-2");
        assert_eq!(client.embedding_info(), embeddings.at_server(host, Some(443)));
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let client = Gemini::new("hunter2");
        assert!(!format!("{client:#?}").contains("hunter2"));
        let headers = client.headers().unwrap();
        assert_eq!(headers[API_KEY], "hunter2");
        assert!(!format!("{headers:?}").contains("hunter2"));
        let error = Gemini::new("sk\nhunter2").headers().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }

    /// The large futures of calls are boxed in this crate, so that programs do not compile them again. They are boxed
    /// only once.
    #[test]
    fn futures_of_calls_are_boxed_once() {
        let (client, request) = (Gemini::new("k"), RequestRef::default());
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
