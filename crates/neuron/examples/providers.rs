//! Runs the same agent with the providers that the command line names.
//!
//! ```sh
//! cargo run -p neuron --features full --example providers -- openai ollama
//! ```
//!
//! Without arguments, the example runs all providers in turn. A provider calls its vendor if the environment variable
//! with the vendor's key or address is set. Otherwise it calls a local server, which sends scripted responses in the
//! vendor's wire format.

use std::any::Any;
use std::error::Error;
use std::process::ExitCode;

use neuron::anthropic::Anthropic;
use neuron::ollama::Ollama;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::types::BoxedProvider;
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply};
use serde_json::json;

const NAMES: [&str; 4] = ["anthropic", "openai", "responses", "ollama"];

/// Returns the current weather in a city.
#[neuron_tool]
async fn get_weather(
    /// The city, for instance "Tokyo"
    city: String,
) -> Result<String, ToolError> {
    // A real tool would call a weather service here.
    Ok(format!("{city}: 22 °C, sunny"))
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = NAMES.map(str::to_owned).to_vec();
    }
    for name in names {
        if let Err(error) = ask(&name).await {
            eprintln!("error: {name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs an agent with the provider `name`, and prints its response. Everything except the provider is the same for
/// every name.
async fn ask(name: &str) -> Result<(), Box<dyn Error>> {
    let (provider, server) = provider(name).await?;
    let who = if server.is_some() { "a server in this process" } else { "the vendor" };

    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent = Agent::builder(provider)
        .tools(tools)
        .system_prompt("You are a weather assistant. Use the tool; never guess.")
        .max_turns(5)
        .build();

    let result = agent.run(&mut Conversation::new(), "What's the weather in Tokyo?").await?;
    println!("{name} ({who}): {}", result.response);
    Ok(())
}

/// Creates the provider `name`. Also returns the local server that emulates the vendor's API, or `None` if the provider
/// calls the vendor.
async fn provider(name: &str) -> Result<(BoxedProvider, Option<Box<dyn Any>>), Box<dyn Error>> {
    let is_set = |variable: &str| std::env::var(variable).is_ok_and(|text| !text.trim().is_empty());
    Ok(match name {
        "anthropic" if is_set("ANTHROPIC_API_KEY") => {
            (BoxedProvider::new(Anthropic::from_env()?), None)
        }
        "anthropic" => {
            let server = AnthropicServer::start(script()).await?;
            let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
            (BoxedProvider::new(provider), Some(Box::new(server)))
        }
        "openai" if is_set("OPENAI_API_KEY") => (BoxedProvider::new(OpenAi::from_env()?), None),
        "openai" => {
            let server = OpenAiServer::start(script()).await?;
            let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
            (BoxedProvider::new(provider), Some(Box::new(server)))
        }
        "responses" if is_set("OPENAI_API_KEY") => {
            (BoxedProvider::new(OpenAi::from_env()?.responses_api()), None)
        }
        "responses" => {
            let server = OpenAiServer::start(script()).await?;
            let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
            (BoxedProvider::new(provider.responses_api()), Some(Box::new(server)))
        }
        "ollama" if is_set("OLLAMA_HOST") => (BoxedProvider::new(Ollama::from_env()?), None),
        "ollama" => {
            let server = OllamaServer::start(script()).await?;
            (BoxedProvider::new(Ollama::new().base_url(server.url())), Some(Box::new(server)))
        }
        other => return Err(format!("unknown provider `{other}`: one of {NAMES:?}").into()),
    })
}

/// Returns the scripted replies of a server, which are a tool call and a text.
fn script() -> [Reply; 2] {
    [
        Reply::tool_call("call_1", "get_weather", json!({ "city": "Tokyo" })),
        Reply::text("It is sunny in Tokyo, at 22 °C."),
    ]
}
