//! Limits a run, asks the model for a last response at the limit, and shares a budget between two agents.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Searches the library.
#[neuron_tool]
async fn search(
    /// The topic of the books
    topic: String,
) -> Result<String, ToolError> {
    Ok(format!("three books about {topic}"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    let mut tools = ToolRegistry::new();
    tools.register(SearchTool);

    // ANCHOR: limits
    // At most 10 turns, 2 tool calls and about 50,000 tokens in each run. At a limit, one more turn gives the response.
    let limits = UsageLimits::default().with_tool_calls_limit(2).with_total_tokens_limit(50_000);
    let agent = Agent::builder(provider.clone())
        .tools(tools)
        .max_turns(10)
        .usage_limits(limits)
        .config(|config| config.on_limit = OnLimit::Finalize)
        .build();
    let result = agent.run(&mut Conversation::new(), "Books about moss, ferns and trees?").await?;
    println!("{}", result.response);
    println!("limit: {}", result.limit_reached.unwrap_or_default());
    // ANCHOR_END: limits

    // ANCHOR: budget
    // All runs of both agents together use at most 10,000 tokens.
    let budget = Budget::new(UsageLimits::default().with_total_tokens_limit(10_000));
    let writer = Agent::builder(provider.clone()).name("writer").budget(budget.clone()).build();
    let critic = Agent::builder(provider).name("critic").budget(budget.clone()).build();

    let draft = writer.run(&mut Conversation::new(), "Write about moss.").await?;
    println!("\nwriter: {} tokens", draft.usage.total_tokens());
    let mut review = Conversation::new();
    let result = critic.run(&mut review, draft.response).await?;
    println!("critic: {} tokens", result.usage.total_tokens());
    println!("together: {} tokens, {} requests", budget.usage().total_tokens(), budget.requests());

    // The next call does not fit, so it is not made.
    match critic.run(&mut review, "Is that all?").await {
        Err(error @ LoopError::UsageLimitExceeded(_)) => println!("critic: {error}"),
        outcome => println!("critic: {}", outcome?.response),
    }
    // ANCHOR_END: budget
    Ok(())
}
