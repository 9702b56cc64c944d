//! The client [`Bedrock`], its settings, and the HTTP headers of its requests.

use std::borrow::Cow;
use std::time::Duration;

#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
use aws_credential_types::provider::ProvideCredentials;
use neuron_http::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use neuron_http::{
    AnswerStream, Endpoint, HttpClient, KeySource, Reply, RequestBody, Secret, header,
};
use neuron_model::{
    CompletionResponse, ForcedCalls, Provider, ProviderError, ProviderInfo, RequestRef,
    StreamHandle, WasmBoxedFuture,
};

use crate::PROVIDER;
use crate::allowed::NAMES;
use crate::content::Origin;
#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
use crate::credentials::DefaultSources;
use crate::model::{self, Family, Model};
use crate::models::CLAUDE_SONNET_4_6;
use crate::region;
use crate::request::{self, Guardrail, Settings, model_of};
#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
use crate::sigv4::Sigv4;
use crate::stream::{self, ConverseDecoder};
use crate::{error, response};

/// Id of the default model of requests.
///
/// The default is a global inference profile, which commercial regions have. AWS retires models after some time, so
/// choose a model with [`Bedrock::model`] in production.
pub const DEFAULT_MODEL: &str = CLAUDE_SONNET_4_6;

/// Type of streamed responses.
const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// Header with the id of a request.
const REQUEST_ID: &str = "x-amzn-requestid";

/// A client of Amazon Bedrock's Converse API.
///
/// Clones share the connections. The `Debug` output does not contain the API key.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_provider_bedrock::Bedrock;
///
/// let provider = Bedrock::new("eu-central-1", "bedrock-api-key-...")
///     .model("eu.anthropic.claude-sonnet-4-6")
///     .timeout(Duration::from_secs(120));
/// assert!(!format!("{provider:?}").contains("bedrock-api-key"));
/// ```
#[derive(Debug, Clone)]
pub struct Bedrock {
    endpoint: Endpoint,
    region: String,
    authentication: Authentication,
    model: String,
    /// Id of the model behind `model`. Empty if it is not set.
    base_model: String,
    max_tokens: Option<usize>,
    guardrail: Option<Guardrail>,
}

/// The way in which requests are authenticated.
#[derive(Debug, Clone)]
enum Authentication {
    /// The API key of the endpoint.
    Key,
    /// API keys that expire.
    KeySource(KeySource),
    /// Signatures. The key source loads the credentials, so that the wait for them counts towards the timeout.
    #[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
    Sigv4(Sigv4, KeySource),
}

impl Bedrock {
    /// Creates a client of Bedrock in a region, such as `us-east-1`. It authenticates with an
    /// [API key](https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html) of Bedrock.
    pub fn new(region: impl Into<String>, api_key: impl Into<String>) -> Self {
        let region = region.into();
        Self {
            endpoint: Endpoint::new(region::base_url(&region), Secret::new(api_key)),
            region,
            authentication: Authentication::Key,
            model: DEFAULT_MODEL.to_owned(),
            base_model: String::new(),
            max_tokens: None,
            guardrail: None,
        }
    }

    /// Creates a client that signs its requests with the AWS credentials of `provider`, for example of the
    /// `credentials_provider` in a configuration of the crate `aws-config`.
    ///
    /// The credentials are loaded before the first request, and again a minute before they expire. Credentials without
    /// an expiry are loaded again after 15 minutes. Not available on wasm32.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_provider_bedrock::Bedrock;
    /// use neuron_provider_bedrock::aws_credential_types::Credentials;
    ///
    /// let credentials = Credentials::new("AKIDEXAMPLE", "wJalrXUtn...", None, None, "my vault");
    /// let provider = Bedrock::with_credentials("us-east-1", credentials);
    /// assert!(!format!("{provider:?}").contains("wJalrXUtn"));
    /// ```
    #[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
    pub fn with_credentials(
        region: impl Into<String>,
        provider: impl ProvideCredentials + 'static,
    ) -> Self {
        let sigv4 = Sigv4::new(provider);
        let of_source = sigv4.clone();
        let source = KeySource::new(move || {
            let sigv4 = of_source.clone();
            async move { sigv4.token().await }
        });
        Self { authentication: Authentication::Sigv4(sigv4, source), ..Self::new(region, "") }
    }

    /// Creates a client that signs its requests with the AWS credentials of the
    /// [default sources](https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html): environment
    /// variables, profiles, SSO, web identities, and roles of containers and instances.
    ///
    /// The credentials are loaded as for [`with_credentials`](Self::with_credentials), and the sources are read anew
    /// each time. A source on the network is reached through the proxy that environment variables name. The
    /// [HTTP client](Self::http_client) has no effect on the sources. Not available on wasm32.
    ///
    /// # Errors
    ///
    /// Requests return these errors:
    ///
    /// - [`ProviderError::Authentication`] if no source has credentials, or if a source refuses them.
    /// - [`ProviderError::Network`] if a source cannot be reached.
    #[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
    pub fn with_default_credentials(region: impl Into<String>) -> Self {
        let region = region.into();
        Self::with_credentials(region.clone(), DefaultSources::new(region))
    }

    /// Creates a client from environment variables, which AWS's own clients read too.
    ///
    /// - `AWS_REGION` or `AWS_DEFAULT_REGION` contains the region. If both are set, `AWS_REGION` is used.
    /// - `AWS_BEARER_TOKEN_BEDROCK` contains the API key. Without a key, and with the feature `sigv4`, requests are
    ///   signed with the AWS credentials of the default sources.
    /// - `AWS_ENDPOINT_URL_BEDROCK_RUNTIME` is optional and contains the [base URL](Self::base_url).
    ///
    /// # Errors
    ///
    /// - [`ProviderError::InvalidRequest`] if no region is set.
    /// - [`ProviderError::Authentication`] if no API key is set. Not with the feature `sigv4`.
    pub fn from_env() -> Result<Self, ProviderError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Self::from_variables(
            [
                "AWS_REGION",
                "AWS_DEFAULT_REGION",
                "AWS_BEARER_TOKEN_BEDROCK",
                "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            ]
            .map(variable),
        )
    }

    /// Creates a client from the values of both regions, the key and the base URL. An empty value counts as not set.
    fn from_variables(values: [String; 4]) -> Result<Self, ProviderError> {
        let [region, default_region, key, url] = values.each_ref().map(|value| value.trim());
        let Some(region) = [region, default_region].into_iter().find(|region| !region.is_empty())
        else {
            return Err(ProviderError::InvalidRequest(
                "neither AWS_REGION nor AWS_DEFAULT_REGION is set: export one, or pass a region to Bedrock::new"
                    .into(),
            ));
        };
        let client =
            if key.is_empty() { Self::without_key(region)? } else { Self::new(region, key) };
        Ok(if url.is_empty() { client } else { client.base_url(url) })
    }

    #[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
    fn without_key(region: &str) -> Result<Self, ProviderError> {
        Ok(Self::with_default_credentials(region))
    }

    #[cfg(not(all(feature = "sigv4", not(target_family = "wasm"))))]
    fn without_key(_region: &str) -> Result<Self, ProviderError> {
        Err(ProviderError::Authentication(
            "AWS_BEARER_TOKEN_BEDROCK is not set: export it, pass a key to Bedrock::new, or enable the feature `sigv4` \
             for AWS credentials"
                .into(),
        ))
    }

    /// Sets the model of requests that do not name a model themselves. Default: [`DEFAULT_MODEL`].
    ///
    /// The id is the id of a model, an inference profile (`us.anthropic.claude-opus-5-5`), or an ARN. AWS offers newer
    /// models through inference profiles only.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the id of the model behind ids that do not contain it. An example is the ARN of an application inference
    /// profile. The requests depend on the family of the model. The id itself is never sent.
    ///
    /// Without this setting, requests to such a model contain no cache points and no thinking of Claude, and images of
    /// tool results follow the results.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_provider_bedrock::Bedrock;
    ///
    /// let profile = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/fm16bt65tzgx";
    /// let provider = Bedrock::new("us-east-1", "bedrock-api-key-...")
    ///     .model(profile)
    ///     .base_model("anthropic.claude-opus-5-5");
    /// # let _ = provider;
    /// ```
    #[must_use]
    pub fn base_model(mut self, model: impl Into<String>) -> Self {
        self.base_model = model.into();
        self
    }

    /// Sets the maximum number of output tokens of requests that do not set one themselves. Default:
    /// [`DEFAULT_MAX_TOKENS`](crate::DEFAULT_MAX_TOKENS), or a lower number that depends on the model. Not sent to Nova 2
    /// with the highest effort, which rejects a maximum.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Applies a [guardrail](https://docs.aws.amazon.com/bedrock/latest/userguide/guardrails.html) to all requests.
    /// `id` is its id or ARN, and `version` is a number or `DRAFT`.
    ///
    /// If the guardrail intervenes, the stop reason is [`ContentFilter`](neuron_model::StopReason::ContentFilter), and
    /// [`stop_details`](neuron_model::AnswerMetadata::stop_details) contains its trace. Set other fields of
    /// `guardrailConfig` with [`extra`](neuron_model::CompletionRequest::extra).
    #[must_use]
    pub fn guardrail(mut self, id: impl Into<String>, version: impl Into<String>) -> Self {
        let (id, version) = (id.into(), version.into());
        self.guardrail = Some(Guardrail { id, version, trace: "enabled" });
        self
    }

    /// Sets a source of API keys, for keys that expire. The client calls the source before each request. The time until
    /// the source returns a key counts towards [`timeout`](Self::timeout).
    #[must_use]
    pub fn key_source(mut self, source: KeySource) -> Self {
        self.authentication = Authentication::KeySource(source);
        self
    }

    /// Sets the base URL, for example of a VPC endpoint, a FIPS endpoint, a proxy or a test server. The URL may end
    /// with a slash. Default: the URL of the region.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint = self.endpoint.with_base_url(url);
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
    /// for a key or for credentials counts towards the timeout. Default: 10 minutes.
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

    fn settings(&self) -> Settings<'_> {
        Settings { max_tokens: self.max_tokens, guardrail: self.guardrail.as_ref() }
    }

    /// Returns the model that a request asks.
    fn asked<'a>(&'a self, request: RequestRef<'a>) -> Model<'a> {
        Model::new(model_of(request, &self.model), &self.base_model)
    }

    /// Posts a request to a method of its model, and returns the reply with the origin of the response. A status that
    /// is not a success becomes an error.
    async fn post(
        &self,
        request: RequestRef<'_>,
        method: &str,
    ) -> Result<(Reply, Origin), ProviderError> {
        let model = self.asked(request);
        let renamed = NAMES.rename(request);
        let body = request::write_renamed(&renamed, model, self.settings())?;
        let names = renamed.into_originals();
        let path = model::path(model.id, method)?;
        let headers = self.headers(&path, &body).await?;
        let body = RequestBody::new(body, names);
        let reply = self.endpoint.post(&path, headers, body, error::from_rejection).await?;
        let mut origin = Origin::new(model);
        origin.request_id = header(reply.headers(), REQUEST_ID).unwrap_or_default().to_owned();
        Ok((reply, origin))
    }

    /// Sends a request and parses the whole response.
    async fn whole(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        let secret = self.endpoint.secret();
        if request::needs_stream(request, self.asked(request), self.settings()) {
            let (reply, origin) = self.post(request, "converse-stream").await?;
            // The stream is read completely before it is decoded, so that the timeout of a whole response applies.
            return reply.answer(|body| stream::read(body, secret, origin)).await;
        }
        let (reply, origin) = self.post(request, "converse").await?;
        reply.answer(|body| response::read(body, secret, origin)).await
    }

    /// Sends a request and returns the stream of its response.
    async fn streamed(&self, request: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
        let (reply, origin) = self.post(request, "converse-stream").await?;
        // Some proxies send a JSON error with a successful status instead of a stream.
        let explain = |body: &[u8]| error::find_in(body, "the answer");
        let body = reply.stream(&[EVENT_STREAM], explain).await?;
        let secret = self.endpoint.secret().clone();
        Ok(AnswerStream::new(body, ConverseDecoder::new(origin), secret).into())
    }

    /// Returns a client with the current key. Returns `self` if the key never changes, and the error of the source of
    /// keys if it fails. The region is checked first, because the default sources of credentials connect to it.
    async fn with_current_key(&self) -> Result<Cow<'_, Self>, ProviderError> {
        region::check(&self.region)?;
        let source = match &self.authentication {
            Authentication::Key => return Ok(Cow::Borrowed(self)),
            Authentication::KeySource(source) => source,
            #[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
            Authentication::Sigv4(_, source) => source,
        };
        let endpoint = self.endpoint.for_call(source).await?;
        Ok(Cow::Owned(Self { endpoint, ..self.clone() }))
    }

    async fn headers(&self, path: &str, body: &[u8]) -> Result<HeaderMap, ProviderError> {
        let mut headers = match &self.authentication {
            #[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
            Authentication::Sigv4(sigv4, _) => {
                let uri = self.endpoint.base_url().join(path)?;
                sigv4.headers(&self.region, &uri, body).await?
            }
            _ => {
                let _ = (path, body);
                let key = self.endpoint.secret().header("Bearer ")?;
                HeaderMap::from_iter([(AUTHORIZATION, key)])
            }
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(headers)
    }
}

impl Provider for Bedrock {
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
        let model = Model::new(&self.model, &self.base_model);
        let forced_calls = match model.family {
            Family::Claude => {
                let known = model::thinking_models();
                let is_known = known.iter().any(|start| self.model.starts_with(start));
                let is_hidden = model.thinks_by_default() && !is_known;
                // Every id begins with an empty text. An ARN has its model at the end, or nowhere.
                let thinking_models = if is_hidden { &[""] } else { known };
                ForcedCalls::NotWhileThinking { thinking_models }
            }
            _ if model.can_force_calls() => ForcedCalls::Accepted,
            _ => ForcedCalls::Refused,
        };
        self.endpoint.info(PROVIDER, &self.model).with_forced_calls(forced_calls)
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::ProviderDyn;

    use super::*;

    fn variables(values: [&str; 4]) -> Result<Bedrock, ProviderError> {
        Bedrock::from_variables(values.map(str::to_owned))
    }

    #[test]
    fn from_env_reads_region_key_and_base_url() {
        for (values, region, url) in [
            (
                ["eu-west-1", "us-east-1", "key\n", ""],
                "eu-west-1",
                "https://bedrock-runtime.eu-west-1.amazonaws.com/x",
            ),
            (
                [" ", "us-east-1\n", "key", ""],
                "us-east-1",
                "https://bedrock-runtime.us-east-1.amazonaws.com/x",
            ),
            (
                ["us-east-1", "", "key", " http://localhost:8080/\n"],
                "us-east-1",
                "http://localhost:8080/x",
            ),
        ] {
            let client = variables(values).unwrap();
            assert_eq!(
                (client.region.as_str(), client.endpoint.secret().expose()),
                (region, "key")
            );
            assert_eq!(client.endpoint.base_url().join("x").unwrap().to_string(), url);
        }
        let error = variables(["", " ", "key", ""]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: neither AWS_REGION nor AWS_DEFAULT_REGION is set: export one, or pass a region to \
             Bedrock::new"
        );
    }

    #[cfg(not(feature = "sigv4"))]
    #[test]
    fn from_env_without_key_reports_the_variable() {
        let error = variables(["us-east-1", "", " \n", ""]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "authentication failed: AWS_BEARER_TOKEN_BEDROCK is not set: export it, pass a key to Bedrock::new, or \
             enable the feature `sigv4` for AWS credentials"
        );
    }

    #[test]
    fn info_contains_the_server_and_the_forced_calls_of_the_model() {
        let host = "bedrock-runtime.us-east-1.amazonaws.com";
        let client = Bedrock::new("us-east-1", "k");
        let of_claude = ForcedCalls::NotWhileThinking { thinking_models: model::thinking_models() };
        for (model, forced_calls) in [
            (DEFAULT_MODEL, of_claude),
            ("amazon.nova-lite-v1:0", ForcedCalls::Accepted),
            ("global.openai.gpt-6-sol", ForcedCalls::Accepted),
            ("openai.gpt-oss-120b-1:0", ForcedCalls::Refused),
            ("mistral.mistral-large-2402-v1:0", ForcedCalls::Refused),
            ("my-profile", ForcedCalls::Refused),
        ] {
            let client = client.clone().model(model);
            let info = ProviderInfo::new("aws.bedrock", model).at_server(host, Some(443));
            assert_eq!(client.info(), info.with_forced_calls(forced_calls));
        }
        let client = client.model("my-profile").base_model("amazon.nova-lite-v1:0");
        assert_eq!(client.info().forced_calls, ForcedCalls::Accepted);
    }

    #[test]
    fn thinking_by_default_forbids_forced_calls_for_every_kind_of_id() {
        let arn = "arn:aws:bedrock:us-east-1:123456789012:";
        let profile = format!("{arn}inference-profile/us.anthropic.claude-");
        let opaque = format!("{arn}application-inference-profile/abc");
        for (model, base, can_force) in [
            ("global.anthropic.claude-opus-5-5", "", false),
            ("us-gov.anthropic.claude-sonnet-5-5", "", false),
            ("anthropic.claude-fable-5-1", "", false),
            ("global.anthropic.claude-fable-5-1", "", false),
            ("us.anthropic.claude-mythos-5-2", "", false),
            (&format!("{profile}sonnet-5"), "", false),
            (&format!("{profile}fable-5-1"), "", false),
            (&opaque, "anthropic.claude-mythos-5-1", false),
            (&opaque, "anthropic.claude-opus-5-5", false),
            (&opaque, "us.anthropic.claude-opus-5-5", false),
            ("global.anthropic.claude-haiku-5-5", "", true),
            (&format!("{profile}sonnet-4-6"), "", true),
            (&opaque, "anthropic.claude-sonnet-4-6", true),
        ] {
            let client = Bedrock::new("us-east-1", "k").model(model).base_model(base);
            let can = client.info().can_force_call(RequestRef::default());
            assert_eq!(can, can_force, "{model} {base}");
        }
        for model in model::thinking_models() {
            assert!(Model::new(model, "").thinks_by_default(), "{model}");
        }
    }

    #[tokio::test]
    async fn invalid_region_is_an_error_before_a_key_is_loaded() {
        let source = KeySource::new(|| async {
            Err::<String, _>(ProviderError::Authentication("loaded".into()))
        });
        let request = neuron_model::CompletionRequest::default();
        for (region, kind) in [("evil.example/", "InvalidRequest"), ("us-east-1", "Authentication")]
        {
            let client = Bedrock::new(region, "").key_source(source.clone());
            let whole = client.complete_ref(request.view()).await;
            assert_eq!(whole.unwrap_err().kind(), kind);
            let streamed = client.complete_stream_ref(request.view()).await;
            assert_eq!(streamed.unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let client = Bedrock::new("us-east-1", "hunter2");
        assert!(!format!("{client:#?}").contains("hunter2"));
    }

    /// The large futures of calls are boxed in this crate, so that programs do not compile them again. They are boxed
    /// only once.
    #[test]
    fn futures_of_calls_are_boxed_once() {
        let (client, request) = (Bedrock::new("us-east-1", "k"), RequestRef::default());
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
