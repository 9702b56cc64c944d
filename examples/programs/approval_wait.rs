//! Keeps a run waiting in its process until another task decides on the pending call.

use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use serde_json::Value;

/// Restarts a server.
#[neuron_tool]
async fn restart(
    /// The name of the server
    server: String,
) -> Result<String, ToolError> {
    Ok(format!("{server} is restarted"))
}

/// Requires an approval for every tool.
struct AskAlways;

impl PermissionPolicy for AskAlways {
    fn check(&self, tool: &str, _input: &Value) -> PermissionDecision {
        PermissionDecision::Ask(format!("Run {tool}?"))
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(RestartTool);
    let agent =
        Agent::builder(Anthropic::from_env()?).tools(tools).permission_policy(AskAlways).build();

    // ANCHOR: wait
    let mut conversation = Conversation::new();
    let mut run = agent.run(&mut conversation, "Restart web-1.").wait_for_approval();
    let handle = run.handle();
    // This task stands for the request handler of a web service.
    tokio::spawn(async move {
        loop {
            if let Some(pending) = handle.pending() {
                println!("approved: {}", LoopError::ApprovalRequired(Box::new(pending.clone())));
                return handle.decide(ApprovalDecisions::approve_all(&pending));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    println!("{}", run.await?.response);
    // ANCHOR_END: wait
    Ok(())
}
