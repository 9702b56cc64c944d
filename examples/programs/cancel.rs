//! Cancels a run while a tool hangs, and continues the conversation, which is still valid.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use tokio::sync::Notify;

static STARTED: Notify = Notify::const_new();

/// Creates the report of a month. The report service never responds.
#[neuron_tool]
async fn create_report(
    /// The month, for example "May"
    month: String,
) -> Result<String, ToolError> {
    STARTED.notify_one();
    std::future::pending::<()>().await;
    Ok(format!("the report of {month}"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(CreateReportTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();

    // ANCHOR: cancel
    let mut conversation = Conversation::new();
    let mut run = agent.run(&mut conversation, "Send me the report for May.");
    let handle = run.handle();
    // This task stands for a stop button. Somebody presses it while the tool hangs.
    tokio::spawn(async move {
        STARTED.notified().await;
        handle.cancel();
    });
    match run.await {
        Err(LoopError::Cancelled) => println!("The run is cancelled. Its conversation:"),
        other => println!("{}", other?.response),
    }
    // ANCHOR_END: cancel
    for message in conversation.messages() {
        // A provider may keep marks of its own in a message. They have no text.
        for block in message.content.iter().filter(|block| !block.is_mark()) {
            println!("  {:?}: {block}", message.role);
        }
    }

    let result = agent.run(&mut conversation, "Forget it. What is the capital of Peru?").await?;
    println!("{}", result.response);

    // ANCHOR: wait
    // In a service, the run has a task of its own. It goes on if its client disconnects and `events` is dropped.
    let mut run = agent.run_owned(conversation, "And the report for June?");
    let handle = run.handle();
    let (events, end) = run.detach();
    let task = tokio::spawn(end);
    drop(events);
    STARTED.notified().await;

    // The next request of this client ends the run. When the task has ended, the run writes nothing more.
    handle.cancel();
    let (conversation, ended) = task.await?;
    println!("cancelled: {}, turns: {}", ended.is_err(), conversation.turns());
    // ANCHOR_END: wait
    Ok(())
}
