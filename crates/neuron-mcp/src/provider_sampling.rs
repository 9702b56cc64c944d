//! [`ProviderSampling`], which answers the sampling requests of servers with a model of the client.

mod policy;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_types::{CompletionRequest, McpError, Provider, ProviderError, ToolDefinition};

pub use self::policy::{AllowAll, SamplingDecision, SamplingPolicy, SamplingRefused};
use crate::bridge::cleaned_schema;
use crate::{SamplingHandler, SamplingRequest, SamplingResponse};

/// Default maximum number of tokens of one response.
const DEFAULT_MAX_TOKENS: u32 = 4096;

/// A [`SamplingHandler`] that sends the sampling requests of MCP servers to a [`Provider`].
///
/// With sampling, the operator of a server writes the prompt and reads the response, and you pay for the tokens. The
/// protocol therefore recommends that a person can deny each request (MCP specification 2025-11-25, "Sampling").
///
/// For this reason a [`SamplingPolicy`] is required. The policy reviews each request before it is sent to the model,
/// and each response before it is sent to the server. The policy is async, so it can ask a person. For servers that you
/// operate yourself, use [`AllowAll`].
///
/// # Request to the model
///
/// The model receives the server's messages, system prompt, temperature, stop sequences and tools. It does not receive
/// the conversation of your agent.
///
/// If the model calls a tool, the response with the tool call is sent to the server. The server executes the tool and
/// sends another sampling request with the result.
///
/// - **Model**: a server can only send hints, which are parts of model names. Set the model for a hint with
///   [`with_model_for`](Self::with_model_for). Set the model for all other requests with
///   [`with_model`](Self::with_model). By default the provider selects the model.
/// - **Tokens**: a response has at most as many tokens as the server requests, and never more than
///   [`with_max_tokens`](Self::with_max_tokens). Defaults to 4096.
/// - **Requests**: [`with_max_requests`](Self::with_max_requests) limits the number of requests to the model. By
///   default there is no limit.
///
/// If the provider fails, its error is logged. The server receives only a general error, because the error may contain
/// details of your account.
///
/// # Example
///
/// ```
/// use neuron_mcp::{McpClient, ProviderSampling, SamplingDecision, SamplingRequest};
/// use neuron_types::Provider;
///
/// # async fn ask_the_user(_question: String) -> bool { true }
/// async fn ask(request: SamplingRequest) -> SamplingDecision<SamplingRequest> {
///     let prompt = request.messages.last().map(|message| message.text()).unwrap_or_default();
///     match ask_the_user(format!("A server asks your model: {prompt}")).await {
///         true => SamplingDecision::Allow(request),
///         false => SamplingDecision::Refuse("the user said no".into()),
///     }
/// }
///
/// # fn example(provider: impl Provider + 'static) {
/// let sampling = ProviderSampling::new(provider, ask)
///     .with_model_for("haiku", "claude-haiku-4-5")
///     .with_max_tokens(1000)
///     .with_max_requests(20);
/// let builder = McpClient::builder().sampling(sampling);
/// # }
/// ```
#[must_use]
pub struct ProviderSampling<P, S> {
    /// Provider of the model.
    provider: P,
    /// Policy that reviews requests and responses.
    policy: S,
    /// Model for requests whose hints match no entry of `models`. Empty for the provider's default model.
    model: String,
    /// Pairs of a hint in lower case and the model for it, in the order of the calls of
    /// [`with_model_for`](Self::with_model_for). A hint is a part of the name of a model that a server prefers.
    models: Vec<(String, String)>,
    /// Maximum number of tokens of one response.
    max_tokens: u32,
    /// Maximum number of requests to the model, over the whole lifetime of this handler.
    max_requests: usize,
    /// Number of requests to the model so far.
    requests: AtomicUsize,
}

impl<P: Provider, S: SamplingPolicy> ProviderSampling<P, S> {
    /// Creates a handler that sends each request to `provider` if `policy` allows the request.
    pub fn new(provider: P, policy: S) -> Self {
        Self {
            provider,
            policy,
            model: String::new(),
            models: Vec::new(),
            max_tokens: DEFAULT_MAX_TOKENS,
            max_requests: usize::MAX,
            requests: AtomicUsize::new(0),
        }
    }

    /// Sets the model for requests without a match in [`with_model_for`](Self::with_model_for). Defaults to the
    /// provider's default model.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the model for requests with a matching hint. A hint is a part of the name of a model that the server
    /// prefers.
    ///
    /// The server's hint matches `hint` if one contains the other. Case is ignored. For example, `haiku` matches the
    /// server's hint `Claude-Haiku`. If a request has several hints, the first hint with a match selects the model.
    pub fn with_model_for(mut self, hint: impl Into<String>, model: impl Into<String>) -> Self {
        self.models.push((hint.into().to_lowercase(), model.into()));
        self
    }

    /// Sets the maximum number of tokens of one response, even if a server requests more. Defaults to 4096.
    pub fn with_max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets the maximum number of requests that this handler sends to the model in total. Further requests are refused.
    /// Requests that the policy refuses do not count. By default there is no limit.
    pub fn with_max_requests(mut self, requests: usize) -> Self {
        self.max_requests = requests;
        self
    }

    /// Returns the number of requests that were sent to the model.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the model for a request, by the request's hints. Returns an empty string for the provider's default
    /// model.
    fn model(&self, request: &SamplingRequest) -> String {
        let stands_for = |hint: &String| {
            let hint = hint.to_lowercase();
            let is_meant = |known: &str| hint.contains(known) || known.contains(&hint);
            // An empty hint must not match, because every text contains the empty text.
            let is_said = !hint.is_empty();
            self.models.iter().find(|(known, _)| is_said && is_meant(known))
        };
        let known = request.model_preferences.hints.iter().find_map(stands_for);
        known.map_or_else(|| self.model.clone(), |(_, model)| model.clone())
    }

    /// Converts a sampling request of a server into a request to the provider. The provider replaces tool names that its
    /// vendor rejects.
    fn completion(&self, request: SamplingRequest) -> CompletionRequest {
        let shown = |tool: ToolDefinition| {
            let input_schema = cleaned_schema(&tool.input_schema);
            ToolDefinition { input_schema, ..tool }
        };
        // A server that sends no number (zero) gets the maximum.
        let wanted = if request.max_tokens == 0 { u32::MAX } else { request.max_tokens };
        let tokens = wanted.min(self.max_tokens);
        CompletionRequest {
            model: self.model(&request),
            messages: request.messages,
            system: request.system_prompt.filter(|prompt| !prompt.is_empty()).map(Into::into),
            tools: request.tools.into_iter().map(shown).collect(),
            max_tokens: Some(usize::try_from(tokens).unwrap_or(usize::MAX)),
            temperature: request.temperature,
            stop_sequences: request.stop_sequences,
            tool_choice: request.tool_choice,
            ..CompletionRequest::default()
        }
    }

    /// Counts a request to the model. Returns an error if the maximum number of requests is reached.
    fn count(&self) -> Result<(), McpError> {
        let next = |done: usize| (done < self.max_requests).then_some(done.saturating_add(1));
        let counted = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.map(drop).map_err(|_| refused("no more requests are allowed".to_owned()))
    }
}

impl<P: Provider, S: SamplingPolicy> SamplingHandler for ProviderSampling<P, S> {
    /// Lets the policy review the request, sends the request to the model, and lets the policy review the response.
    ///
    /// # Errors
    ///
    /// Every error is an [`McpError::Other`]:
    ///
    /// - With a [`SamplingRefused`] if the policy refuses, or the maximum number of requests is reached.
    /// - With a general text if the provider fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request to the model. The request still counts for the maximum number of
    /// requests.
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        let request = decided(self.policy.review_request(request).await)?;
        self.count()?;
        let completion = self.completion(request.clone());
        let answer = self.provider.complete_ref(completion.view()).await.map_err(failed)?;
        let response = SamplingResponse {
            message: answer.message,
            model: match answer.model {
                model if model.is_empty() => completion.model,
                model => model,
            },
            stop_reason: Some(answer.stop_reason),
        };
        decided(self.policy.review_response(&request, response).await)
    }
}

/// Returns the value that the policy allowed. Returns an error with [`SamplingRefused`] if the policy refused.
fn decided<T>(decision: SamplingDecision<T>) -> Result<T, McpError> {
    match decision {
        SamplingDecision::Allow(value) => Ok(value),
        SamplingDecision::Refuse(reason) => Err(refused(reason)),
    }
}

/// Creates the error for a refused request or response. The server receives its text.
fn refused(reason: String) -> McpError {
    McpError::Other(Box::new(SamplingRefused { reason }))
}

/// Logs the provider's error, and returns a general error for the server. The server must not see the provider's error,
/// which may contain details of the user's account.
fn failed(error: ProviderError) -> McpError {
    // Logged outside of all spans, because an exporter of spans also exports the events inside them.
    tracing::warn!(target: "neuron_mcp", parent: None, %error, "the model failed for a server's request");
    McpError::Other("the client's model failed".into())
}

impl<P, S> fmt::Debug for ProviderSampling<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSampling")
            .field("model", &self.model)
            .field("models", &self.models)
            .field("max_tokens", &self.max_tokens)
            .field("max_requests", &self.max_requests)
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}
