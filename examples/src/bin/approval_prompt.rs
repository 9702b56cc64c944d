//! Asks the user in the terminal before a tool runs, and lets the user change the arguments.

use std::error::Error;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use serde_json::Value;

/// Pays an invoice from the company's account.
#[neuron_tool]
async fn pay(
    /// The recipient of the payment
    to: String,
    /// The amount in euros
    euros: u32,
) -> Result<String, ToolError> {
    Ok(format!("paid {euros} euros to {to}"))
}

// ANCHOR: policy
/// Requires an approval for payments of more than 100 euros.
struct AskForLargePayments;

impl PermissionPolicy for AskForLargePayments {
    fn check(&self, tool: &str, input: &Value) -> PermissionDecision {
        let euros = input.get("euros").and_then(Value::as_u64);
        match (tool, euros) {
            ("pay", Some(..=100)) => PermissionDecision::Allow,
            ("pay", _) => PermissionDecision::Ask("Pay this invoice?".into()),
            _ => PermissionDecision::Deny(format!("{tool} is not allowed")),
        }
    }
}
// ANCHOR_END: policy

// ANCHOR: ask
/// Asks for a decision on each pending call.
fn ask(pending: &PendingApproval) -> Result<ApprovalDecisions, Box<dyn Error>> {
    let mut decisions = ApprovalDecisions::new();
    for waiting in &pending.calls {
        let id = &waiting.call.id;
        println!("{} {}", waiting.reason, waiting.call.input);
        println!("  y = yes, n = no, or other arguments as JSON:");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        decisions = match line.trim() {
            "y" => decisions.approve(id),
            // An empty line and the end of the input are not an approval.
            "n" | "" => decisions.deny(id, "the user refused the payment"),
            arguments => decisions.approve_edited(id, serde_json::from_str(arguments)?),
        };
    }
    Ok(decisions)
}
// ANCHOR_END: ask

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut tools = ToolRegistry::new();
    tools.register(PayTool);
    // ANCHOR: run
    let agent = Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .permission_policy(AskForLargePayments)
        .config(|config| config.pause_for_approval = true)
        .build();

    let mut conversation = Conversation::new();
    let mut outcome = agent.run(&mut conversation, "Pay the open invoices.").await;
    while let Err(LoopError::ApprovalRequired(pending)) = outcome {
        let decisions = ask(&pending)?;
        outcome = agent.run(&mut conversation, decisions).await;
    }
    println!("{}", outcome?.response);
    // ANCHOR_END: run

    println!();
    for block in conversation.messages().iter().flat_map(|message| &message.content) {
        if let ContentBlock::ToolResult { content, .. } = block {
            content.iter().for_each(|item| println!("result: {item}"));
        }
    }
    Ok(())
}
