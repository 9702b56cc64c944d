//! Runs an agent with a tool on a local model of Ollama.

use neuron::ollama::{Ollama, models};
use neuron::prelude::*;
use serde_json::json;

/// Returns the free disk space in gigabytes.
#[neuron_tool]
async fn free_space(
    /// The mount point, for example "/"
    mount: String,
) -> Result<String, ToolError> {
    // A real tool would ask the operating system here.
    Ok(format!("{mount}: 42 GB free"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Ollama::from_env()? // `OLLAMA_HOST`, by default `http://localhost:11434`.
        .model(models::QWEN_3)
        .keep_alive("30m") // Keeps the model in memory for half an hour after a request.
        .options(json!({ "num_ctx": 16_384 })); // Length of the context window in tokens.

    let mut tools = ToolRegistry::new();
    tools.register(FreeSpaceTool);
    let agent = Agent::builder(provider).tools(tools).build();

    let result = agent.run(&mut Conversation::new(), "How much space is left on /?").await?;
    println!("{}", result.response);
    Ok(())
}
