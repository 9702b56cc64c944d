//! Warns a model that repeats the same tool call, ends a run that does not stop, and lets the model poll a build.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Waits a minute for the build, and returns its state.
#[neuron_tool]
async fn wait_for_build() -> Result<&'static str, ToolError> {
    Ok("still running")
}

/// Reads the log of a job.
#[neuron_tool]
async fn read_log(
    /// The name of the job
    job: String,
) -> Result<String, ToolError> {
    Ok(format!("the log of {job} is empty"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(WaitForBuildTool);
    tools.register(ReadLogTool);

    // ANCHOR: hook
    // By default, the model is warned at 3 equal calls with the same result, and the run ends at 5.
    let detector = LoopDetector::new().exempt("wait_for_build");
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).hook(detector).build();
    // ANCHOR_END: hook

    let mut conversation = Conversation::new();
    for question in ["Wait for the build. Why does it fail?", "Look again."] {
        println!("user: {question}");
        let before = conversation.messages().len();
        let result = agent.run(&mut conversation, question).await;
        for message in conversation.messages().iter().skip(before) {
            match message.role {
                Role::System => println!("warning: {}", message.text()),
                _ => message.tool_uses().for_each(|call| println!("call: {}", call.name)),
            }
        }
        match result {
            Ok(result) => println!("agent: {}\n", result.response),
            Err(LoopError::HookTerminated(reason)) => println!("ended: {reason}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
