//! Looks up the price of a model, and ends an agent before its model calls cost more than an amount.

use neuron::anthropic::Anthropic;
use neuron::catalog::{Catalog, Rates};
use neuron::prelude::*;

/// Returns a page of the archive.
#[neuron_tool]
async fn read_page(page: u32) -> Result<String, ToolError> {
    Ok(format!("the text of page {page}"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(ReadPageTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();

    // ANCHOR: prices
    let catalog = Catalog::bundled();
    let (vendor, model) = ("anthropic", "claude-sonnet-4-6");
    let window = catalog.model(vendor, model).and_then(|model| model.context_window);
    println!("{model}: {} tokens", window.unwrap_or_default());

    let usage = TokenUsage {
        input_tokens: 12_000,
        cache_read_tokens: Some(10_000),
        output_tokens: 800,
        ..Default::default()
    };
    println!("the list price of a call: {}", catalog.cost(vendor, model, &usage)?);

    // Prices of your contract replace the prices of the list.
    let rates = Rates::per_million("2.40".parse()?, "12".parse()?).with_cache_read("0.24".parse()?);
    let discounted = catalog.clone().with_price(vendor, model, rates);
    println!("with a discount: {}", discounted.cost(vendor, model, &usage)?);
    // ANCHOR_END: prices

    // ANCHOR: run
    // All runs with this budget together cost at most 5 cents.
    let budget = Budget::in_money("0.05".parse()?, catalog.clone());
    let mut conversation = Conversation::new();
    match agent.run(&mut conversation, "Sum up the archive.").budget(budget.clone()).await {
        Err(error @ LoopError::UsageLimitExceeded(_)) => println!("\n{error}"),
        outcome => println!("\n{}", outcome?.response),
    }
    println!("{} turns, {}", conversation.turns(), budget.spent());
    // ANCHOR_END: run

    // ANCHOR: cost
    let today = Budget::in_money(Money::from_dollars(5), catalog);
    let run = agent.run(&mut conversation, "What is on page 3?").budget(today.clone());
    let result = run.await?;
    println!("\n{}", result.response);
    let cost = result.usage.cost.unwrap_or_default();
    println!("this run: {cost}, today: {}", today.spent());
    // ANCHOR_END: cost
    Ok(())
}
