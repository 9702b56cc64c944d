//! Tests the code and the statements of the section "Sessions" of neuron's book.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use chrono::{DateTime, Utc};
use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, AgentLoop, Conversation};
use neuron_runtime::{Session, SessionState, SessionStorage, SessionSummary};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{Message, Provider, StorageError, TokenUsage, ToolContext};

/// The code of the section "SessionStorage Trait" of neuron's book. This in-memory storage has the signatures as
/// printed.
#[derive(Clone, Default)]
struct InMemory(Arc<RwLock<HashMap<String, Session>>>);

impl SessionStorage for InMemory {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        let mut sessions = self.0.write().unwrap();
        sessions.insert(session.id.clone(), session.clone());
        Ok(())
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        let sessions = self.0.read().unwrap();
        let found = sessions.get(id).cloned();
        found.ok_or_else(|| StorageError::NotFound(id.to_string()))
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let sessions = self.0.read().unwrap();
        Ok(sessions.values().map(Session::summary).collect())
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        let removed = self.0.write().unwrap().remove(id);
        removed.map(drop).ok_or_else(|| StorageError::NotFound(id.to_string()))
    }
}

/// Contains the code of the section "Quick Example" of neuron's book, with any storage.
async fn quick_example(storage: impl SessionStorage) -> Result<(), Box<dyn std::error::Error>> {
    let mut session = Session::new("s-1", PathBuf::from("."));
    session.messages.push(Message::user("Hello"));
    storage.save(&session).await?;

    // Load it back later
    let loaded = storage.load("s-1").await?;
    println!("{} messages", loaded.messages.len());

    assert_eq!(loaded, session);
    Ok(())
}

#[tokio::test]
async fn custom_storage_saves_loads_lists_and_deletes() {
    let storage = InMemory::default();
    quick_example(storage.clone()).await.unwrap();

    let summaries = storage.list().await.unwrap();
    for s in &summaries {
        println!("{}: {} messages, created {}", s.id, s.message_count, s.created_at);
    }
    assert_eq!((summaries.len(), summaries[0].message_count), (1, 1));
    storage.delete("s-1").await.unwrap();
    let missing = storage.load("s-1").await.unwrap_err();
    assert_eq!(missing.to_string(), "session not found: s-1");
}

/// Tests the section "Session Type" of neuron's book.
#[test]
fn session_has_the_fields_of_the_table() {
    let mut session = Session::new("chat-42", "/home/user/project".into());
    session.messages.push(Message::user("What is Rust?"));
    session.state.custom.insert("theme".to_string(), serde_json::json!("dark"));

    let Session { id, messages, state, created_at, updated_at } = session;
    let (id, messages): (String, Vec<Message>) = (id, messages);
    let (created_at, updated_at): (DateTime<Utc>, DateTime<Utc>) = (created_at, updated_at);
    assert_eq!((id.as_str(), messages.len()), ("chat-42", 1));
    assert_eq!(created_at, updated_at);
    let SessionState { cwd, token_usage, event_count, custom } = state;
    assert_eq!(cwd, PathBuf::from("/home/user/project"));
    assert_eq!((token_usage, event_count), (TokenUsage::default(), 0));
    assert_eq!(custom["theme"], "dark");
}

/// Contains the code of the section "Session persistence with AgentLoop" of neuron's book.
async fn persistence<P: Provider + 'static>(
    provider: P,
    resumed: P,
    storage: impl SessionStorage,
) -> Result<Vec<Message>, Box<dyn std::error::Error>> {
    let context = SlidingWindowStrategy::new(20, 100_000);
    let mut agent = AgentLoop::builder(provider, context.clone()).build();
    let (provider, tools, ctx) = (resumed, ToolRegistry::new(), ToolContext::default());

    // --- Save after a conversation ---
    let result = agent.run_text("Hello!", &ctx).await?;

    let mut session = Session::new("session-123", std::env::current_dir()?);
    session.messages = result.messages.clone();
    session.state.token_usage = result.usage.clone();

    storage.save(&session).await?;

    // --- Resume later (new process) ---
    let loaded = storage.load("session-123").await?;

    // The book loads the history but does not pass it to the agent. The code here passes it.
    let agent = Agent::builder(provider)
        .context(context)
        .tools(tools)
        .system_prompt("You are a helpful assistant.")
        .build();
    let mut conversation = Conversation::from_session(loaded);
    let resume_msg = Message::user("Continue where we left off.");
    agent.run(&mut conversation, resume_msg).context(&ctx).await?;
    Ok(conversation.messages().to_vec())
}

#[tokio::test]
async fn saved_conversation_continues_in_another_agent() {
    let (first, second) = (
        ScriptedProvider::new([Reply::text("Hi!")]),
        ScriptedProvider::new([Reply::text("We were greeting.")]),
    );
    let messages = persistence(first, second.clone(), InMemory::default());
    let expected = [
        Message::user("Hello!"),
        Message::assistant("Hi!"),
        Message::user("Continue where we left off."),
        Message::assistant("We were greeting."),
    ];
    assert_eq!(messages.await.unwrap(), expected);
    assert_eq!(second.requests()[0].messages, expected[..3]);
}

/// Tests the section "Quick Example" of neuron's book as printed, but in a temporary folder.
#[tokio::test]
async fn file_storage_stores_sessions_as_files() -> Result<(), Box<dyn std::error::Error>> {
    use neuron_runtime::*;
    use neuron_types::Message;
    use std::path::PathBuf;

    let folder = Folder::new("quick");
    // Persist sessions to disk
    let storage = FileSessionStorage::new(PathBuf::from(&folder.0));
    let mut session = Session::new("s-1", PathBuf::from("."));
    session.messages.push(Message::user("Hello"));
    // Creates the directory on first save.
    assert!(!folder.0.exists());
    storage.save(&session).await?;

    // Load it back later
    let loaded = storage.load("s-1").await?;
    println!("{} messages", loaded.messages.len());

    assert_eq!(loaded.messages, session.messages);
    assert!(folder.0.join("s-1.json").exists());
    Ok(())
}

#[tokio::test]
async fn memory_storage_stores_sessions() -> Result<(), Box<dyn std::error::Error>> {
    use neuron_runtime::InMemorySessionStorage;

    let session = Session::new("chat-42", "/home/user/project".into());
    let storage = InMemorySessionStorage::new();
    storage.save(&session).await?;
    assert_eq!(storage.load("chat-42").await?.id, "chat-42");
    Ok(())
}

#[tokio::test]
async fn file_session_continues_in_another_storage() {
    let folder = Folder::new("resumed");
    let storage = || neuron_runtime::FileSessionStorage::new(folder.0.clone());
    let (first, second) = (
        ScriptedProvider::new([Reply::text("Hi!")]),
        ScriptedProvider::new([Reply::text("We were greeting.")]),
    );
    let messages = persistence(first, second.clone(), storage()).await.unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(second.requests()[0].messages, messages[..3]);
    assert_eq!(storage().list().await.unwrap()[0].message_count, 2);
}

/// The path of a folder for a test, which does not exist at first. Dropping the value deletes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
