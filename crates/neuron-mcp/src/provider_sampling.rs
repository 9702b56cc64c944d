//! Sampling by a provider of the client.

mod policy;
mod tool_names;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_types::{CompletionRequest, McpError, Provider, ProviderError};

pub use self::policy::{AllowAll, SamplingDecision, SamplingPolicy, SamplingRefused};
use self::tool_names::ToolNames;
use crate::{SamplingHandler, SamplingRequest, SamplingResponse};

/// So many tokens a request may take by default.
const DEFAULT_MAX_TOKENS: u32 = 4096;

/// A [`SamplingHandler`] that answers requests of servers by any [`Provider`].
///
/// Whoever runs the server writes the prompt, reads the answer and spends our tokens. The protocol therefore
/// wants a person to be able to deny each request (MCP specification 2025-11-25, "Sampling"), so a
/// [`SamplingPolicy`] must be given. It sees each request before the model, and each answer before the server;
/// it may ask a person, since it is async. [`AllowAll`] lets servers of your own ask what they like.
///
/// # What the model is asked
///
/// The server's messages, system prompt, temperature, stop sequences and tools. Its tools are not executed
/// here: the server does that, and asks again. Nothing of the agent's own conversation is added.
///
/// - **Model**: servers only give hints. [`with_model_for`](Self::with_model_for) says which model a hint
///   stands for; without one it is [`with_model`](Self::with_model), or the provider's default.
/// - **Tokens**: at most [`with_max_tokens`](Self::with_max_tokens), 4096 by default, whatever the server
///   wants.
/// - **Number**: [`with_max_requests`](Self::with_max_requests). By default there is no limit.
///
/// Why the model failed is logged, and not told to the server.
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
    provider: P,
    policy: S,
    model: String,
    /// Parts of hints, in lower case, and the models that they stand for.
    models: Vec<(String, String)>,
    max_tokens: u32,
    max_requests: usize,
    /// Number of requests to the model.
    requests: AtomicUsize,
}

impl<P: Provider, S: SamplingPolicy> ProviderSampling<P, S> {
    /// Answers by this provider what this policy allows.
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

    /// Sets the model for requests whose hints say nothing to us. By default it is the provider's.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the model for requests with this hint. A hint of a server may be longer or shorter than `hint`, and
    /// in other letters: `haiku` stands for `Claude-Haiku` too. The server's first hint that is known counts.
    pub fn with_model_for(mut self, hint: impl Into<String>, model: impl Into<String>) -> Self {
        self.models.push((hint.into().to_lowercase(), model.into()));
        self
    }

    /// Sets how many tokens an answer may have at the most. By default 4096.
    pub fn with_max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets the maximum number of requests to the model, without the requests that the policy refuses. By
    /// default there is no limit.
    pub fn with_max_requests(mut self, requests: usize) -> Self {
        self.max_requests = requests;
        self
    }

    /// Returns the number of requests to the model so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn model(&self, request: &SamplingRequest) -> String {
        let stands_for = |hint: &String| {
            let hint = hint.to_lowercase();
            let is_meant = |known: &str| hint.contains(known) || known.contains(&hint);
            let is_said = !hint.is_empty();
            self.models.iter().find(|(known, _)| is_said && is_meant(known))
        };
        let known = request.model_preferences.hints.iter().find_map(stands_for);
        known.map_or_else(|| self.model.clone(), |(_, model)| model.clone())
    }

    fn completion(&self, request: SamplingRequest, names: &ToolNames) -> CompletionRequest {
        // A server that names no number wants as many as it may have.
        let wanted = if request.max_tokens == 0 { u32::MAX } else { request.max_tokens };
        let tokens = wanted.min(self.max_tokens);
        CompletionRequest {
            model: self.model(&request),
            messages: names.in_messages(request.messages),
            system: request.system_prompt.filter(|prompt| !prompt.is_empty()).map(Into::into),
            tools: names.in_definitions(request.tools),
            max_tokens: Some(usize::try_from(tokens).unwrap_or(usize::MAX)),
            temperature: request.temperature,
            stop_sequences: request.stop_sequences,
            tool_choice: request.tool_choice.map(|choice| names.in_choice(choice)),
            ..CompletionRequest::default()
        }
    }

    /// Takes one of the requests that are left.
    fn count(&self) -> Result<(), McpError> {
        let next = |done: usize| (done < self.max_requests).then_some(done.saturating_add(1));
        let counted = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.map(drop).map_err(|_| refused("no more requests are allowed".to_owned()))
    }
}

impl<P: Provider, S: SamplingPolicy> SamplingHandler for ProviderSampling<P, S> {
    /// Asks the policy, the model, and the policy again.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`]: with [`SamplingRefused`] what the policy or a limit refused, else that the model
    /// failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the provider's; the request has been counted.
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        let request = decided(self.policy.review_request(request).await)?;
        self.count()?;
        let names = ToolNames::of(&request.tools);
        let completion = self.completion(request.clone(), &names);
        let answer = self.provider.complete_ref(completion.view()).await.map_err(failed)?;
        let response = SamplingResponse {
            message: names.of_server_in(answer.message),
            model: match answer.model {
                model if model.is_empty() => completion.model,
                model => model,
            },
            stop_reason: Some(answer.stop_reason),
        };
        decided(self.policy.review_response(&request, response).await)
    }
}

fn decided<T>(decision: SamplingDecision<T>) -> Result<T, McpError> {
    match decision {
        SamplingDecision::Allow(value) => Ok(value),
        SamplingDecision::Refuse(reason) => Err(refused(reason)),
    }
}

fn refused(reason: String) -> McpError {
    McpError::Other(Box::new(SamplingRefused { reason }))
}

/// Hides the provider's error from the server, because it may contain details of our account.
fn failed(error: ProviderError) -> McpError {
    // Of no span: whoever exports spans exports what is logged within them.
    tracing::warn!(target: "neuron_mcp", parent: None, %error, "the model that a server asked failed");
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
