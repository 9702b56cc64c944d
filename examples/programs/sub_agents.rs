//! Delegates the parts of a task to two other agents, and asks the user before an inner agent publishes.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::HookScope;

/// Searches the library.
#[neuron_tool(effect = Pure)]
async fn search(topic: String) -> Result<String, ToolError> {
    Ok(format!("three books about {topic}"))
}

/// Publishes an article.
#[neuron_tool]
async fn publish(title: String) -> Result<String, ToolError> {
    Ok(format!("published: {title}"))
}

// ANCHOR: hook
/// Prints the results of all agents' tools, indented by the depth of the agent.
struct Print;

impl ObservabilityHook for Print {
    async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        if let HookEvent::PostToolExecution { tool_name, output } = event {
            let depth = scope.within.map_or(0, |outer| outer.depth);
            print!("{}{}: {tool_name}:", "  ".repeat(depth), scope.agent);
            output.content.iter().for_each(|item| print!(" {item}"));
            println!();
        }
        Ok(HookAction::Continue)
    }
}
// ANCHOR_END: hook

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    let mut tools = ToolRegistry::new();
    tools.register(SearchTool);
    tools.register(PublishTool);

    // ANCHOR: agents
    let mut agents = SubAgentManager::new();
    agents.register(
        "researcher",
        SubAgentConfig {
            description: "Finds out about one topic.".into(),
            system_prompt: "You are a researcher. Search, then sum up the results.".into(),
            tools: vec!["search".into()],
            max_turns: Some(5),
            ..Default::default()
        },
    );
    agents.register(
        "writer",
        SubAgentConfig {
            description: "Writes an article from notes, and publishes it.".into(),
            system_prompt: "You are a writer. Publish the article with a short title.".into(),
            tools: vec!["publish".into()],
            ..Default::default()
        },
    );
    // Adds the tools `researcher` and `writer`, which may use the other tools of the registry.
    agents.add_to(&mut tools, provider.clone())?;

    let budget = Budget::new(UsageLimits::default().with_request_limit(20));
    let agent = Agent::builder(provider)
        .name("editor")
        .system_prompt("You are an editor. Let your team do the work.")
        .tools(tools)
        .permission_policy(PermissionRules::new([
            PermissionRule::allow("*"),
            PermissionRule::ask("publish"),
        ])?)
        .config(|config| config.pause_for_approval = true)
        .budget(budget.clone())
        .hook(Print)
        .build();
    // ANCHOR_END: agents

    // ANCHOR: run
    let mut conversation = Conversation::new();
    let mut outcome = agent.run(&mut conversation, "An article about ferns, please.").await;
    while let Err(LoopError::ApprovalRequired(pending)) = outcome {
        // The call that waits is a call of the writer, inside the editor's call of the writer.
        for writer in pending.calls.iter().filter_map(|call| call.nested.as_deref()) {
            for waiting in &writer.calls {
                println!("approved: {} {}", waiting.call.name, waiting.call.input);
            }
        }
        outcome = agent.run(&mut conversation, ApprovalDecisions::approve_all(&pending)).await;
    }
    println!("{}", outcome?.response);
    let (all, team) =
        (conversation.usage().total_tokens(), conversation.tool_usage().total_tokens());
    println!("{all} tokens, {team} of them by the team; {} requests", budget.requests());
    // ANCHOR_END: run
    Ok(())
}
