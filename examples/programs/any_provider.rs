//! Chooses the vendor at run time, by an argument of the program.

use neuron::anthropic::Anthropic;
use neuron::ollama::Ollama;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::types::BoxedProvider;

/// Creates the provider with this name.
fn provider(name: &str) -> Result<BoxedProvider, Box<dyn std::error::Error>> {
    Ok(match name {
        "anthropic" => BoxedProvider::new(Anthropic::from_env()?),
        "openai" => BoxedProvider::new(OpenAi::from_env()?),
        "responses" => BoxedProvider::new(OpenAi::from_env()?.responses_api()),
        "ollama" => BoxedProvider::new(Ollama::from_env()?),
        other => return Err(format!("unknown provider `{other}`").into()),
    })
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["anthropic", "openai", "responses", "ollama"].map(str::to_owned).to_vec();
    }
    for name in names {
        let agent = Agent::builder(provider(&name)?).max_turns(5).build();
        let result = agent.run(&mut Conversation::new(), "Who are you?").await?;
        println!("{name}: {}", result.response);
    }
    Ok(())
}
