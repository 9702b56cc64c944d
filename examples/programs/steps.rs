//! Controls a run after each turn with `.steps()`, and prints its events with a hook.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Searches the archive.
#[neuron_tool]
async fn search(
    /// The words to search for
    query: String,
) -> Result<String, ToolError> {
    Ok(format!("3 documents about {query}"))
}

// ANCHOR: hook
/// Prints the events of a run.
struct Log;

impl ObservabilityHook for Log {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        match event {
            HookEvent::LoopIteration { turn } => println!("  hook: turn {turn}"),
            HookEvent::PreLlmCall { request } => println!("  hook: call of {}", request.model),
            HookEvent::PreToolExecution { tool_name, .. } => println!("  hook: {tool_name}"),
            HookEvent::RunEnd { .. } => println!("  hook: end"),
            _ => {}
        }
        // `Skip` would give the call a text as its result, and `Terminate` would end the run.
        Ok(HookAction::Continue)
    }
}
// ANCHOR_END: hook

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(SearchTool);
    let agent = Agent::builder(Anthropic::from_env()?)
        .model("claude-sonnet-4-6")
        .tools(tools)
        .hook(Log)
        .build();

    // ANCHOR: steps
    let mut conversation = Conversation::new();
    let mut steps = agent.run(&mut conversation, "What do we know about umbrellas?").steps();
    while let Some(step) = steps.next().await {
        match step? {
            Step::Tools { calls, results } => {
                for (call, result) in calls.iter().zip(&results) {
                    let text: String = result.content.iter().map(ToString::to_string).collect();
                    println!("step: {} {} returned {text:?}", call.name, call.input);
                }
                // The rest of the run uses a cheaper model.
                let cheaper = steps.agent().to_builder().model("claude-haiku-4-5").build();
                steps.set_agent(cheaper);
                steps.inject("Answer in one sentence.");
            }
            Step::Compacted { old_tokens, new_tokens } => {
                println!("step: compacted from {old_tokens} to {new_tokens} tokens");
            }
            Step::Ended(result) => println!("step: {}", result.response),
            _ => {}
        }
    }
    // ANCHOR_END: steps
    println!("{} messages", steps.conversation().messages().len());
    Ok(())
}
