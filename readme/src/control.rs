//! The example "Control". One run pauses for an approval, and one run reaches a limit.

use std::error::Error;

use neuron::prelude::*;
use neuron::types::ToolChoice;
use neuron_testing::{Reply, ScriptedProvider};
use serde_json::json;

/// Returns the size of a file.
#[neuron_tool]
async fn get_size(
    /// The file
    path: String,
) -> Result<u64, ToolError> {
    println!("get_size {path}");
    Ok(42)
}

/// Deletes a file.
#[neuron_tool]
async fn delete_file(
    /// The file
    path: String,
) -> Result<String, ToolError> {
    println!("delete_file {path}");
    Ok("deleted".into())
}

/// Prints the calls for which the example requests approval. Called by an addition of `build.rs`.
pub(crate) fn asked(pending: &PendingApproval) {
    let calls: Vec<&str> = pending.calls.iter().map(|call| call.call.name.as_str()).collect();
    println!("asked about {}", calls.join(", "));
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    example(ScriptedProvider::new([
        Reply::tool_calls([
            ("c1", "get_size", json!({"path": "a"})),
            ("c2", "delete_file", json!({"path": "a"})),
        ]),
        Reply::text("The folder is clean."),
    ]))
    .await?;

    let lookup = |turn: usize| {
        Reply::tool_call(format!("c{turn}"), "get_size", json!({"path": turn.to_string()}))
    };
    let replies = (1..=10).map(lookup).chain([Reply::text("Not all is clean.")]);
    let provider = ScriptedProvider::new(replies);
    example(provider.clone()).await?;
    provider.assert_complete();
    let last = provider.requests().pop().and_then(|request| request.tool_choice);
    println!("the last call may use tools: {}", last != Some(ToolChoice::None));
    Ok(())
}

/// Runs the example with a scripted provider.
async fn example(provider: ScriptedProvider) -> Result<(), LoopError> {
    let mut tools = ToolRegistry::new();
    tools.register(GetSizeTool);
    tools.register(DeleteFileTool);
    include!(concat!(env!("OUT_DIR"), "/control.rs"));
    Ok(())
}
