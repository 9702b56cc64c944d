//! Stores a chat in a file, continues it from the file, and detects a conflict between two writers.

// ANCHOR: imports
use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::StorageError;
// ANCHOR_END: imports

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let agent = Agent::builder(Anthropic::from_env()?).build();

    // ANCHOR: store
    // The session is the file `sessions/chat-42.json`.
    let storage = FileSessionStorage::new("sessions".into());
    let session = SessionHandle::new(&storage, "chat-42");
    let mut conversation = session.load().await?;
    let result = agent.run(&mut conversation, "My name is Ada.").store(&session).await?;
    println!("first process: {}", result.response);
    // ANCHOR_END: store

    // ANCHOR: continue
    // Another process, or the same process after a restart, loads the conversation.
    let session = SessionHandle::new(&storage, "chat-42");
    let mut conversation = session.load().await?;
    println!("second process: {} messages are stored", conversation.messages().len());
    let result = agent.run(&mut conversation, "What is my name?").store(&session).await?;
    println!("second process: {}", result.response);
    // ANCHOR_END: continue

    // ANCHOR: conflict
    // Two writers load the same state of the session. The second run ends before it calls the model.
    let (first, second) =
        (SessionHandle::new(&storage, "chat-42"), SessionHandle::new(&storage, "chat-42"));
    let (mut here, mut there) = (first.load().await?, second.load().await?);
    agent.run(&mut here, "I moved to Oslo.").store(&first).await?;
    match agent.run(&mut there, "I have a cat.").store(&second).await {
        Err(LoopError::Storage(StorageError::Conflict { id })) => println!("conflict in {id}"),
        outcome => println!("unexpected: {outcome:?}"),
    }
    // ANCHOR_END: conflict

    let response = say(&agent, &storage, "chat-42", "Where do I live?").await?;
    println!("after the conflict: {response}");
    Ok(())
}

// ANCHOR: retry
/// Runs the agent with a message. Repeats the run if another writer has changed the session meanwhile.
async fn say(
    agent: &Agent,
    storage: &FileSessionStorage,
    id: &str,
    text: &str,
) -> Result<String, LoopError> {
    loop {
        let session = SessionHandle::new(storage, id);
        let mut conversation = session.load().await?;
        match agent.run(&mut conversation, text).store(&session).await {
            Err(LoopError::Storage(StorageError::Conflict { .. })) => continue,
            outcome => return Ok(outcome?.response),
        }
    }
}
// ANCHOR_END: retry
