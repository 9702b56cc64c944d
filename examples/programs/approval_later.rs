//! Stores a run that waits for an approval in a signed file, and continues the run from the file.

use std::error::Error;
use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::runtime::{AnnotationCondition, ApprovalKey, ArgumentPattern};

/// Deletes a file.
#[neuron_tool]
async fn delete_file(
    /// The path of the file
    path: String,
) -> Result<String, ToolError> {
    // A real tool would delete the file here.
    Ok(format!("{path} is deleted"))
}

/// Returns the agent. Each process builds the same agent with the same secret.
fn agent() -> Result<Agent, Box<dyn Error>> {
    let mut tools = ToolRegistry::new();
    tools.register(DeleteFileTool);
    // ANCHOR: rules
    // A call that matches no rule needs an approval.
    let env_file = ArgumentPattern::path("**/.env");
    let reads = AnnotationCondition { read_only: Some(true), ..AnnotationCondition::default() };
    let rules = PermissionRules::new([
        // Tools whose definition has the annotation `read_only_hint: Some(true)`.
        PermissionRule::allow("*").annotated(reads),
        PermissionRule::allow("delete_file").when("path", ArgumentPattern::path("tmp/**")),
        PermissionRule::deny("*_file").when("path", env_file).because("it has the keys"),
    ])?;
    // ANCHOR_END: rules
    // ANCHOR: key
    // In production, read 32 random bytes from your secret store.
    let key = ApprovalKey::new("an example of a 32 byte long key");
    let day = Duration::from_secs(24 * 60 * 60);
    // ANCHOR_END: key
    Ok(Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .permission_policy(rules)
        .config(|config| config.pause_for_approval = true)
        .approval_signer(key.valid_for(day))
        .build())
}

/// Runs in the first process. Stores the run if a call needs an approval.
async fn start(file: &str) -> Result<(), Box<dyn Error>> {
    let mut conversation = Conversation::new();
    let outcome = agent()?.run(&mut conversation, "Delete the old logs.").await;
    if let Err(LoopError::ApprovalRequired(pending)) = &outcome {
        for waiting in &pending.calls {
            println!("{} {}", waiting.reason, waiting.call.input);
        }
        std::fs::write(file, serde_json::to_string(pending)?)?;
        return Ok(());
    }
    println!("{}", outcome?.response);
    Ok(())
}

/// Runs in any process, days later. Continues the stored run.
async fn approve(stored: &str) -> Result<String, Box<dyn Error>> {
    let pending: PendingApproval = serde_json::from_str(stored)?;
    let decisions = ApprovalDecisions::approve_all(&pending);
    let mut conversation = Conversation::try_from(pending)?;
    let result = agent()?.run(&mut conversation, decisions).await?;
    Ok(result.response)
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let file = "pending.json";
    start(file).await?;

    let stored = std::fs::read_to_string(file)?;
    // Somebody with access to the file changes the arguments of the call.
    let changed = stored.replace("logs/2025.log", "customers.db");
    match approve(&changed).await {
        Ok(response) => println!("changed file: {response}"),
        Err(error) => println!("changed file: {error}"),
    }
    println!("stored file: {}", approve(&stored).await?);
    std::fs::remove_file(file)?;
    Ok(())
}
