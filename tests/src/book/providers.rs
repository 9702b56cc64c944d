//! Tests the chapter of neuron's book on providers. Covers the trait `Provider`, the settings of each provider, a
//! custom provider, errors, and streams.

use std::future::Future;
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_provider_anthropic::Anthropic;
use neuron_provider_ollama::Ollama;
use neuron_provider_openai::OpenAi;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError, Role,
    StopReason, StreamError, StreamEvent, StreamHandle, TokenUsage, ToolContext,
};
use serde_json::json;

/// Contains the code of the section "Quick example" of neuron's book, with the provider as a parameter.
async fn quick_example(provider: impl Provider) -> Result<(), Box<dyn std::error::Error>> {
    let request = CompletionRequest {
        messages: vec![Message::user("What is Rust?")],
        max_tokens: Some(256),
        ..Default::default()
    };

    let response = provider.complete(request).await?;
    println!("{}", response.message.content[0]); // ContentBlock::Text(...)
    println!("Tokens: {} in, {} out", response.usage.input_tokens, response.usage.output_tokens);
    Ok(())
}

#[test]
fn request_without_a_model_has_an_empty_name() {
    assert_eq!(CompletionRequest::default().model, "");
}

/// Tests the section "Construction" of the Anthropic provider in neuron's book.
#[test]
fn anthropic_is_built_as_printed() {
    // From environment variable (ANTHROPIC_API_KEY)
    let from_env = || -> Result<Anthropic, ProviderError> {
        let provider = Anthropic::from_env()?;
        Ok(provider)
    };
    let _ = from_env;

    // With explicit API key
    let provider = Anthropic::new("sk-ant-...");
    assert_eq!(provider.info().name, "anthropic");
    let shown = format!("{provider:?}");
    assert!(shown.contains(r#""https://api.anthropic.com""#), "{shown}");

    // Builder-style configuration
    let provider =
        Anthropic::new("sk-ant-...").model("claude-opus-4-5").base_url("https://api.anthropic.com");
    assert_eq!(provider.info().default_model, "claude-opus-4-5");
}

/// Tests the section "Construction" of the OpenAI provider in neuron's book.
#[test]
fn openai_is_built_as_printed() {
    // From environment variable (OPENAI_API_KEY, optional OPENAI_ORG_ID)
    let from_env = || -> Result<OpenAi, ProviderError> {
        let provider = OpenAi::from_env()?;
        Ok(provider)
    };
    let _ = from_env;

    // With explicit API key
    let provider = OpenAi::new("sk-...");
    assert_eq!(provider.info().name, "openai");
    let shown = format!("{provider:?}");
    assert!(shown.contains(r#""https://api.openai.com""#), "{shown}");
    assert!(shown.contains("organization: None"), "{shown}");

    // Builder-style configuration
    let provider = OpenAi::new("sk-...")
        .model("gpt-4o")
        .base_url("https://api.openai.com")
        .organization("org-...");
    assert_eq!(provider.info().default_model, "gpt-4o");
}

/// Tests the section "Construction" of the Ollama provider in neuron's book.
#[test]
fn ollama_is_built_as_printed() {
    // Default: localhost:11434, no auth
    let provider = Ollama::new();
    assert_eq!((provider.info().name, provider.info().default_model), ("ollama", "llama3.2"));
    let shown = format!("{provider:?}");
    assert!(shown.contains(r#""http://localhost:11434""#), "{shown}");

    // From environment (reads OLLAMA_HOST if set)
    let from_env = || -> Result<Ollama, ProviderError> {
        let provider = Ollama::from_env()?;
        Ok(provider)
    };
    let _ = from_env;

    // Builder-style configuration
    let provider =
        Ollama::new().model("llama3.2").base_url("http://remote-host:11434").keep_alive("5m");
    let shown = format!("{provider:?}");
    assert!(shown.contains(r#""http://remote-host:11434""#), "{shown}");
}

mod as_printed {
    //! Tests the code and the statements of the section "Implementing a custom provider" of neuron's book.

    #![expect(unreachable_pub, unused_imports, reason = "as printed")]

    use neuron_types::{
        CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError,
        Role, StopReason, StreamHandle, TokenUsage,
    };
    use std::future::Future;

    /// A minimal provider that calls a hypothetical LLM API.
    pub struct MyProvider {
        api_key: String,
    }

    impl MyProvider {
        pub fn new(api_key: impl Into<String>) -> Self {
            Self { api_key: api_key.into() }
        }
    }

    impl Provider for MyProvider {
        #[expect(unused_variables, reason = "as printed")]
        fn complete(
            &self,
            request: CompletionRequest,
        ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + Send {
            let api_key = self.api_key.clone();
            async move {
                // In a real implementation, serialize `request` and send it
                // to your LLM API using reqwest, hyper, etc.
                let response_text = format!(
                    "Echo: {}",
                    request.messages.last().map(|m| m.content[0].to_string()).unwrap_or_default()
                );

                Ok(CompletionResponse {
                    id: "resp-001".to_string(),
                    model: "my-model-v1".to_string(),
                    message: Message::assistant(response_text),
                    usage: TokenUsage { input_tokens: 10, output_tokens: 20, ..Default::default() },
                    stop_reason: StopReason::EndTurn,
                })
            }
        }

        fn complete_stream(
            &self,
            _request: CompletionRequest,
        ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + Send {
            async { Err(ProviderError::InvalidRequest("streaming not supported".to_string())) }
        }
    }
}

use as_printed::MyProvider;

/// A provider with `async fn` methods that wraps the custom provider of neuron's book. Its streams receive their events
/// through a channel.
struct Channelled(MyProvider);

impl Provider for Channelled {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.0.complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let response = self.0.complete(request).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        let input = json!({ "city": "Tokyo" });
        for event in [
            StreamEvent::TextDelta(response.message.text()),
            StreamEvent::ToolUse { id: "call_1".into(), name: "get_weather".into(), input },
            StreamEvent::Usage(response.usage),
            StreamEvent::MessageComplete(response.message),
            StreamEvent::Error(StreamError::retryable("the line broke")),
        ] {
            sender.try_send(event).unwrap();
        }
        Ok(StreamHandle { receiver: receiver.into() })
    }
}

#[tokio::test]
async fn custom_provider_responds() {
    let request =
        CompletionRequest { messages: vec![Message::user("hello")], ..Default::default() };
    // Destructuring without `..` checks that the type has exactly the five fields of the table.
    let CompletionResponse { id, model, message, usage, stop_reason } =
        MyProvider::new("key").complete(request).await.unwrap();
    assert_eq!((id.as_str(), model.as_str()), ("resp-001", "my-model-v1"));
    assert_eq!(
        message,
        Message { role: Role::Assistant, content: vec![ContentBlock::Text("Echo: hello".into())] }
    );
    // Destructuring without `..` checks that the type has exactly these six counts and the cost. The optional fields are
    // `None`.
    let TokenUsage {
        input_tokens: 10,
        output_tokens: 20,
        cache_read_tokens: None,
        cache_creation_tokens: None,
        reasoning_tokens: None,
        iterations: None,
        cost: None,
    } = usage
    else {
        panic!("{usage:?}")
    };
    assert_eq!(stop_reason, StopReason::EndTurn);
    quick_example(MyProvider::new("key")).await.unwrap();
}

/// Checks that a generic function can spawn a provider call as a task. The bound `P: Provider + 'static` is sufficient.
#[tokio::test]
async fn provider_call_can_be_spawned() {
    fn ask<P: Provider + 'static>(provider: P) -> tokio::task::JoinHandle<StopReason> {
        tokio::spawn(async move {
            let response = provider.complete(CompletionRequest::default()).await;
            response.unwrap().stop_reason
        })
    }
    let done = ask(MyProvider::new("key")).await.unwrap();
    assert_eq!(done, StopReason::EndTurn);
}

/// Contains the code of the section "Error handling" of neuron's book.
async fn may_retry<P: Provider>(provider: P, request: CompletionRequest) -> Option<bool> {
    match provider.complete(request).await {
        Ok(response) => {
            /* ... */
            drop(response);
            None
        }
        Err(e) if e.is_retryable() => {
            // Network, RateLimit, ModelLoading, Timeout, ServiceUnavailable
            // Safe to retry with backoff
            Some(true)
        }
        Err(e) => {
            // Authentication, InvalidRequest, ModelNotFound, InsufficientResources
            // Do not retry -- fix the root cause
            drop(e);
            Some(false)
        }
    }
}

#[tokio::test]
async fn provider_errors_are_retryable_as_the_table_says() {
    use neuron_testing::{Reply, ScriptedProvider};

    for (error, retryable) in [
        (ProviderError::Network("reset".into()), true),
        (ProviderError::RateLimit { retry_after: None }, true),
        (ProviderError::ModelLoading("cold".into()), true),
        (ProviderError::Timeout(Duration::from_secs(1)), true),
        (ProviderError::ServiceUnavailable("503".into()), true),
        (ProviderError::Authentication("key".into()), false),
        (ProviderError::InvalidRequest("bad".into()), false),
        (ProviderError::ModelNotFound("none".into()), false),
        (ProviderError::InsufficientResources("quota".into()), false),
        (ProviderError::StreamError("broken".into()), false),
        (ProviderError::Other("else".into()), false),
    ] {
        assert_eq!(error.is_retryable(), retryable, "{error}");
        let provider = ScriptedProvider::new([Reply::error(error)]);
        let request = CompletionRequest::default();
        assert_eq!(may_retry(provider, request).await, Some(retryable));
    }
    let provider = MyProvider::new("key");
    assert_eq!(may_retry(provider, CompletionRequest::default()).await, None);
}

/// Contains the code of the section "Streaming" of neuron's book.
#[expect(unused_imports, unused_variables, reason = "as printed")]
async fn streaming<P: Provider>(
    provider: P,
    request: CompletionRequest,
) -> Result<usize, ProviderError> {
    use futures::StreamExt;
    use neuron_types::StreamEvent;

    let mut kinds = 0;
    let handle = provider.complete_stream(request).await?;
    let mut stream = handle.receiver;

    while let Some(event) = stream.recv().await {
        kinds += 1;
        match event {
            StreamEvent::TextDelta(text) => print!("{text}"),
            StreamEvent::ToolUse { id, name, input } => { /* tool call */ }
            StreamEvent::Usage(usage) => { /* token stats */ }
            StreamEvent::MessageComplete(message) => { /* final assembled message */ }
            StreamEvent::Error(err) => { /* stream error */ }
            _ => {}
        }
    }
    Ok(kinds)
}

#[tokio::test]
async fn stream_is_read_by_recv_or_as_a_stream() {
    let provider = || Channelled(MyProvider::new("key"));
    let seen = streaming(provider(), CompletionRequest::default()).await;
    assert_eq!(seen.unwrap(), 5);

    use futures::StreamExt;
    let provider = provider();
    let handle = provider.complete_stream(CompletionRequest::default());
    let receiver = handle.await.unwrap().receiver;
    assert_eq!(receiver.collect::<Vec<_>>().await.len(), 5);

    let provider = MyProvider::new("key");
    let refused = provider.complete_stream(CompletionRequest::default());
    assert_eq!(refused.await.unwrap_err().to_string(), "invalid request: streaming not supported");
}

/// Contains the code of two sections of neuron's book, "Provider + AgentLoop integration" and "Swapping providers". The
/// provider is a parameter.
async fn integration<P: Provider>(provider: P) -> Result<(), Box<dyn std::error::Error>> {
    use neuron_tool::ToolRegistry;

    // 2. Choose a context strategy (keep last 20 messages, up to 100k tokens)
    let context = SlidingWindowStrategy::new(20, 100_000);

    // 3. Create a tool registry (empty here -- add tools as needed)
    let tools = ToolRegistry::new();

    // 4. Assemble the agent loop
    let mut agent = AgentLoop::builder(provider, context)
        .system_prompt("You are a helpful assistant.")
        .max_turns(10)
        .tools(tools)
        .build();

    // 5. Run with a plain text message
    let ctx = ToolContext::default();
    let result = agent.run_text("Hello!", &ctx).await?;
    println!("{}", result.response);
    println!(
        "Turns: {}, Tokens: {} in / {} out",
        result.turns, result.usage.input_tokens, result.usage.output_tokens
    );

    assert_eq!(result.turns, 1);
    Ok(())
}

#[tokio::test]
async fn agent_code_works_with_every_provider() {
    use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply, ScriptedProvider};

    let server = AnthropicServer::start([Reply::text("Hi!")]).await.unwrap();
    let anthropic = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    integration(anthropic).await.unwrap();
    let server = OpenAiServer::start([Reply::text("Hi!")]).await.unwrap();
    let openai = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
    integration(openai.model("gpt-4o")).await.unwrap();
    let server = OllamaServer::start([Reply::text("Hi!")]).await.unwrap();
    integration(Ollama::new().base_url(server.url())).await.unwrap();
    integration(ScriptedProvider::new([Reply::text("Hi!")])).await.unwrap();
    integration(MyProvider::new("key")).await.unwrap();
}

/// Checks that the futures of `Provider::complete` and `Provider::complete_stream` are `Send`.
#[test]
fn provider_futures_are_send() {
    fn both<P: Provider>(
        provider: &P,
    ) -> (
        impl Future<Output = Result<CompletionResponse, ProviderError>> + Send,
        impl Future<Output = Result<StreamHandle, ProviderError>> + Send,
    ) {
        (
            provider.complete(CompletionRequest::default()),
            provider.complete_stream(CompletionRequest::default()),
        )
    }
    let provider = MyProvider::new("key");
    drop(both(&provider));
}
