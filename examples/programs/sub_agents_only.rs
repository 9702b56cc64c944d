//! Gives tools to sub-agents but not to the agent that calls them, and runs the sub-agents at the same time.

use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Searches the library.
#[neuron_tool(effect = Pure)]
async fn search(topic: String) -> Result<String, ToolError> {
    Ok(format!("three books about {topic}"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    let mut agents = SubAgentManager::new();
    let researcher = SubAgentConfig {
        description: "Finds out about one topic. Ask about several topics at once.".into(),
        system_prompt: "You are a researcher. Search, then sum up the results.".into(),
        tools: vec!["search".into()],
        ..Default::default()
    };
    agents.register("researcher", researcher);

    // ANCHOR: tools
    let mut team_tools = ToolRegistry::new();
    team_tools.register(SearchTool);
    let mut tools = ToolRegistry::new();
    for agent in agents.into_tools(&team_tools, provider.clone())? {
        tools.try_register_dyn(Arc::new(agent))?;
    }
    // ANCHOR_END: tools
    println!("tools of the editor: {:?}", tools.names().collect::<Vec<_>>());

    // ANCHOR: parallel
    let agent = Agent::builder(provider)
        .tools(tools)
        .config(|config| config.parallel_tool_execution = true)
        .build();
    // ANCHOR_END: parallel
    let result = agent.run(&mut Conversation::new(), "Compare ferns and mosses.").await?;
    println!("{}", result.response);
    Ok(())
}
