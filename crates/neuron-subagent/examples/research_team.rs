//! An agent that gives tasks to two concurrent researchers and then to a writer.
//!
//! ```sh
//! cargo run -p neuron-subagent --example research_team
//! ```
//!
//! The model is a script, so the example runs without an API key. Replace it with a real provider. All agents share the
//! budget. A hook prints the calls of each agent. The policy requires an approval before anything is published, even by
//! an inner agent.

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, Budget, Conversation, LoopError};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{
    ApprovalDecisions, HookAction, HookError, HookEvent, HookScope, ObservabilityHook,
    PermissionDecision, PermissionPolicy, ToolError, UsageLimits,
};
use serde_json::{Value, json};

/// Searches the library
#[neuron_tool(effect = Pure)]
async fn search(topic: String) -> Result<String, ToolError> {
    Ok(format!("three books about {topic}"))
}

/// Publishes an article
#[neuron_tool]
async fn publish(title: String) -> Result<String, ToolError> {
    Ok(format!("published: {title}"))
}

/// Requires an approval before anything is published.
struct AskToPublish;

impl PermissionPolicy for AskToPublish {
    fn check(&self, tool_name: &str, _input: &Value) -> PermissionDecision {
        match tool_name {
            "publish" => PermissionDecision::Ask("Publish this?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// Prints the calls of each agent, indented by its depth.
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
        if let HookEvent::PreToolExecution { tool_name, input } = event {
            let depth = scope.within.map_or(0, |outer| outer.depth);
            println!("{}{} calls {tool_name} {input}", "  ".repeat(depth), scope.agent);
        }
        Ok(HookAction::Continue)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = ScriptedProvider::new(script());

    let mut tools = ToolRegistry::new();
    tools.register(SearchTool);
    tools.register(PublishTool);

    let mut agents = SubAgentManager::new();
    agents.register(
        "researcher",
        SubAgentConfig {
            description: "Finds out about one topic. Ask about several topics at once.".into(),
            system_prompt: "You are a researcher. Search, then sum up what you found.".into(),
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
    agents.add_to(&mut tools, provider.clone())?;

    let budget = Budget::new(UsageLimits::default().with_request_limit(20));
    let agent = Agent::builder(provider)
        .context(SlidingWindowStrategy::new(40, 100_000))
        .name("editor")
        .system_prompt("You are an editor. Let your team do the work.")
        .tools(tools)
        .permission_policy(AskToPublish)
        .config(|config| {
            config.parallel_tool_execution = true;
            config.pause_for_approval = true;
        })
        .budget(budget.clone())
        .hook(Print)
        .build();

    let mut chat = Conversation::new();
    let mut outcome = agent.run(&mut chat, "An article about ferns and mosses, please.").await;
    while let Err(LoopError::ApprovalRequired(pending)) = outcome {
        // The pending call of the writer, inside the editor's call of the writer.
        let writer = pending.calls.first().and_then(|call| call.nested.as_deref());
        for call in writer.iter().flat_map(|writer| &writer.calls) {
            println!("{} {} yes", call.reason, call.call.input);
        }
        outcome = agent.run(&mut chat, ApprovalDecisions::approve_all(&pending)).await;
    }

    println!("{}", outcome?.response);
    println!(
        "{} tokens, {} of them by the team; {} requests",
        chat.usage().total_tokens(),
        chat.tool_usage().total_tokens(),
        budget.requests(),
    );
    Ok(())
}

/// Returns the scripted responses. Both researchers search first, and then both sum up.
fn script() -> [Reply; 9] {
    let ask = |id: &str, topic: &str| {
        (id.to_owned(), "researcher", json!({ "prompt": format!("What of {topic}?") }))
    };
    let search = |topic: &str| Reply::tool_call("s", "search", json!({ "topic": topic }));
    [
        Reply::tool_calls([ask("a", "ferns"), ask("b", "mosses")]),
        search("ferns"),
        search("mosses"),
        Reply::text("Ferns are older than trees."),
        Reply::text("Mosses have no roots."),
        Reply::tool_call("w", "writer", json!({ "prompt": "Ferns are old, mosses rootless." })),
        Reply::tool_call("p", "publish", json!({ "title": "Green and old" })),
        Reply::text("It is published."),
        Reply::text("Your article \"Green and old\" is out."),
    ]
}
