//! Retries model calls after an overload, once with the agent's own retries and once with layers from tower.

use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::tower::{CallLimitLayer, RetryTransient, ServiceProvider, SharedServiceLayer};
use tower::{BoxError, ServiceBuilder};

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: agent
    // Two retries are the default. They are immediate, unless the vendor requests a delay.
    let agent = Agent::builder(Anthropic::from_env()?).config(|config| config.retries = 4).build();
    let result = agent.run(&mut Conversation::new(), "Are you well?").await?;
    println!("with the agent's retries: {}", result.response);
    // ANCHOR_END: agent

    // ANCHOR: tower
    // From the outermost to the innermost layer. Each attempt counts for the rate limit and has its own timeout.
    let layers = ServiceBuilder::new()
        .layer(CallLimitLayer::new(4)) // At most four calls at the same time.
        .retry(RetryTransient::new().max_retries(4).max_delay(Duration::from_secs(30)))
        .layer(SharedServiceLayer) // The service of `rate_limit` cannot be cloned. This layer shares it.
        .rate_limit(50, Duration::from_secs(60))
        .map_err(|error: BoxError| {
            println!("an attempt failed: {error}");
            error
        })
        .timeout(Duration::from_secs(60));
    let provider = ServiceProvider::layered(layers, Anthropic::from_env()?);

    // The layers retry, so the agent must not.
    let agent = Agent::builder(provider).config(|config| config.retries = 0).build();
    let result = agent.run(&mut Conversation::new(), "Are you well?").await?;
    println!("with tower's retries: {}", result.response);
    // ANCHOR_END: tower
    Ok(())
}
