//! Wraps tool calls in middleware with a check, a counter, a cache, a rate limit and timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::tool::builtin::{
    OutputFormatter, RateLimit, RetryInvalidInput, TimeoutMiddleware, ToolCache,
};
use neuron::tool::{Next, ToolCall, ToolMiddleware};
use neuron::types::WasmBoxedFuture;

/// Returns the text of a web page.
#[neuron_tool(effect = Pure)]
async fn fetch_page(
    /// The URL, with https
    url: String,
) -> Result<String, ToolError> {
    Ok(format!("The text of {url} is long. {}", "More text. ".repeat(1_000)))
}

/// Translates a text to English.
#[neuron_tool(effect = Pure)]
async fn translate(text: String) -> Result<String, ToolError> {
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    Ok(text)
}

/// Counts the calls that reach the tools.
#[derive(Default)]
struct CallCounter(AtomicUsize);

impl ToolMiddleware for CallCounter {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::Relaxed);
            // Without this call, the tool does not run.
            next.run(call, ctx).await
        })
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(FetchPageTool);
    tools.register(TranslateTool);

    // Outermost first. An `Arc` keeps the counter readable.
    let counter = Arc::new(CallCounter::default());
    tools
        .add_middleware(OutputFormatter::new(44))
        .add_middleware(RetryInvalidInput::new(3))
        .add_middleware(ToolCache::new(Duration::from_secs(300)))
        .add_middleware(counter.clone())
        .add_middleware(
            TimeoutMiddleware::new(Duration::from_secs(30))
                .with_tool_timeout("translate", Duration::from_millis(50)),
        );
    // For one tool, inside of the global middleware.
    tools.add_tool_middleware("fetch_page", RateLimit::new(10, Duration::from_secs(1)));

    tools.add_tool_middleware(
        "fetch_page",
        tool_middleware_fn(|call, ctx, next| {
            Box::pin(async move {
                match call.input.get("url").and_then(|url| url.as_str()) {
                    Some(url) if !url.starts_with("https://") => {
                        Err(ToolError::ModelRetry("the url must start with https://".into()))
                    }
                    _ => next.run(call, ctx).await,
                }
            })
        }),
    );

    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();
    let mut conversation = Conversation::new();
    let mut events = agent.run(&mut conversation, "Summarise example.com.").stream();
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::Event(StreamEvent::ToolUse { name, input, .. }) => {
                println!("-> {name} {input}")
            }
            RunEvent::Event(StreamEvent::ToolResult { output, .. }) => {
                for item in &output.content {
                    println!("<- {item}");
                }
            }
            RunEvent::Ended(result) => println!("{}", result.response),
            _ => {}
        }
    }
    println!("{} calls counted", counter.0.load(Ordering::Relaxed));
    Ok(())
}
