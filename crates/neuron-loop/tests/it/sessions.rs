//! Conversations that are written into a session and continued by another agent.

use neuron_context::{InjectionTrigger, SlidingWindowStrategy, SystemInjector};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{ContentBlock, Message, Role, Session, TokenUsage, ToolContext};
use serde_json::json;

use crate::support::*;

/// Serialises and deserialises the session, as a storage would.
fn stored(session: &Session) -> Session {
    serde_json::from_str(&serde_json::to_string(session).unwrap()).unwrap()
}

/// Returns the session of a conversation with one finished run, which called one tool.
async fn after_a_run() -> Session {
    let setup = setup([calls([json!({"text": "found"})]), Reply::text("Done.")]);
    let mut agent = setup.builder.build();
    agent.run_text("Look", &ToolContext::default()).await.unwrap();
    let mut session = Session::new("s", "/srv".into());
    agent.write_session(&mut session);
    assert_eq!(session.messages, agent.messages());
    assert_eq!(session.messages.len(), 4);
    assert_eq!(session.state.token_usage, *agent.total_usage());
    stored(&session)
}

#[tokio::test]
async fn total_usage_continues_and_run_usage_starts_at_zero() {
    let session = after_a_run().await;
    let before = session.state.token_usage.clone();
    assert!(before.total_tokens() > 0);
    let setup = setup(["Yes."]);
    let mut agent = setup.builder.build();
    agent.restore_session(&session);
    assert_eq!(agent.total_usage(), &before);
    assert_eq!(agent.usage(), &before, "of the last run");
    agent.run_text("More", &ToolContext::default()).await.unwrap();
    let mut expected = before;
    expected += agent.usage();
    assert!(agent.usage().total_tokens() > 0);
    assert_eq!(agent.total_usage(), &expected);

    let mut again = session.clone();
    agent.write_session(&mut again);
    assert_eq!(again.state.token_usage, expected);
}

#[tokio::test]
async fn write_session_keeps_values_of_the_user() {
    let setup = setup(["Hello."]);
    let mut agent = setup.builder.build();
    agent.run_text("Hi", &ToolContext::default()).await.unwrap();
    let mut session = Session::new("s", "/srv".into());
    session.state.custom.insert("theme".into(), json!("dark"));
    session.state.event_count = 3;
    session.messages = vec![Message::user("an older conversation"); 9];
    let before = session.clone();
    agent.write_session(&mut session);
    assert_eq!(session.messages, agent.messages());
    assert_eq!((&session.id, session.created_at), (&before.id, before.created_at));
    let mut custom = session.state.custom.clone();
    assert!(custom.remove("neuron.conversation").is_some());
    assert_eq!(custom, before.state.custom);
    assert_eq!((&session.state.cwd, session.state.event_count), (&before.state.cwd, 3));
    assert!(session.updated_at >= before.updated_at);
}

#[tokio::test]
async fn second_write_keeps_the_messages_of_the_first() {
    let setup = setup(["Hello.", "Yes."]);
    let mut agent = setup.builder.build();
    let mut session = Session::new("s", "/srv".into());
    agent.run_text("Hi", &ToolContext::default()).await.unwrap();
    agent.write_session(&mut session);
    let places = |session: &Session| -> Vec<*const ContentBlock> {
        session.messages.iter().map(|message| message.content.as_ptr()).collect()
    };
    let before = places(&session);
    agent.run_text("Really?", &ToolContext::default()).await.unwrap();
    agent.write_session(&mut session);
    assert_eq!(session.messages, agent.messages());
    assert_eq!(places(&session)[..2], before);
}

/// The messages of a session may end anywhere, for example between a tool call and its result. Every such session can
/// be restored and continued.
#[tokio::test]
async fn history_that_ends_within_tool_calls_is_accepted() {
    let whole = after_a_run().await;
    for length in 0..=whole.messages.len() {
        for way in WAYS {
            let mut session = whole.clone();
            session.messages.truncate(length);
            let setup = setup(["Yes."]);
            let mut agent = setup.builder.build();
            agent.restore_session(&session);
            check_valid(agent.messages());
            run(way, &mut agent, &ToolContext::default()).await.unwrap();
            check_valid(&setup.provider.requests()[0].messages);
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn results_without_calls_are_repaired() {
    let mut session = after_a_run().await;
    session.messages.drain(..2);
    let setup = setup(["Yes."]);
    let mut agent = setup.builder.build();
    agent.restore_session(&session);
    check_valid(agent.messages());
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    check_valid(&setup.provider.requests()[0].messages);
}

#[tokio::test]
async fn unanswered_message_can_be_continued() {
    let mut session = Session::new("s", ".".into());
    session.messages = vec![Message::user("What is Rust?")];
    let setup = setup(["A language."]);
    let mut agent = setup.builder.build();
    agent.restore_session(&session);
    let result = agent.continue_run(&ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "A language.");
    assert_eq!(setup.provider.requests()[0].messages, session.messages);
}

#[tokio::test]
async fn session_of_ten_thousand_messages_is_restored() {
    let mut session = Session::new("s", ".".into());
    session.messages = (0..5000)
        .flat_map(|turn| {
            [Message::user(format!("{turn}?")), Message::assistant(format!("{turn}."))]
        })
        .collect();
    let provider = ScriptedProvider::new(["Yes."]);
    let window = SlidingWindowStrategy::new(20_000, 10_000_000);
    let mut agent = Chat::builder(provider.clone(), window).build();
    agent.restore_session(&stored(&session));
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let sent = &provider.requests()[0].messages;
    assert_eq!(sent.len(), 10_001);
    assert!(sent.starts_with(&session.messages));
    assert_eq!(agent.messages_since(&session).unwrap().len(), 2);
}

/// An agent that restores a session keeps no part of its earlier conversation.
#[tokio::test]
async fn restored_session_replaces_the_earlier_conversation() {
    let session = after_a_run().await;
    let mut injector = SystemInjector::new();
    injector.add_rule(InjectionTrigger::EveryNTurns(2), "brief".into());
    let setup = setup(["1", "2", "3", "4", "5"]);
    let mut agent = setup.builder.injector(injector).build();
    agent.run_text("a secret", &ToolContext::default()).await.unwrap();
    agent.restore_session(&session);
    assert_eq!(agent.messages(), session.messages);
    let before = (session.state.token_usage.clone(), 2);
    assert_eq!((agent.usage().clone(), agent.turns()), before, "those of its last run");
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let requests = setup.provider.requests();
    let texts = |index: usize| -> Vec<String> {
        requests[index].messages.iter().map(Message::text).collect()
    };
    assert!(!texts(1).contains(&"a secret".into()));
    // The turns of the restored conversation count for reminders. They are added at its third and fifth model call.
    assert!(texts(1).contains(&"brief".into()));
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let last = setup.provider.requests().pop().unwrap().messages;
    assert_eq!(last.iter().filter(|message| message.role == Role::System).count(), 2);
}

#[tokio::test]
async fn empty_session_is_an_empty_conversation() {
    let setup = setup(["Hello."]);
    let mut agent = setup.builder.build();
    agent.run_text("before", &ToolContext::default()).await.unwrap();
    let session = Session::new("s", ".".into());
    agent.restore_session(&session);
    assert!(agent.messages().is_empty());
    assert_eq!(agent.total_usage(), &TokenUsage::default());
    assert_eq!(agent.messages_since(&session), Some(&[][..]));
}
