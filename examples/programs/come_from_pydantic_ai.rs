//! Gives a tool its dependencies, returns a typed value, and asks before a tool runs.

// ANCHOR: imports
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
// ANCHOR_END: imports

// ANCHOR: typed
/// The dependencies of the tools.
struct Shop {
    name: &'static str,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Answer {
    /// The advice for the customer
    advice: String,
    /// True if the money can be paid back
    refundable: bool,
}

/// Returns the state of an order.
#[neuron_tool]
async fn order_state(ctx: &ToolContext, order: u32) -> Result<String, ToolError> {
    let shop = ctx.extensions.get::<Shop>().map_or("no shop", |shop| shop.name);
    Ok(format!("{shop}: order {order} was delivered twice"))
}

async fn typed(provider: Anthropic) -> Result<(), LoopError> {
    let mut tools = ToolRegistry::new();
    tools.register(OrderStateTool);
    let agent = Agent::builder(provider)
        .tools(tools)
        .system_prompt("You are a support agent in a shop.")
        .build();

    let mut ctx = ToolContext::default();
    ctx.extensions.insert(Shop { name: "Corner shop" });
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, "Order 42 came twice.").context(ctx);
    let answer = run.typed::<Answer>().await?.output;
    println!("{} (refundable: {})", answer.advice, answer.refundable);
    Ok(())
}
// ANCHOR_END: typed

// ANCHOR: approval
/// Pays back the price of an order.
#[neuron_tool]
async fn refund(order: u32) -> Result<String, ToolError> {
    Ok(format!("order {order} is paid back"))
}

async fn approval(provider: Anthropic) -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(RefundTool);
    let agent = Agent::builder(provider)
        .tools(tools)
        .permission_policy(PermissionRules::new([PermissionRule::ask("refund")])?)
        .config(|config| config.pause_for_approval = true)
        .build();

    let mut conversation = Conversation::new();
    let mut outcome = agent.run(&mut conversation, "Refund order 42.").await;
    while let Err(LoopError::ApprovalRequired(pending)) = outcome {
        let mut decisions = ApprovalDecisions::new();
        for waiting in &pending.calls {
            println!("approved: {} {}", waiting.call.name, waiting.call.input);
            decisions = decisions.approve(&waiting.approval_id);
        }
        outcome = agent.run(&mut conversation, decisions).await;
    }
    println!("{}", outcome?.response);
    Ok(())
}
// ANCHOR_END: approval

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    typed(provider.clone()).await?;
    approval(provider).await
}
// ANCHOR_END: main
