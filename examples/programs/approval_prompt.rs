//! Asks the user in the terminal before a tool runs, and lets the user change the arguments.

use std::error::Error;
use std::io::Write;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

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
/// The lines that the user enters. A program needs one reader for all of its questions, because a reader also buffers
/// the lines that follow.
type Input = Lines<BufReader<Stdin>>;

/// Asks for a decision on each pending call.
async fn ask(
    pending: &PendingApproval,
    input: &mut Input,
) -> Result<ApprovalDecisions, Box<dyn Error>> {
    println!();
    let mut decisions = ApprovalDecisions::new();
    for waiting in &pending.calls {
        let id = &waiting.approval_id;
        println!("{} {}", waiting.reason, waiting.call.input);
        println!("  y = yes, n = no, or other arguments as JSON:");
        let line = input.next_line().await?.unwrap_or_default();
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

/// Prints the text of the responses as it arrives.
async fn show(mut events: RunStream<'_>) -> Result<(), LoopError> {
    while let Some(event) = events.next().await {
        if let RunEvent::Event(StreamEvent::TextDelta(text)) = event? {
            print!("{text}");
            // A terminal that is gone is no error of the run.
            let _ = std::io::stdout().flush();
        }
    }
    println!();
    Ok(())
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(PayTool);
    // ANCHOR: run
    let agent = Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .permission_policy(AskForLargePayments)
        .config(|config| config.pause_for_approval = true)
        .build();

    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let mut conversation = Conversation::new();
    let mut start = Start::from("Pay the open invoices.");
    loop {
        let events = agent.run(&mut conversation, start).stream();
        start = match show(events).await {
            Ok(()) => break,
            // The last item of the stream. The decisions continue the same run.
            Err(LoopError::ApprovalRequired(pending)) => ask(&pending, &mut input).await?.into(),
            Err(error) => return Err(error.into()),
        };
    }
    // ANCHOR_END: run

    println!();
    for block in conversation.messages().iter().flat_map(|message| &message.content) {
        if let ContentBlock::ToolResult { content, .. } = block {
            content.iter().for_each(|item| println!("result: {item}"));
        }
    }
    Ok(())
}
