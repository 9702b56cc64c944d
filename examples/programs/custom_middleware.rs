//! Implements middleware around tool calls, and a layer around model calls.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::tool::middleware::{Next, ToolCall, ToolMiddleware};
use neuron::types::{ModelCall, ModelLayer, ModelNext, StreamError, WasmBoxedFuture};

// ANCHOR: middleware
/// Allows mails only to addresses of one domain.
struct OnlyDomain(&'static str);

impl ToolMiddleware for OnlyDomain {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let to = call.input.get("to").and_then(|to| to.as_str()).unwrap_or_default();
            match to.rsplit_once('@') {
                Some((_, domain)) if domain == self.0 => next.run(call, ctx).await,
                // The model receives this text as the result of the call.
                _ => {
                    Err(ToolError::ModelRetry(format!("only addresses of {} are allowed", self.0)))
                }
            }
        })
    }
}
// ANCHOR_END: middleware

// ANCHOR: layer
/// Repeats a model call once if the response is empty.
struct AskAgain;

impl ModelLayer for AskAgain {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let response = next.run(call).await?;
        let message = &response.message;
        let is_empty = message.text().trim().is_empty() && message.tool_uses().next().is_none();
        if !is_empty || call.is_last {
            return Ok(response);
        }
        println!("[the response is empty, so the call is repeated]");
        if let Some(sink) = next.sink() {
            // The reader of a stream must discard the first response.
            let error = StreamError::retryable("the response was empty");
            sink.send(StreamEvent::Reset { attempt: 2, error }).await;
        }
        next.run(call).await
    }
}
// ANCHOR_END: layer

/// Sends a mail.
#[neuron_tool]
async fn send_mail(to: String) -> Result<String, ToolError> {
    println!("[mail to {to}]");
    Ok("sent".into())
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: use
    let mut tools = ToolRegistry::new();
    tools.register(SendMailTool);
    tools.add_tool_middleware("send_mail", OnlyDomain("example.com"));
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).layer(AskAgain).build();
    // ANCHOR_END: use

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Invite ada@example.com and eve@evil.test").await?;
    println!("{}", result.response);
    Ok(())
}
