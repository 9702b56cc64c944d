//! An agent that books a journey, for the examples of the durable engines. Each example hosts the agent in a child
//! process and kills this process. Each line that the agent prints reports an effect that was really executed, and not
//! a replayed step.

mod hosted;

use std::time::Duration;

use neuron_loop::{Agent, Conversation};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{
    AgentResult, CompletionRequest, CompletionResponse, ContentBlock, Durability, LoopError,
    Message, Provider, ProviderError, Role, Start, StopReason, StreamHandle, TokenUsage,
    ToolContext, ToolError, WasmBoxedFuture,
};
use serde_json::json;

pub(crate) use hosted::{Begun, Hosted, end_with_the_watcher};

/// Builds and runs the agent. Each replay calls this function again.
pub(crate) fn agent<'d>(
    start: Start,
    durability: Durability<'d>,
) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
    Box::pin(async move {
        let agent = Agent::builder(Model)
            .tools(tools())
            .system_prompt("You plan journeys.")
            .config(|config| config.parallel_tool_execution = true)
            .build();
        // The working directory must be the same on replay.
        let ctx = ToolContext { cwd: "/".into(), ..ToolContext::default() };
        let mut conversation = Conversation::new();
        let run = agent.run(&mut conversation, start).context(&ctx).durable(durability);
        let result = run.await?;
        Ok(result.with_messages(&conversation))
    })
}

pub(crate) fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(FindTrainsTool);
    tools.register(ReserveSeatTool);
    tools.register(PayTool);
    tools.register(SendMailTool);
    tools
}

/// Finds trains.
#[neuron_tool(effect = Pure)]
async fn find_trains() -> Result<String, ToolError> {
    work("find_trains", 300).await;
    Ok("the 9:30".into())
}

/// Reserves a seat. Calls with the same key reserve the same seat.
#[neuron_tool(effect = Idempotent)]
async fn reserve_seat() -> Result<String, ToolError> {
    work("reserve_seat", 1500).await;
    Ok("seat 12".into())
}

/// Pays. It must not run twice.
#[neuron_tool(effect = AtMostOnce)]
async fn pay() -> Result<String, ToolError> {
    work("pay", 300).await;
    Ok("paid 49 EUR".into())
}

/// Sends the tickets by mail.
#[neuron_tool(effect = Idempotent)]
async fn send_mail() -> Result<String, ToolError> {
    work("send_mail", 300).await;
    Ok("sent".into())
}

async fn work(what: &str, millis: u64) {
    println!("{what} begins");
    tokio::time::sleep(Duration::from_millis(millis)).await;
    println!("{what} ends");
}

/// A scripted model without a network. Its next response depends only on the conversation.
pub(crate) struct Model;

impl Provider for Model {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let answers = request.messages.iter().filter(|message| message.role == Role::Assistant);
        let turn = answers.count();
        work(&format!("model call {}", turn + 1), 500).await;
        let calls: &[&str] = match turn {
            0 => &["find_trains"],
            1 => &["pay", "reserve_seat"],
            2 => &["send_mail"],
            _ => &[],
        };
        let call = |name: &&str| ContentBlock::ToolUse {
            id: format!("call-{turn}-{name}"),
            name: (*name).to_owned(),
            input: json!({}),
        };
        let (content, stop_reason) = match calls {
            [] => {
                let text = "You take the 9:30, seat 12; the tickets are in your mail.";
                (vec![ContentBlock::Text(text.into())], StopReason::EndTurn)
            }
            calls => (calls.iter().map(call).collect(), StopReason::ToolUse),
        };
        Ok(CompletionResponse {
            id: format!("answer-{turn}"),
            model: "script".into(),
            message: Message { role: Role::Assistant, content },
            usage: TokenUsage { input_tokens: 200, output_tokens: 20, ..TokenUsage::default() },
            stop_reason,
        })
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("the script does not stream".into()))
    }
}
