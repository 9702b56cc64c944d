//! Stops an agent when its cost, computed from token counts and prices, reaches an amount.

use std::sync::{Arc, Mutex, PoisonError};

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

// ANCHOR: prices
/// Prices in US dollars per million tokens.
#[derive(Clone, Copy)]
struct Prices {
    input: f64,
    cache_read: f64,
    cache_write: f64,
    output: f64,
}

// The price list of your model. Vendors change their prices.
const PRICES: Prices = Prices { input: 3.0, cache_read: 0.3, cache_write: 3.75, output: 15.0 };

impl Prices {
    /// Returns the cost in US dollars.
    fn cost(self, usage: &TokenUsage) -> f64 {
        let read = usage.cache_read_tokens.unwrap_or(0);
        let written = usage.cache_creation_tokens.unwrap_or(0);
        // `input_tokens` includes the cached tokens.
        let uncached = usage.input_tokens.saturating_sub(read).saturating_sub(written);
        let cost = uncached as f64 * self.input
            + read as f64 * self.cache_read
            + written as f64 * self.cache_write
            + usage.output_tokens as f64 * self.output;
        cost / 1_000_000.0
    }
}
// ANCHOR_END: prices

// ANCHOR: hook
/// Makes no model call after the calls have cost `limit` US dollars.
#[derive(Clone)]
struct CostLimit {
    limit: f64,
    spent: Arc<Mutex<f64>>,
}

impl ObservabilityHook for CostLimit {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            HookEvent::PreLlmCall { .. } if *spent >= self.limit => {
                let reason = format!("${spent:.4} spent, the limit is ${:.4}", self.limit);
                return Ok(HookAction::Terminate { reason });
            }
            HookEvent::PostLlmCall { response } => {
                // Few providers report the cost. Otherwise compute it.
                let reported = response.message.metadata().and_then(|metadata| metadata.cost);
                *spent += reported.unwrap_or_else(|| PRICES.cost(&response.usage));
            }
            _ => {}
        }
        Ok(HookAction::Continue)
    }
}
// ANCHOR_END: hook

/// Returns a page of the archive.
#[neuron_tool]
async fn read_page(page: u32) -> Result<String, ToolError> {
    Ok(format!("the text of page {page}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut tools = ToolRegistry::new();
    tools.register(ReadPageTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();

    // ANCHOR: run
    let cost_limit = CostLimit { limit: 0.05, spent: Arc::default() };
    let limited = agent.to_builder().hook(cost_limit).build();
    let mut conversation = Conversation::new();
    match limited.run(&mut conversation, "Sum up the archive.").await {
        Err(LoopError::HookTerminated(reason)) => println!("stopped: {reason}"),
        outcome => println!("{}", outcome?.response),
    }
    println!("{} turns, ${:.4}", conversation.turns(), PRICES.cost(conversation.usage()));
    // ANCHOR_END: run

    // ANCHOR: stop_when
    let limited = agent.to_builder().stop_when(|run| PRICES.cost(run.usage) >= 0.05).build();
    let result = limited.run(&mut Conversation::new(), "Sum up the archive.").await?;
    println!("\n{} turns, ${:.4}", result.turns, PRICES.cost(&result.usage));
    println!("stop reason: {:?}", result.stop_reason);
    // ANCHOR_END: stop_when
    Ok(())
}
