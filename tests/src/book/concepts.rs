//! Tests the chapter of neuron's book on core concepts. Implements `Provider`, `Tool`, `ContextStrategy`,
//! `ObservabilityHook` and `DurableContext` with the printed signatures.

use std::future::Future;
use std::time::Duration;

use neuron_provider_anthropic::Anthropic;
use neuron_types::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

struct Silent;

impl Provider for Silent {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(CompletionResponse {
            id: "1".into(),
            model: request.model,
            message: Message::assistant(""),
            usage: TokenUsage::default(),
            stop_reason: StopReason::EndTurn,
        })
    }

    async fn complete_stream(
        &self,
        _request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("it does not stream".into()))
    }
}

#[derive(serde::Deserialize, JsonSchema)]
struct NoArgs {}

struct Now;

impl Tool for Now {
    const NAME: &'static str = "now";
    type Args = NoArgs;
    type Output = u64;
    type Error = std::fmt::Error;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "now".into(),
            title: None,
            description: "The time".into(),
            input_schema: schemars::schema_for!(NoArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(
        &self,
        _args: Self::Args,
        _ctx: &ToolContext,
    ) -> Result<Self::Output, Self::Error> {
        Ok(1)
    }
}

struct NoCompaction;

impl ContextStrategy for NoCompaction {
    fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

struct Watch;

impl ObservabilityHook for Watch {
    // The chapter prints `-> HookAction`. The chapters on the loop and on observability print the `Result`, which is
    // correct.
    async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }
}

struct Engine;

impl DurableContext for Engine {
    fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _options: ActivityOptions,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + Send {
        async move { Silent.complete(request).await.map_err(DurableError::Provider) }
    }

    fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        _options: ActivityOptions,
    ) -> impl Future<Output = Result<ToolOutput, DurableError>> + Send {
        async move {
            assert_eq!(tool_name, Now::NAME);
            Now.call_dyn(input, ctx).await.map_err(DurableError::Tool)
        }
    }

    // The chapter leaves out the methods below.
    async fn wait_for_signal<T: DeserializeOwned>(
        &self,
        _signal_name: &str,
        _timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        Ok(None)
    }

    fn should_continue_as_new(&self) -> bool {
        false
    }

    async fn continue_as_new(&self, _state: Value) -> Result<(), DurableError> {
        Ok(())
    }

    async fn sleep(&self, _duration: Duration) {}

    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        chrono::Utc::now()
    }
}

/// Calls methods of the five core traits, with the trait bounds that neuron's book prints. This function shows that the
/// bounds are sufficient.
async fn with_all<P, T, C, O, D>(provider: P, tool: T, context: C, hook: O, durable: D) -> usize
where
    P: Provider + Send + Sync,
    T: Tool + Send + Sync,
    T::Args: DeserializeOwned + JsonSchema,
    T::Output: Serialize,
    T::Error: std::error::Error,
    C: ContextStrategy + Send + Sync,
    O: ObservabilityHook + Send + Sync,
    D: DurableContext + Send + Sync,
{
    let request = CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() };
    let response = provider.complete(request.clone()).await.unwrap();
    assert!(provider.complete_stream(request.clone()).await.is_err());
    let event = HookEvent::PostLlmCall { response: &response };
    assert_eq!(hook.on_event(event).await.unwrap(), HookAction::Continue);
    let durably = durable.execute_llm_call(request, ActivityOptions::default());
    assert_eq!(durably.await.unwrap(), response);
    let args = serde_json::from_value(json!({})).unwrap();
    let ctx = ToolContext::default();
    assert!(tool.call(args, &ctx).await.is_ok());
    assert_eq!(tool.definition().name, T::NAME);
    let options = ActivityOptions::default();
    let output = durable.execute_tool(T::NAME, json!({}), &ctx, options).await;
    assert_eq!(output.unwrap().content, [ContentItem::Text("1".into())]);
    let kept = context.compact(vec![response.message]).await.unwrap();
    assert!(!context.should_compact(&kept, 1));
    context.token_estimate(&kept)
}

#[tokio::test]
async fn five_traits_compile_as_printed_and_can_be_spawned() {
    let all = tokio::spawn(with_all(Silent, Now, NoCompaction, Watch, Engine));
    assert_eq!(all.await.unwrap(), 1);
}

#[test]
fn hook_returns_one_of_three_actions() {
    let name = |action| match action {
        HookAction::Continue => "continue".to_owned(),
        HookAction::Skip { reason } | HookAction::Terminate { reason } => reason,
    };
    let actions = [
        HookAction::Continue,
        HookAction::Skip { reason: "skip".into() },
        HookAction::Terminate { reason: "terminate".into() },
    ];
    assert_eq!(actions.map(name), ["continue", "skip", "terminate"]);
}

#[test]
fn provider_reads_its_credentials_from_the_environment() {
    let _: fn() -> Result<Anthropic, ProviderError> = Anthropic::from_env;
}
