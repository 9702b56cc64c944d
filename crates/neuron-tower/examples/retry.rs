//! An agent whose model calls have limits, retries and timeouts from tower.
//!
//! A server in this process simulates an unreliable model, in Anthropic's wire format. The first response is an
//! overload error, and the second response is a rate limit error. The third response is too slow, and the fourth
//! succeeds. The agent receives only the fourth response.

use std::error::Error;
use std::time::{Duration, Instant};

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_provider_anthropic::Anthropic;
use neuron_testing::{AnthropicServer, Reply, ServerReply};
use neuron_tower::{CallLimitLayer, RetryTransient, ServiceProvider, SharedServiceLayer};
use neuron_types::{ProviderError, ToolContext};
use tower::{BoxError, ServiceBuilder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = AnthropicServer::start(script()).await?;
    let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());

    let start = Instant::now();
    let say = move |text: String| println!("{:>5} ms  {text}", start.elapsed().as_millis());

    // The layers are listed from the outermost to the innermost. A call holds one of four permits while it waits for
    // its retries. Each attempt counts for the rate limit and has its own timeout.
    let layers = ServiceBuilder::new()
        .layer(CallLimitLayer::new(4))
        .retry(RetryTransient::new().max_retries(4).base_delay(Duration::from_millis(100)))
        .layer(SharedServiceLayer)
        .rate_limit(50, Duration::from_secs(60))
        .map_err(move |error: BoxError| {
            say(format!("attempt failed: {error}"));
            error
        })
        .timeout(Duration::from_secs(2));
    let provider = ServiceProvider::layered(layers, provider);

    let mut agent = AgentLoop::builder(provider, SlidingWindowStrategy::new(20, 100_000)).build();
    let ctx = ToolContext::default();
    let result = agent.run_text("Are you well?", &ctx).await?;
    say(format!("the agent got its answer: {}", result.response));

    println!("\n{} requests reached the server, {} turn", server.requests().len(), result.turns);
    Ok(())
}

fn script() -> Vec<ServerReply> {
    vec![
        ProviderError::ServiceUnavailable("Overloaded".into()).into(),
        ServerReply::from(ProviderError::RateLimit { retry_after: None })
            .header("retry-after-ms", "250"),
        Reply::text("I am slow today.").delay(Duration::from_secs(60)).into(),
        "I am well again, thank you.".into(),
        // This reply is only sent if the machine stalls, so that the attempt before times out.
        "I am well again, thank you.".into(),
    ]
}
