//! Single runs from start to end, each awaited, streamed and stepped, and several runs in a row.

use neuron_loop::{Agent, Conversation};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    AgentResult, AnswerMetadata, ContentBlock, HookAction, Message, Role, StopReason, SystemPrompt,
    ToolContext,
};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn all_ways_agree_on_messages_usage_turns_and_events() {
    let replies = || {
        [
            calls([json!({"text": "one"}), json!({"retry": "use two"}), json!({"text": "x"})])
                .with_text("Let me see.")
                .thinking("hmm", "sig"),
            Reply::message(vec![ContentBlock::Compaction { content: "so far".into() }])
                .stop_reason(StopReason::Compaction),
            calls([json!({"text": "two"})]),
            Reply::text("All done, 日本 included."),
        ]
    };
    let mut seen: Vec<(AgentResult, Vec<String>)> = Vec::new();
    for way in WAYS {
        for parallel in [false, true] {
            let setup = setup(replies());
            let hook = Recorder::answering(
                "PreTool act c2",
                HookAction::Skip { reason: "not that one".into() },
            );
            let mut agent = setup
                .builder
                .parallel_tool_execution(parallel)
                .hook(hook.clone())
                .system_prompt("Be brief.")
                .build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(agent.messages(), result.messages);
            assert_eq!((agent.usage(), agent.turns()), (&result.usage, result.turns));
            check_valid(agent.messages());
            check_pairs(&hook.log.lines());
            setup.provider.assert_complete();
            let mut lines = hook.log.lines();
            if parallel {
                // With parallel calls, all `Pre…` events come first. Nothing else may differ.
                lines.sort();
            }
            seen.push((result, lines));
        }
    }
    let (sequential, parallel) = (&seen[0], &seen[1]);
    for pair in seen.chunks(2) {
        assert_eq!((&pair[0].0, &pair[0].1), (&sequential.0, &sequential.1));
        assert_eq!((&pair[1].0, &pair[1].1), (&parallel.0, &parallel.1));
    }
    assert_eq!(sequential.0, parallel.0);
    assert_eq!(sequential.0.turns, 4);
    assert_eq!(sequential.0.response, "All done, 日本 included.");
    assert_eq!(
        sequential.1,
        [
            "SessionStart ",
            "RunStart",
            "Turn 0",
            "PreLlm 1",
            "FirstChunk",
            "PostLlm ToolUse",
            r#"PreTool act c0 {"text":"one"}"#,
            "PostTool act c0 ok one",
            r#"PreTool act c1 {"retry":"use two"}"#,
            "PostTool act c1 error use two",
            r#"PreTool act c2 {"text":"x"}"#,
            "PostTool act c2 ok not that one",
            "Turn 1",
            "PreLlm 3",
            "FirstChunk",
            "PostLlm Compaction",
            "Turn 2",
            "PreLlm 4",
            "FirstChunk",
            "PostLlm ToolUse",
            r#"PreTool act c0 {"text":"two"}"#,
            "PostTool act c0 ok two",
            "Turn 3",
            "PreLlm 6",
            "FirstChunk",
            "PostLlm EndTurn",
            "RunEnd ok 4",
            "SessionEnd ",
        ]
    );
}

#[tokio::test]
async fn request_has_the_system_prompt_and_the_tools() {
    let setup = setup([Reply::text("hi")]);
    let mut agent = setup.builder.system_prompt("Be brief.").build();
    agent.run_text("hello", &ToolContext::default()).await.unwrap();
    let request = &setup.provider.requests()[0];
    assert_eq!(request.system, Some(SystemPrompt::Text("Be brief.".into())));
    assert_eq!(request.tools.len(), 1);
    assert_eq!(request.messages, [Message::user("hello")]);
    assert!(request.model.is_empty());
}

/// A response without content adds no message to the history, because providers reject a message without content.
#[tokio::test]
async fn empty_response_with_metadata_adds_no_message() {
    let mut metadata = AnswerMetadata::default();
    metadata.request_id = Some("req_1".into());
    let content =
        Message { role: Role::Assistant, content: Vec::new() }.with_metadata(&metadata).content;
    let setup = setup([Reply::message(content)]);
    let mut agent = setup.builder.max_turns(1).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(agent.messages(), [Message::user("go")]);
}

#[tokio::test]
async fn response_metadata_is_stored_with_the_conversation() {
    let mut metadata = AnswerMetadata::default();
    metadata.request_id = Some("req_1".into());
    let answer = Message { role: Role::Assistant, content: vec![ContentBlock::Text("hi".into())] };
    let content = answer.with_metadata(&metadata).content;
    let agent = Agent::builder(ScriptedProvider::new([Reply::message(content)])).build();
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").await.unwrap();
    let stored = serde_json::to_string(&chat).unwrap();
    let chat: Conversation = serde_json::from_str(&stored).unwrap();
    let answer = chat.messages().last().unwrap();
    assert_eq!((answer.text(), answer.metadata()), ("hi".into(), Some(metadata)));
}

#[tokio::test]
async fn empty_system_prompt_is_not_sent() {
    let provider = ScriptedProvider::new([Reply::text("hi")]);
    let mut agent = Chat::builder(provider.clone(), window()).max_turns(3).build();
    agent.run_text("hello", &ToolContext::default()).await.unwrap();
    assert_eq!(provider.requests()[0].system, None);
}

#[tokio::test]
async fn messages_and_tools_can_change_between_steps() {
    let setup = setup([calls([json!({"text": "a"})]), Reply::text("done")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("plan"), &ctx);
    let Some(Ok(Step::Tools { calls, results })) = steps.next().await else {
        panic!("tools first")
    };
    assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), ("c0", "act"));
    assert_eq!(calls[0].input, json!({"text": "a"}));
    assert_eq!(results[0].structured_content, Some(json!({"echo": "a"})));
    assert_eq!(steps.messages().len(), 3);
    steps.inject_message(Message::user("be quick"));
    let log = setup.log.clone();
    let more = std::sync::Arc::new(Act { name: "more", log });
    steps.change_tools(|tools| {
        tools.register_dyn(more);
    });
    let Some(Ok(Step::Ended(result))) = steps.next().await else { panic!("then the end") };
    assert_eq!(result.response, "done");
    assert!(steps.next().await.is_none() && steps.next().await.is_none());
    let requests = setup.provider.requests();
    assert_eq!((requests[0].tools.len(), requests[1].tools.len()), (1, 2));
    assert_eq!(requests[1].messages[3], Message::user("be quick"));
}

#[test]
fn runs_can_be_spawned_from_generic_code() {
    fn is_send<T: Send>(_: T) {}
    fn check(mut agent: Chat<'static>) {
        is_send(async move {
            let ctx = ToolContext::default();
            agent.run_text("a", &ctx).await.ok();
            drop(agent.run_stream(Message::user("b"), &ctx).await.recv().await);
            agent.run_step(Message::user("c"), &ctx).next().await;
            agent.into_stream(Message::user("d"), ctx.clone()).recv().await;
        });
    }
    check(setup([Reply::text("hi")]).builder.build());
}

/// Regression test. The future of `run_text` must not borrow its text. Before the fix, a call with a temporary text did
/// not compile.
#[tokio::test]
async fn run_text_does_not_borrow_its_text() {
    let mut agent = setup([Reply::text("4")]).builder.build();
    let ctx = ToolContext::default();
    let answer = agent.run_text(&format!("{} + {}", 2, 2), &ctx);
    let result = answer.await.unwrap();
    assert_eq!((result.response.as_str(), result.messages[0].text().as_str()), ("4", "2 + 2"));
}

#[tokio::test]
async fn continue_run_starts_without_a_new_message() {
    let overloaded = Reply::error(neuron_types::ProviderError::ServiceUnavailable("529".into()));
    let setup = setup([calls([json!({"text": "a"})]), overloaded, Reply::text("done")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap_err();
    let before = agent.messages().to_vec();
    let result = agent.continue_run(&ctx).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 1));
    assert!(agent.messages().starts_with(&before));
    assert_eq!(agent.messages().len(), before.len() + 1);
    // The conversation now ends with a response, so nothing is sent.
    let error = agent.continue_run(&ctx).await.unwrap_err();
    assert_eq!(error.kind(), "Provider");
    assert_eq!(setup.provider.calls(), 3);
    let mut empty = crate::support::setup([Reply::text("no")]).builder.build();
    empty.continue_run(&ctx).await.unwrap_err();
}
