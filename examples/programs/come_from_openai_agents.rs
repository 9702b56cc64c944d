//! Hands a conversation over to another agent, and calls an agent as a tool.

// ANCHOR: imports
use neuron::openai::OpenAi;
use neuron::prelude::*;
// ANCHOR_END: imports

// ANCHOR: agent
/// Pays back the price of an order.
#[neuron_tool]
async fn refund(order: u32) -> Result<String, ToolError> {
    Ok(format!("order {order} is paid back"))
}

/// Returns an agent with one tool.
fn billing(provider: OpenAi) -> Agent {
    let mut tools = ToolRegistry::new();
    tools.register(RefundTool);
    Agent::builder(provider)
        .name("Billing")
        .system_prompt("You handle refunds.")
        .tools(tools)
        .build()
}
// ANCHOR_END: agent

// ANCHOR: handoff
/// Transfers the conversation to the billing agent.
#[neuron_tool]
async fn transfer_to_billing() -> Result<String, ToolError> {
    Ok("The billing agent takes over.".into())
}

async fn handoff(provider: OpenAi) -> Result<(), LoopError> {
    let mut tools = ToolRegistry::new();
    tools.register(TransferToBillingTool);
    let triage = Agent::builder(provider.clone())
        .name("Triage")
        .system_prompt("Transfer the customer to the right agent.")
        .tools(tools)
        .build();

    let mut conversation = Conversation::new();
    let mut steps = triage.run(&mut conversation, "I paid twice for order 42.").steps();
    while let Some(step) = steps.next().await {
        match step? {
            Step::Tools { calls, .. } => {
                for call in calls {
                    println!("{} calls {}", steps.agent().config().name, call.name);
                    if call.name == "transfer_to_billing" {
                        steps.set_agent(billing(provider.clone()));
                    }
                }
            }
            Step::Ended(result) => {
                println!("{}: {}", steps.agent().config().name, result.response);
            }
            _ => {}
        }
    }
    Ok(())
}
// ANCHOR_END: handoff

// ANCHOR: sub_agent
async fn agent_as_tool(provider: OpenAi) -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    let mut agents = SubAgentManager::new();
    agents.register(
        "translator",
        SubAgentConfig {
            description: "Translates a text into French.".into(),
            system_prompt: "Translate the text into French.".into(),
            ..Default::default()
        },
    );
    agents.add_to(&mut tools, provider.clone())?;

    let agent = Agent::builder(provider).name("Writer").tools(tools).build();
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Say good morning in French.").await?;
    println!("Writer: {}", result.response);
    Ok(())
}
// ANCHOR_END: sub_agent

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = OpenAi::from_env()?;
    handoff(provider.clone()).await?;
    agent_as_tool(provider).await
}
// ANCHOR_END: main
