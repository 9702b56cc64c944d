//! Calls a server that is compatible with Chat Completions, with a dialect that describes its differences from OpenAI.

use neuron::openai::{Dialect, OpenAi, TokenLimit};
use neuron::prelude::*;

/// Describes our server at `url`, which is the address up to the version, for example `http://localhost:8000/v1`.
fn our_server(url: String) -> Dialect {
    let mut dialect = Dialect::new("http://localhost:8000/v1").at(url);
    dialect.name = "our_server"; // For telemetry and for fields that only this vendor accepts back.
    dialect.key_variable = "OPENAI_API_KEY"; // Read by `OpenAi::compatible_from_env`.
    dialect.token_limit = TokenLimit::MaxTokens; // It does not know `max_completion_tokens`.
    dialect.left_out = &["parallel_tool_calls"]; // It rejects this field.
    dialect
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let url =
        std::env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "http://localhost:8000".to_owned());
    let dialect = our_server(format!("{url}/v1"));
    let provider = OpenAi::compatible_from_env(dialect)?.model("our-model");
    let agent = Agent::builder(provider).request(|request| request.max_tokens = Some(500)).build();
    let result = agent.run(&mut Conversation::new(), "Who are you?").await?;
    println!("{}", result.response);
    Ok(())
}
