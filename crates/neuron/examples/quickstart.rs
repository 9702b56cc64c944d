//! An agent that calls two tools and streams its response.
//!
//! If `ANTHROPIC_API_KEY` is set, the example calls Anthropic. Otherwise it calls a local server, which sends scripted
//! responses in Anthropic's wire format.
//!
//! Ctrl-C cancels the run. The history remains valid, and the program prints how far the run got.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron_testing::{AnthropicServer, Reply};
use serde_json::json;

#[derive(serde::Serialize)]
struct Weather {
    celsius: f64,
    sky: &'static str,
}

/// Returns the current weather in a city, in degrees Celsius.
#[neuron_tool]
async fn get_weather(
    /// The city, for instance "Tokyo"
    city: String,
) -> Result<Weather, ToolError> {
    match city.as_str() {
        // `ModelRetry` sends the hint to the model, which calls the tool again. The run does not end.
        "" => Err(ToolError::ModelRetry("the city must not be empty".into())),
        // A real tool would call a weather service here.
        _ => Ok(Weather { celsius: 22.5, sky: "sunny" }),
    }
}

/// Converts degrees Celsius to degrees Fahrenheit.
#[neuron_tool(effect = Pure)]
async fn to_fahrenheit(
    /// Degrees Celsius
    celsius: f64,
) -> Result<f64, ToolError> {
    Ok(celsius * 9.0 / 5.0 + 32.0)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let (provider, _server) = match std::env::var("ANTHROPIC_API_KEY") {
        Ok(key) if !key.trim().is_empty() => (Anthropic::from_env()?, None),
        _ => {
            let server = AnthropicServer::start(script()).await?;
            println!(
                "ANTHROPIC_API_KEY is not set: a local server with scripted replies stands in for the model.\n"
            );
            (Anthropic::new(AnthropicServer::API_KEY).base_url(server.url()), Some(server))
        }
    };

    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    tools.register(ToFahrenheitTool);

    let agent = Agent::builder(provider)
        .tools(tools)
        .system_prompt("You are a weather assistant. Use the tools; never guess a temperature.")
        .max_turns(8)
        .build();

    let ctx = ToolContext::default();
    let token = ctx.cancellation_token.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            token.cancel();
        }
    });

    let question = "What's the weather in San Francisco, in Fahrenheit?";
    println!("you: {question}");
    let mut conversation = Conversation::new();
    let outcome = show(agent.run(&mut conversation, question).context(&ctx).stream()).await;
    if outcome.is_err() {
        // After an error or a cancellation, the conversation is valid and another run could continue it.
        let (turns, messages) = (conversation.turns(), conversation.messages().len());
        println!("\nturns finished: {turns}, messages kept: {messages}");
    }
    let result = outcome?;
    println!(
        "\n{} turns, {} tokens in, {} out",
        result.turns, result.usage.input_tokens, result.usage.output_tokens
    );
    Ok(())
}

/// Prints the events of a run as they arrive, and returns the result of the run.
async fn show(mut events: RunStream<'_>) -> Result<RunResult, Box<dyn Error>> {
    let mut in_text = false;
    while let Some(event) = events.next().await {
        let event = match event? {
            RunEvent::Event(event) => event,
            RunEvent::Ended(result) => return Ok(result),
            _ => continue,
        };
        let was_in_text =
            std::mem::replace(&mut in_text, matches!(event, StreamEvent::TextDelta(_)));
        if was_in_text && !in_text {
            println!();
        }
        match event {
            StreamEvent::TextDelta(text) => {
                print!("{}{text}", if was_in_text { "" } else { "agent: " });
                std::io::stdout().flush()?;
            }
            StreamEvent::ToolUse { name, input, .. } => println!("  -> {name} {input}"),
            StreamEvent::ToolResult { name, output, .. } => {
                let kind = if output.is_error { "error" } else { "result" };
                for item in &output.content {
                    println!("  <- {name} {kind}: {item}");
                }
            }
            _ => {}
        }
    }
    Err("the stream ended without an answer".into())
}

/// Returns the scripted replies of the server that runs if no key is set.
fn script() -> Vec<Reply> {
    let pace = Duration::from_millis(40);
    vec![
        Reply::tool_call("toolu_01", "get_weather", json!({ "city": "San Francisco" }))
            .with_text("Let me look that up.")
            .event_delay(pace),
        Reply::tool_call("toolu_02", "to_fahrenheit", json!({ "celsius": 22.5 })).event_delay(pace),
        Reply::text("It is sunny in San Francisco, at 72.5 °F (22.5 °C).").event_delay(pace),
    ]
}
