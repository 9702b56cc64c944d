//! The agent and its tools.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Creates the agent. The key is in the environment variable `ANTHROPIC_API_KEY`.
pub(crate) fn agent() -> Result<Agent, ProviderError> {
    // Another vendor is one line: neuron::openai::OpenAi::from_env()?, with the feature `openai`.
    let provider = Anthropic::from_env()?;
    let mut tools = ToolRegistry::new();
    tools.register(AddTool);
    let agent = Agent::builder(provider)
        .tools(tools)
        .system_prompt("You are a helpful assistant.")
        // Above 100,000 tokens, keeps the last 40 messages.
        .context(SlidingWindowStrategy::new(40, 100_000))
        .build();
    Ok(agent)
}

/// Adds two numbers.
#[neuron_tool(effect = Pure)]
async fn add(
    /// The first number
    a: f64,
    /// The second number
    b: f64,
) -> Result<f64, ToolError> {
    Ok(a + b)
}
