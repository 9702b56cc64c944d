//! Gives a model a shell that the Linux kernel confines to one folder, beside a tool without a sandbox.

use std::sync::Arc;
use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::runtime::{CommandTool, Confined, ProcessSandbox};
use neuron::types::ToolCommand;

// ANCHOR: shell
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ShellArgs {
    /// The script for the shell
    script: String,
}

/// A tool that runs a shell script.
struct Shell;

impl CommandTool for Shell {
    const NAME: &'static str = "shell";
    type Args = ShellArgs;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Runs a shell script in the project's folder".into(),
            input_schema: schemars::schema_for!(ShellArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    // Only describes the program. The sandbox starts it.
    fn command(&self, args: ShellArgs, _ctx: &ToolContext) -> Result<ToolCommand, ToolError> {
        Ok(ToolCommand::new("sh").arg("-c").arg(args.script))
    }
}
// ANCHOR_END: shell

/// Adds a note to the ticket. This function runs in the program's own process, without a sandbox.
#[neuron_tool]
async fn add_note(text: String) -> Result<String, ToolError> {
    Ok(format!("noted: {text}"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    std::fs::create_dir_all("project/out")?;
    std::fs::write("project/todo.txt", "water the plants\nfeed the cat\n")?;
    std::fs::write("secret.txt", "the secret\n")?;

    // ANCHOR: sandbox
    let sandbox = ProcessSandbox::builder("project")
        .write("project/out")
        // `touch` sets the times of a file, and `chmod` its mode.
        .allow_attribute_changes()
        .time_limit(Duration::from_secs(10))
        .memory_limit(256 << 20)
        .build();
    let sandbox = match sandbox {
        Ok(sandbox) => sandbox,
        Err(error) => {
            println!("no sandbox: {error}");
            return Ok(());
        }
    };

    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Confined(Shell)));
    tools.register(AddNoteTool);
    tools.set_sandbox(sandbox);
    // Fails now, and not at the first call, if a tool cannot run.
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).try_build()?;
    // ANCHOR_END: sandbox

    let mut conversation = Conversation::new();
    let mut steps = agent.run(&mut conversation, "How many tasks are left?").steps();
    while let Some(step) = steps.next().await {
        match step? {
            Step::Tools { calls, results } => {
                for (call, result) in calls.iter().zip(&results) {
                    println!("{} {}", call.name, call.input);
                    result
                        .content
                        .iter()
                        .for_each(|item| println!("  {}", item.to_string().trim_end()));
                }
            }
            Step::Ended(result) => println!("{}", result.response),
            _ => {}
        }
    }
    Ok(())
}
