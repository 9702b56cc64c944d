//! Stores chats in a SQLite database, with values of the application, and lists, forks, copies and deletes them.

use std::path::Path;

use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::session_sqlite::SqliteSessionStorage;
use neuron::types::{SessionStorage, StorageError};

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let agent = Agent::builder(Anthropic::from_env()?).build();

    let storage = SqliteSessionStorage::open("sessions.db").await?;
    for (id, text) in [("chat-1", "Name a planet."), ("chat-2", "Name a river.")] {
        let session = SessionHandle::new(&storage, id);
        let mut conversation = session.load().await?;
        agent.run(&mut conversation, text).store(&session).await?;
    }

    // A session also has values of the application.
    let mut session = storage.load("chat-1").await?;
    session.state.custom.insert("title".into(), "Planets".into());
    storage.save(&session).await?;

    // A copy of the session, whose last turn the user repeats with another text.
    let mut other = storage.load("chat-2").await?.fork("chat-3");
    other.rewind(0);
    let mut conversation = Conversation::from_session(other.clone());
    agent.run(&mut conversation, "Name a lake.").await?;
    conversation.write_session(&mut other)?;
    storage.save(&other).await?;

    for summary in storage.list().await? {
        println!("{}: {} messages", summary.id, summary.message_count);
    }
    let title = storage.load("chat-1").await?.state.custom.get("title").cloned();
    println!("title of chat-1: {}", title.unwrap_or_default());

    storage.delete("chat-2").await?;
    match storage.load("chat-2").await {
        Err(StorageError::NotFound(id)) => println!("{id} is deleted"),
        outcome => println!("unexpected: {outcome:?}"),
    }

    let copy = Path::new("backup.db");
    if !copy.exists() {
        storage.backup(copy).await?;
    }
    let sessions = SqliteSessionStorage::open(copy).await?.list().await?;
    println!("the copy has {} sessions", sessions.len());
    Ok(())
}
