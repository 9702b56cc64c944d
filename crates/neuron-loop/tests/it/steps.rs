//! Runs that are driven step by step, and steps whose future is dropped before they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neuron_loop::{AgentLoop, LoopError, TurnResult};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContentBlock, HookAction, HookError, HookEvent, HookScope, Message, ObservabilityHook, Role,
    ToolContext,
};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// Regression test. A step is dropped, and a later step has calls with the same ids. Before the fix, the later step
/// returned results of the dropped step.
#[tokio::test(start_paused = true)]
async fn step_after_a_dropped_step_finishes_the_batch_with_its_own_results() {
    let setup = setup([
        calls([json!({"text": "old"}), json!({"hang": true})]),
        calls([json!({"text": "new"})]),
    ]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    timeout(SECOND, steps.next()).await.unwrap_err();
    assert_eq!(last_results(steps.messages())[0], "c0: old", "what finished is kept");
    let unknown = "[interrupted: the run was interrupted; whether the call took effect is unknown]";
    for expected in [&["old", unknown][..], &["new"]] {
        let Some(Ok(Step::Tools { results, .. })) = steps.next().await else {
            panic!("the next step")
        };
        let texts: Vec<_> = results.iter().map(|output| output.content[0].to_string()).collect();
        assert_eq!(texts, expected);
    }
}

/// A hook that takes one second to handle the first event whose log line starts with the given prefix.
struct SlowAt(&'static str, AtomicBool, Recorder);

impl SlowAt {
    fn new(line: &'static str, recorder: &Recorder) -> Self {
        Self(line, AtomicBool::new(true), recorder.clone())
    }
}

impl ObservabilityHook for SlowAt {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let action = self.2.on_event_in(event, scope).await;
        let is_here = self.2.log.lines().last().unwrap().starts_with(self.0);
        if is_here && self.1.swap(false, Ordering::SeqCst) {
            sleep(2 * SECOND).await;
        }
        action
    }
}

/// Regression test. A step is dropped while the hooks are notified of the end of the run. Before the fix, the response
/// of the run was lost.
#[tokio::test(start_paused = true)]
async fn outcome_of_a_dropped_step_is_returned_by_the_next() {
    for event in ["RunEnd", "SessionEnd"] {
        let setup = setup([Reply::text("done")]);
        let recorder = Recorder::default();
        let mut agent = setup.builder.hook(SlowAt::new(event, &recorder)).build();
        let ctx = ToolContext::default();
        let mut steps = agent.run_step(Message::user("go"), &ctx);
        timeout(SECOND, steps.next()).await.unwrap_err();
        let Some(Ok(Step::Ended(result))) = steps.next().await else {
            panic!("the outcome, {event}")
        };
        assert_eq!(result.response, "done");
        assert!(steps.next().await.is_none());
        assert_eq!(recorder.log.count("RunEnd"), 1);
    }
}

/// Regression test. The first step is dropped while a hook handles `SessionStart`. The hooks must still receive exactly
/// one event for the start of the run. Before the fix, they received none.
#[tokio::test(start_paused = true)]
async fn run_is_announced_after_a_dropped_first_step() {
    let setup = setup([Reply::text("done")]);
    let recorder = Recorder::default();
    let mut agent = setup.builder.hook(SlowAt::new("SessionStart", &recorder)).build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    timeout(SECOND, steps.next()).await.unwrap_err();
    assert!(matches!(steps.next().await, Some(Ok(Step::Ended(_)))));
    assert_eq!((recorder.log.count("RunStart"), recorder.log.count("RunEnd")), (1, 1));
    check_pairs(&recorder.log.lines());
}

#[tokio::test]
async fn usage_can_be_read_between_steps() {
    let setup = setup([calls([json!({})]), Reply::text("done")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    steps.next().await;
    assert_eq!(steps.turns(), 1);
    assert!(steps.usage().total_tokens() > 0);
}

/// Regression test. Before the fix, an invalid history stayed invalid until the next turn began.
#[tokio::test]
async fn history_is_valid_immediately_after_an_invalid_message() {
    let lost = ContentBlock::ToolUse { id: "lost".into(), name: "act".into(), input: json!({}) };
    let odd = [
        Message { role: Role::Assistant, content: vec![lost.clone()] },
        Message { role: Role::User, content: vec![lost] },
        Message {
            role: Role::User,
            content: vec![ContentBlock::ToolResult {
                tool_use_id: "none".into(),
                content: vec![],
                is_error: false,
            }],
        },
        Message::assistant("I begin"),
        Message::system("s"),
    ];
    for message in odd {
        let setup = setup([calls([json!({})]), Reply::text("done")]);
        let mut agent = setup.builder.build();
        let cancelled = ToolContext::default();
        cancelled.cancellation_token.cancel();
        let error = agent.run(message.clone(), &cancelled).await.unwrap_err();
        assert!(matches!(error, LoopError::Cancelled));
        neuron_types::transcript::validate(agent.messages()).unwrap();
        let ctx = ToolContext::default();
        {
            let mut steps = agent.run_step(Message::user("go"), &ctx);
            steps.inject_message(message.clone());
            neuron_types::transcript::validate(steps.messages()).unwrap();
            assert!(matches!(steps.next().await, Some(Ok(Step::Tools { .. }))));
            steps.inject_message(message);
        }
        neuron_types::transcript::validate(agent.messages()).unwrap();
        let result = agent.run_text("go", &ctx).await.unwrap();
        neuron_types::transcript::validate(&result.messages).unwrap();
    }
}

/// Regression test. Before the fix, the conversation was empty before the first turn.
#[tokio::test]
async fn conversation_shows_the_message_and_what_was_injected_before_the_first_turn() {
    let (provider, ctx) = (ScriptedProvider::new(["done"]), ToolContext::default());
    let mut agent = AgentLoop::builder(provider.clone(), window()).build();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    assert_eq!(steps.messages(), [Message::user("go")]);
    steps.inject_message(Message::user("quickly"));
    let expected = [Message::user("go"), Message::user("quickly")];
    assert_eq!(steps.messages(), expected);
    assert!(matches!(steps.next().await, Some(TurnResult::FinalResponse(_))));
    assert_eq!(provider.requests()[0].messages, expected);
    assert!(steps.next().await.is_none());
    // Dropped before its first turn, it leaves the message for the next run.
    drop(steps);
    drop(agent.run_step(Message::user("and?"), &ctx));
    assert_eq!(agent.messages().last(), Some(&Message::user("and?")));
}
