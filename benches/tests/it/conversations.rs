//! Checks the memory of a conversation. It must be little more than its messages, and must not include the agent's
//! definition.

use std::sync::Arc;

use neuron_benches::ALLOCATOR;
use neuron_benches::turn::Unlimited;
use neuron_loop::{Agent, Conversation};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, RequestRef,
    StopReason, StreamHandle, TokenUsage, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Map, Value, json};

const CONVERSATIONS: usize = 100_000;

/// Maximum memory of a conversation in addition to its messages, in bytes.
const MOST: usize = 8 * 1024;

/// A model that returns the same text for every request.
struct Greeter;

impl Provider for Greeter {
    async fn complete_ref(&self, _: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        Ok(CompletionResponse {
            id: "response-1".into(),
            model: "greeter".into(),
            message: Message::assistant("Hello! How can I help?"),
            usage: TokenUsage { input_tokens: 10, output_tokens: 6, ..TokenUsage::default() },
            stop_reason: StopReason::EndTurn,
        })
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }
}

/// A tool with ten parameters. The field is the name of the tool.
struct Wide(String);

impl ToolDyn for Wide {
    fn name(&self) -> &str {
        &self.0
    }

    fn definition(&self) -> ToolDefinition {
        let parameter = |number: usize| {
            let about = format!("The parameter with the number {number} of the tool {}", self.0);
            (format!("parameter_{number}"), json!({ "type": "string", "description": about }))
        };
        let properties: Map<String, Value> = (0..10).map(parameter).collect();
        ToolDefinition {
            name: self.0.clone(),
            title: None,
            description: "Does something with ten parameters".into(),
            input_schema: json!({ "type": "object", "properties": properties }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text("done")) })
    }
}

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Calls `make`. Returns its value, and the number of heap bytes that stay allocated after the call.
fn keeps<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = live_bytes();
    let value = make();
    (value, live_bytes() - before)
}

#[test]
fn conversations_store_only_their_messages() {
    let _guard = crate::run_alone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let greet = |agent: &Agent, conversation: &mut Conversation| {
        runtime.block_on(async { agent.run(conversation, "Hi").await }).unwrap();
    };
    let (agent, of_definition) = keeps(|| {
        let mut tools = ToolRegistry::new();
        for number in 0..20 {
            tools.register_dyn(Arc::new(Wide(format!("tool_{number}"))));
        }
        let agent = Agent::builder(Greeter).tools(tools).context(Unlimited).build();
        // The first run creates values that the agent derives from its definition and keeps.
        greet(&agent, &mut Conversation::new());
        agent
    });
    let (conversations, bytes) = keeps(|| {
        let mut conversations = Vec::with_capacity(CONVERSATIONS);
        for _ in 0..CONVERSATIONS {
            let mut conversation = Conversation::new();
            greet(&agent, &mut conversation);
            conversations.push(conversation);
        }
        conversations
    });
    let (messages, of_messages) = keeps(|| conversations[0].messages().to_vec());
    assert_eq!(messages.len(), 2);
    let beyond = bytes / CONVERSATIONS - of_messages;
    println!(
        "definition {of_definition} B; a conversation {beyond} B beyond {of_messages} B of messages"
    );
    assert!(beyond <= MOST, "{beyond} B beyond the messages");
}
