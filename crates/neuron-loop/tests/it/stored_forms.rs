//! Stored forms of earlier releases can still be read, and the forms of this release do not change unnoticed.

use neuron_loop::{Agent, Conversation, Start};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{ApprovalDecisions, Message, PendingApproval, RunSnapshot, Session, TokenUsage};
use serde_json::{Value, json};

use crate::support::*;

const PENDING_1: &str = include_str!("stored/pending-1.json");
const SESSION_1: &str = include_str!("stored/session-1.json");
const CONVERSATION_1: &str = include_str!("stored/conversation-1.json");
const SNAPSHOT_2: &str = include_str!("stored/snapshot-2.json");

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

fn agent(replies: impl IntoIterator<Item = Reply>) -> (Agent, ScriptedProvider, Log) {
    let (provider, log) = (ScriptedProvider::new(replies), Log::default());
    (Agent::builder(provider.clone()).tools(registry(&log)).build(), provider, log)
}

#[tokio::test]
async fn pending_approval_of_version_1_is_resumed() {
    let pending: PendingApproval = serde_json::from_str(PENDING_1).unwrap();
    let (agent, _, log) = agent([Reply::text("done").usage(usage(5, 1))]);
    let mut chat = Conversation::try_from(pending.clone()).unwrap();
    // The ids of that version have no approval id. The model's id is enough.
    let mut restored = chat.pending().unwrap();
    restored.calls.iter_mut().for_each(|pending| pending.approval_id.clear());
    assert_eq!(restored, pending);
    assert_eq!(chat.messages(), pending.messages);
    let result = agent.run(&mut chat, ApprovalDecisions::approve_all(&pending)).await.unwrap();
    // The counters of the run continue.
    assert_eq!((result.turns, result.usage), (3, usage(35, 6)));
    assert_eq!((log.count("start c1"), log.count("start c2")), (1, 0));
}

#[tokio::test]
async fn resume_starts_from_a_pending_approval_and_its_decisions() {
    let pending: PendingApproval = serde_json::from_str(PENDING_1).unwrap();
    let start = |decisions: ApprovalDecisions| Start::Resume {
        pending: Box::new(pending.clone()),
        decisions,
    };
    let (agent, _, log) = agent([Reply::text("done").usage(usage(5, 1))]);
    let mut chat = Conversation::new();
    // Decisions that do not match change nothing.
    let wrong = agent.run(&mut chat, start(ApprovalDecisions::new().approve("c9"))).await;
    assert!(wrong.is_err() && chat == Conversation::new());
    let stored = serde_json::to_string(&start(ApprovalDecisions::approve_all(&pending))).unwrap();
    let start: Start = serde_json::from_str(&stored).unwrap();
    let result = agent.run(&mut chat, start).await.unwrap();
    assert_eq!((result.turns, result.usage), (3, usage(35, 6)));
    assert_eq!((log.count("start c1"), log.count("start c2")), (1, 0));
}

#[tokio::test]
async fn session_of_version_1_is_resumed() {
    let session: Session = serde_json::from_str(SESSION_1).unwrap();
    let mut chat = Conversation::from_session(session.clone());
    assert_eq!((chat.messages(), chat.total_usage()), (&session.messages[..], &usage(30, 5)));
    let (agent, ..) = agent([Reply::text("again").usage(usage(5, 1))]);
    agent.run(&mut chat, "And now?").await.unwrap();
    assert_eq!(chat.total_usage(), &usage(35, 6));
    let mut written = session;
    chat.write_session(&mut written).unwrap();
    assert_eq!(Conversation::from_session(written), chat);
}

/// Returns a conversation that uses every part of the stored form.
async fn conversation() -> Conversation {
    let inputs = [json!({ "text": "a" }), json!({ "retry": "again" })];
    let (agent, ..) =
        agent([calls(inputs).usage(usage(10, 2)), Reply::text("done").usage(usage(20, 3))]);
    let mut chat = Conversation::new();
    let ctx = neuron_types::ToolContext { run_id: "run-7".into(), ..Default::default() };
    agent.run(&mut chat, "go").context(&ctx).await.unwrap();
    chat
}

#[tokio::test]
async fn stored_form_of_a_conversation_is_pinned() {
    let chat = conversation().await;
    let mut pinned: Value = serde_json::from_str(CONVERSATION_1).unwrap();
    // The field had a default and is not written any more, so releases with and without it read both forms.
    assert_eq!(pinned.as_object_mut().unwrap().remove("rewrites"), Some(json!(0)));
    let written = serde_json::to_value(&chat).unwrap();
    // A change of the form needs a new version and a new file. This file must not change.
    assert_eq!(written, pinned, "{written}");
    assert_eq!(serde_json::from_value::<Conversation>(pinned).unwrap(), chat);
}

#[tokio::test]
async fn snapshot_of_version_2_is_resumed() {
    let snapshot: RunSnapshot = serde_json::from_str(SNAPSHOT_2).unwrap();
    assert_eq!((snapshot.version, snapshot.turns), (2, 2));
    let (agent, ..) = agent([Reply::text("done").usage(usage(5, 1))]);
    let mut chat = Conversation::new();
    let result = agent.run(&mut chat, Start::Snapshot(Box::new(snapshot))).await.unwrap();
    assert_eq!((result.turns, result.usage), (3, usage(35, 19)));
}

#[test]
fn newer_or_damaged_form_is_rejected_with_a_reason() {
    let mut stored: Value = serde_json::from_str(CONVERSATION_1).unwrap();
    stored["version"] = json!(2);
    let error = serde_json::from_value::<Conversation>(stored.clone()).unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("up to 1"), "{error}");
    stored["version"] = json!(1);
    stored["messages"].as_array_mut().unwrap().pop();
    stored["messages"].as_array_mut().unwrap().pop();
    let error = serde_json::from_value::<Conversation>(stored).unwrap_err().to_string();
    assert!(error.contains("the conversation is damaged"), "{error}");
}

#[test]
fn truncated_stored_conversation_is_rejected() {
    let stored = serde_json::to_string(&Conversation::from(vec![Message::user("hi")])).unwrap();
    for (cut, _) in stored.char_indices() {
        assert!(serde_json::from_str::<Conversation>(&stored[..cut]).is_err(), "{cut}");
    }
    serde_json::from_str::<Conversation>(&stored).unwrap();
}
