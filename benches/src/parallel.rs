//! Runs turns with concurrent tools, in the agent loop and in hand-written code.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt};
use neuron_loop::AgentLoop;
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError,
    RequestRef, Role, StopReason, StreamHandle, TokenUsage, ToolContext, ToolDefinition, ToolDyn,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use crate::turn::{Clock, Cost, Echo, Unlimited};

/// The measured numbers of tool calls in a response.
pub const TOOLS: [usize; 2] = [1, 16];

/// A tool that yields to the runtime once, like a tool that waits for a server, and returns a short text.
#[derive(Debug)]
pub struct Waits;

impl ToolDyn for Waits {
    fn name(&self) -> &str {
        "echo"
    }

    fn definition(&self) -> ToolDefinition {
        Echo.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async {
            let mut waited = false;
            poll_fn(|cx| match std::mem::replace(&mut waited, true) {
                true => Poll::Ready(()),
                false => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await;
            Ok(Echo.run())
        })
    }
}

/// A model without a network. Its first `turns` responses have `tools` tool calls each, and the next response is a
/// text.
#[derive(Debug)]
struct ToolsCaller<'c> {
    turns: usize,
    tools: usize,
    clock: &'c Clock,
}

impl ToolsCaller<'_> {
    fn answer(&self, messages: &[Message]) -> CompletionResponse {
        self.clock.tick();
        let (content, stop_reason) = if messages.len() / 2 < self.turns {
            let call = |number| ContentBlock::ToolUse {
                id: format!("call_{number}"),
                name: "echo".into(),
                input: Value::Null,
            };
            ((0..self.tools).map(call).collect(), StopReason::ToolUse)
        } else {
            (vec![ContentBlock::Text("done".into())], StopReason::EndTurn)
        };
        CompletionResponse {
            id: String::new(),
            model: String::new(),
            message: Message { role: Role::Assistant, content },
            usage: TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() },
            stop_reason,
        }
    }
}

impl Provider for ToolsCaller<'_> {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(self.answer(&request.messages))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(self.answer(request.messages))
    }
}

/// Runs an agent for `turns` turns with `tools` tool calls each. Returns the cost of each turn, and the conversation.
///
/// # Errors
///
/// Returns the error of the run.
pub fn run_agent(
    turns: usize,
    tools: usize,
) -> Result<(Vec<Cost>, Vec<Message>), Box<dyn std::error::Error>> {
    let clock = Clock::with_capacity(turns + 1);
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(Waits));
    let provider = ToolsCaller { turns, tools, clock: &clock };
    let mut agent = AgentLoop::builder(provider, Unlimited)
        .tools(registry)
        .parallel_tool_execution(true)
        .build();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let result = runtime.block_on(agent.run_text("go", &ToolContext::default()))?;
    Ok((clock.costs(), result.messages))
}

/// Runs the same turns as [`run_agent`] without an agent. The code joins the futures of the tools and puts their
/// results in order.
///
/// # Errors
///
/// Returns an error if no runtime can be created. The tool never fails.
pub fn run_by_hand(
    turns: usize,
    tools: usize,
) -> Result<(Vec<Cost>, Vec<Message>), Box<dyn std::error::Error>> {
    let clock = Clock::with_capacity(turns + 1);
    let model = ToolsCaller { turns, tools, clock: &clock };
    let tool: Arc<dyn ToolDyn> = Arc::new(Waits);
    let ctx = ToolContext::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let messages = runtime.block_on(async {
        let mut messages = vec![Message::user("go")];
        loop {
            let answer = model.answer(&messages).message;
            let mut running = FuturesUnordered::new();
            for (index, call) in answer.tool_uses().enumerate() {
                let ran = tool.call_dyn(call.input.clone(), &ctx);
                running.push(async move { (index, call.id, ran.await) });
            }
            let mut results = Vec::with_capacity(running.len());
            while let Some((index, id, ran)) = running.next().await {
                let ToolOutput { content, is_error, .. } = ran?;
                let tool_use_id = id.to_owned();
                results.push((index, ContentBlock::ToolResult { tool_use_id, content, is_error }));
            }
            drop(running);
            messages.push(answer);
            if results.is_empty() {
                return Ok::<_, ToolError>(messages);
            }
            results.sort_unstable_by_key(|(index, _)| *index);
            let content = results.into_iter().map(|(_, result)| result).collect();
            messages.push(Message { role: Role::User, content });
        }
    })?;
    Ok((clock.costs(), messages))
}
