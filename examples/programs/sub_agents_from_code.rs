//! Runs sub-agents from code, one after another, without a model that calls them.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    let mut agents = SubAgentManager::new();
    let editor = SubAgentConfig {
        system_prompt: "Shorten the text to one sentence.".into(),
        ..Default::default()
    };
    let translator = SubAgentConfig {
        system_prompt: "Translate into French. Reply with the translation only.".into(),
        ..Default::default()
    };
    agents.register("editor", editor).register("translator", translator);

    let tools = ToolRegistry::new();
    let text = "Ferns are very old plants. They are older than the oldest trees.";
    let short = agents.spawn("editor", text, &tools, &provider).await?;
    println!("{}", short.response);
    let french = agents.spawn("translator", &short.response, &tools, &provider).await?;
    println!("{}", french.response);
    Ok(())
}
