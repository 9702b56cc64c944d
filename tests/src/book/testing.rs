//! Tests the chapter of neuron's book on testing agents. The mock provider and the test functions of the chapter have
//! their printed names.

use std::path::PathBuf;
use std::sync::Mutex;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_tool::ToolRegistry;
use neuron_types::*;

struct MockProvider {
    responses: Mutex<Vec<CompletionResponse>>,
}

impl Provider for MockProvider {
    async fn complete(&self, _req: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        let mut responses = self.responses.lock().unwrap();
        Ok(responses.remove(0))
    }
    async fn complete_stream(
        &self,
        _req: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("mock does not stream".into()))
    }
}

fn end_turn_response(text: &str) -> CompletionResponse {
    CompletionResponse {
        id: "mock-1".to_string(),
        model: "mock".to_string(),
        message: Message::assistant(text),
        usage: TokenUsage::default(),
        stop_reason: StopReason::EndTurn,
    }
}

fn tool_call_response(
    tool_name: &str,
    tool_id: &str,
    args: serde_json::Value,
) -> CompletionResponse {
    CompletionResponse {
        id: "mock-2".to_string(),
        model: "mock".to_string(),
        message: Message {
            role: Role::Assistant,
            content: vec![ContentBlock::ToolUse {
                id: tool_id.to_string(),
                name: tool_name.to_string(),
                input: args,
            }],
        },
        usage: TokenUsage::default(),
        stop_reason: StopReason::ToolUse,
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct WeatherArgs {
    city: String,
}

struct GetWeather;

impl Tool for GetWeather {
    const NAME: &'static str = "get_weather";
    type Args = WeatherArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "get_weather".to_string(),
            title: None,
            description: "Get the current weather for a city".to_string(),
            input_schema: schemars::schema_for!(WeatherArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, args: WeatherArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
        if args.city.chars().all(|c| c.is_ascii_digit()) {
            return Err(ToolError::ModelRetry(format!(
                "city must be a valid name, got '{}'",
                args.city
            )));
        }
        Ok(format!("Weather in {}: 72F, sunny", args.city))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArgs {
    text: String,
}

struct EchoTool;

impl Tool for EchoTool {
    const NAME: &'static str = "echo";
    type Args = EchoArgs;
    type Output = String;
    type Error = std::convert::Infallible;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "echo".into(),
            title: None,
            description: "Echoes a text".into(),
            input_schema: schemars::schema_for!(EchoArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(
        &self,
        args: EchoArgs,
        _ctx: &ToolContext,
    ) -> Result<String, std::convert::Infallible> {
        Ok(args.text)
    }
}

#[tokio::test]
async fn test_multi_turn_mock() {
    let provider = MockProvider {
        responses: Mutex::new(vec![
            // Turn 1: model calls a tool
            tool_call_response("get_weather", "call-1", serde_json::json!({"city": "Tokyo"})),
            // Turn 2: model responds with the final answer
            end_turn_response("The weather in Tokyo is 72F and sunny."),
        ]),
    };

    let mut tools = ToolRegistry::new();
    tools.register(GetWeather);
    let mut agent =
        AgentLoop::builder(provider, SlidingWindowStrategy::new(10, 100_000)).tools(tools).build();
    let ctx = ToolContext::default();
    let result = agent.run_text("Weather in Tokyo?", &ctx).await.unwrap();
    assert_eq!(result.response, "The weather in Tokyo is 72F and sunny.");
    assert_eq!(result.turns, 2);
}

#[tokio::test]
async fn test_weather_tool() {
    let tool = GetWeather;
    let ctx = ToolContext::default();

    let result = tool.call(WeatherArgs { city: "Tokyo".to_string() }, &ctx).await;
    assert!(result.is_ok());
    assert!(result.unwrap().contains("Tokyo"));
}

#[test]
fn context_fields_can_be_overridden() {
    let ctx = ToolContext {
        session_id: "test-session".to_string(),
        cwd: PathBuf::from("/srv/test"),
        ..Default::default()
    };
    assert_eq!(ctx.session_id, "test-session");
    assert_eq!(ctx.cwd, PathBuf::from("/srv/test"));
}

#[tokio::test]
async fn test_tool_via_registry() {
    let mut registry = ToolRegistry::new();
    registry.register(GetWeather);

    let ctx = ToolContext::default();
    let input = serde_json::json!({"city": "London"});

    let output = registry.execute("get_weather", input, &ctx).await.unwrap();
    assert!(!output.is_error);

    // Check structured output
    let text = &output.content[0];
    match text {
        neuron_types::ContentItem::Text(t) => assert!(t.contains("London")),
        _ => panic!("expected text content"),
    }
}

#[tokio::test]
async fn test_sliding_window() {
    let strategy = SlidingWindowStrategy::new(3, 100_000);

    // Create a long conversation
    let messages: Vec<Message> = (0..10).map(|i| Message::user(format!("Message {i}"))).collect();

    assert!(strategy.should_compact(&messages, 150_000));

    let compacted = strategy.compact(messages).await.unwrap();
    assert!(compacted.len() <= 3);
}

#[tokio::test]
async fn test_agent_loop_with_tool_call() {
    // Set up mock provider with two responses:
    // 1. Model calls the echo tool
    // 2. Model produces a final answer
    let provider = MockProvider {
        responses: Mutex::new(vec![
            tool_call_response("echo", "call-1", serde_json::json!({"text": "hello"})),
            end_turn_response("The echo tool returned: hello"),
        ]),
    };

    let mut tools = ToolRegistry::new();
    tools.register(EchoTool);

    let context = SlidingWindowStrategy::new(10, 100_000);

    let mut agent = AgentLoop::builder(provider, context)
        .tools(tools)
        .system_prompt("You are a test agent.")
        .max_turns(5)
        .build();

    let ctx = ToolContext::default();
    let result = agent.run(Message::user("Echo hello"), &ctx).await.unwrap();

    assert_eq!(result.turns, 2);
    assert!(result.response.contains("hello"));
}

/// Tests the code of the section "Test `ToolError::ModelRetry` by returning it from a mock tool" of neuron's book.
#[tokio::test]
async fn model_retry_reaches_the_model_as_an_error_result() {
    let call = |id, city| tool_call_response("get_weather", id, serde_json::json!({"city": city}));
    let provider = MockProvider {
        responses: Mutex::new(vec![
            call("call_1", "123"),
            call("call_2", "Tokyo"),
            end_turn_response("72F"),
        ]),
    };
    let mut tools = ToolRegistry::new();
    tools.register(GetWeather);
    let mut agent =
        AgentLoop::builder(provider, SlidingWindowStrategy::new(10, 100_000)).tools(tools).build();

    let ctx = ToolContext::default();
    let result = agent.run_text("Weather?", &ctx).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("72F", 3));
    let results = |message: &Message| message.content.clone();
    let answered = |id: &str, text: &str, is_error| {
        vec![ContentBlock::ToolResult {
            tool_use_id: id.into(),
            content: vec![ContentItem::Text(text.into())],
            is_error,
        }]
    };
    assert_eq!(
        results(&result.messages[2]),
        answered("call_1", "city must be a valid name, got '123'", true)
    );
    assert_eq!(
        results(&result.messages[4]),
        answered("call_2", "Weather in Tokyo: 72F, sunny", false)
    );
}

#[tokio::test]
async fn mock_without_streaming_ends_the_stream_with_an_error() {
    let provider = MockProvider { responses: Mutex::default() };
    let mut agent = AgentLoop::builder(provider, SlidingWindowStrategy::new(10, 100_000)).build();
    let ctx = ToolContext::default();
    let mut rx = agent.run_stream(Message::user("hi"), &ctx).await;
    let Some(StreamEvent::Error(error)) = rx.recv().await else { panic!("an error") };
    assert_eq!(error.to_string(), "provider error: invalid request: mock does not stream");
    assert!(rx.recv().await.is_none());
}

mod http {
    //! Tests the code and the statements of the section "HTTP-Level Integration Tests with wiremock" of neuron's book.

    use neuron_provider_openai::OpenAi;
    use neuron_types::*;
    use wiremock::matchers::{method, path};
    use wiremock::{Mock, MockServer, ResponseTemplate};

    #[tokio::test]
    async fn test_openai_provider_http() {
        let server = MockServer::start().await;

        // Mock the OpenAI completions endpoint
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .respond_with(ResponseTemplate::new(200).set_body_json(serde_json::json!({
                "id": "chatcmpl-123",
                "model": "gpt-4o",
                "choices": [{
                    "index": 0,
                    "message": { "role": "assistant", "content": "Hello!" },
                    "finish_reason": "stop"
                }],
                "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }
            })))
            .mount(&server)
            .await;

        let client = OpenAi::new("test-key").base_url(server.uri());

        let response = client
            .complete(CompletionRequest {
                model: "gpt-4o".to_string(),
                messages: vec![Message::user("Hi")],
                ..Default::default()
            })
            .await
            .unwrap();

        assert_eq!(response.stop_reason, StopReason::EndTurn);
    }
}

/// The code of the section "5. Testing Guardrails" of neuron's book.
mod guardrails {
    use crate::book::runtime::NoSecrets;
    use neuron_runtime::InputGuardrail;

    #[tokio::test]
    async fn test_no_secrets_guardrail() {
        let guardrail = NoSecrets;

        let result = guardrail.check("What is Rust?").await;
        assert!(result.is_pass());

        let result = guardrail.check("My API_KEY is abc123").await;
        assert!(result.is_tripwire());
    }
}
