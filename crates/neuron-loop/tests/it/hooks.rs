//! Dispatch of events to hooks. Every hook receives every event, and the strongest action wins. Every start event is
//! followed by one end event.

use neuron_loop::LoopError;
use neuron_testing::Reply;
use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook, TokenUsage, ToolContext};
use serde_json::json;

use crate::support::*;

fn skip(reason: &str) -> HookAction {
    HookAction::Skip { reason: reason.into() }
}

fn terminate(reason: &str) -> HookAction {
    HookAction::Terminate { reason: reason.into() }
}

#[tokio::test]
async fn all_hooks_receive_an_event_and_the_strongest_action_wins() {
    for (answers, expected) in [
        ([skip("a"), HookAction::Continue, skip("b")], Ok("c0: a")),
        ([HookAction::Continue, skip("b"), HookAction::Continue], Ok("c0: b")),
        ([skip("a"), terminate("t"), terminate("u")], Err("terminated by hook: t")),
    ] {
        let setup = setup([calls([json!({})]), Reply::text("done")]);
        let hooks = answers.map(|action| Recorder::answering("PreTool", action));
        let mut builder = setup.builder;
        for hook in &hooks {
            builder = builder.hook(hook.clone());
        }
        let mut agent = builder.build();
        let result = agent.run_text("go", &ToolContext::default()).await;
        assert_eq!(setup.log.count("start"), 0);
        match (expected, result) {
            (Ok(text), Ok(result)) => assert_eq!(last_results(&result.messages), [text]),
            (Err(text), Err(error)) => assert_eq!(error.to_string(), text),
            other => panic!("{other:?}"),
        }
        for hook in &hooks {
            assert_eq!(hook.log.lines(), hooks[0].log.lines());
            check_pairs(&hook.log.lines());
        }
    }
}

#[tokio::test]
async fn skip_only_affects_tool_calls() {
    for event in ["SessionStart", "RunStart", "Turn", "PreLlm", "PostLlm", "PostTool", "RunEnd"] {
        let setup = setup([calls([json!({"text": "ran"})]), Reply::text("done")]);
        let mut agent = setup.builder.hook(Recorder::answering(event, skip("no"))).build();
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(last_results(&result.messages), ["c0: ran"], "{event}");
    }
}

#[tokio::test]
async fn terminate_at_any_event_stops_the_run_without_further_work() {
    for (event, calls_made, tools_run) in [
        ("SessionStart", 0, 0),
        ("RunStart", 0, 0),
        ("Turn 0", 0, 0),
        ("PreLlm", 0, 0),
        ("PostLlm", 1, 0),
        ("PreTool act c0", 1, 0),
        ("PreTool act c1", 1, 1),
        ("PostTool act c0", 1, 1),
        ("Turn 1", 1, 2),
    ] {
        for way in WAYS {
            let setup = setup([calls([json!({}), json!({})]), Reply::text("done")]);
            let hook = Recorder::answering(event, terminate("enough"));
            let mut agent = setup.builder.hook(hook.clone()).build();
            let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
            assert_eq!(error, "terminated by hook: enough", "{event}");
            assert_eq!((setup.provider.calls(), setup.log.count("start")), (calls_made, tools_run));
            check_valid(agent.messages());
            check_pairs(&hook.log.lines());
            assert_eq!(hook.log.lines().last().unwrap(), "SessionEnd ");
            let ended = hook.log.count("RunEnd terminated by hook: enough");
            assert_eq!(ended, usize::from(event != "SessionStart"));
            if event == "PostLlm" {
                assert_eq!(agent.messages().len(), 1, "a rejected answer is not kept");
                assert!(agent.usage().output_tokens > 0, "but it was paid for");
            }
            if event == "PostTool act c0" {
                assert_eq!(
                    last_results(agent.messages()),
                    ["c0: ok", "c1: ![not executed: terminated by hook: enough]"],
                    "the finished pair is kept"
                );
            }
        }
    }
}

#[tokio::test]
async fn terminate_among_parallel_calls_starts_no_call() {
    let setup = setup([calls([json!({}), json!({}), json!({})])]);
    let hook = Recorder::answering("PreTool act c1", terminate("no"));
    let mut agent = setup.builder.parallel_tool_execution(true).hook(hook.clone()).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    assert!(matches!(error, LoopError::HookTerminated(_)));
    assert_eq!(setup.log.lines(), Vec::<String>::new());
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
}

#[tokio::test]
async fn hook_error_is_logged_and_the_run_continues() {
    struct Fails;
    impl ObservabilityHook for Fails {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Err(HookError::Failed("no connection".into()))
        }
    }
    let setup = setup([calls([json!({})]), Reply::text("done")]);
    let after = Recorder::default();
    let mut agent = setup.builder.hook(Fails).hook(after.clone()).build();
    assert_eq!(agent.run_text("go", &ToolContext::default()).await.unwrap().response, "done");
    assert_eq!(after.log.count("PostTool"), 1);
}

#[tokio::test]
async fn hook_scope_names_run_turn_and_call() {
    struct Where(Log);
    impl ObservabilityHook for Where {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            unreachable!()
        }
        async fn on_event_in(
            &self,
            _: HookEvent<'_>,
            scope: &neuron_types::HookScope<'_>,
        ) -> Result<HookAction, HookError> {
            assert_eq!((scope.provider, scope.model), ("scripted", "scripted-model"));
            assert!(!scope.replaying);
            self.0.push(format!("{} {} {:?}", scope.run_id, scope.turn, scope.call_id));
            Ok(HookAction::Continue)
        }
    }
    let setup = setup([calls([json!({})]), Reply::text("done")]);
    let log = Log::default();
    let mut agent = setup.builder.hook(Where(log.clone())).build();
    agent.run_text("a", &ToolContext::default()).await.unwrap();
    let ids: std::collections::HashSet<_> =
        log.lines().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 1, "one run");
    assert!(ids.iter().all(|id| id.starts_with("run-")));
    assert_eq!(log.count(r#"0 Some("c0")"#), 2);
}

#[tokio::test]
async fn terminate_after_a_skipped_call_starts_no_further_call() {
    let setup = setup([calls([json!({}), json!({}), json!({})])]);
    let hook = Recorder {
        answers: vec![("PreTool act c1", skip("no")), ("PostTool act c1", terminate("enough"))],
        ..Default::default()
    };
    let mut agent = setup.builder.parallel_tool_execution(true).hook(hook.clone()).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    assert_eq!(setup.log.lines(), Vec::<String>::new());
    let why = "![not executed: terminated by hook: enough]";
    assert_eq!(
        last_results(agent.messages()),
        [format!("c0: {why}"), "c1: no".to_owned(), format!("c2: {why}")]
    );
    check_pairs(&hook.log.lines());
}

/// Regression test. A hook that handles `FirstChunk` must finish even if the run is cancelled meanwhile. Before the
/// fix, the hook was dropped and the response was lost, although the provider charged for it.
#[tokio::test(start_paused = true)]
async fn hook_finishes_first_chunk_despite_cancel_and_may_end_the_run() {
    for way in WAYS {
        let setup = setup([Reply::text("whole")]);
        let hook = Recorder::answering("FirstChunk", terminate("not like this"));
        let mut agent = setup.builder.hook(hook.clone()).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(error, "terminated by hook: not like this");
        assert_eq!(agent.messages().len(), 1, "nothing of the answer is kept");
        assert_eq!(hook.log.count("LlmError terminated by hook: not like this"), 1, "{way:?}");
        check_pairs(&hook.log.lines());
    }
    struct Slow(Log);
    impl ObservabilityHook for Slow {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            if let HookEvent::FirstChunk = event {
                self.0.push("begun");
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
                self.0.push("ended");
            }
            Ok(HookAction::Continue)
        }
    }
    for way in WAYS {
        let log = Log::default();
        let setup = setup([Reply::text("whole")]);
        let mut agent = setup.builder.hook(Slow(log.clone())).build();
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        let cancel = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            token.cancel();
        };
        let (_, ()) = tokio::join!(run(way, &mut agent, &ctx), cancel);
        assert_eq!(log.lines(), ["begun", "ended"], "{way:?}");
    }
}

/// Regression test. If a hook rejects a complete response at `FirstChunk`, its tokens count, because the provider
/// charges for them. Before the fix, they counted neither in the usage nor for the limits.
#[tokio::test]
async fn response_rejected_at_its_first_chunk_counts_its_tokens() {
    for way in [Way::Run, Way::Step] {
        let usage = TokenUsage { input_tokens: 70, output_tokens: 7, ..Default::default() };
        let setup = setup([Reply::text("whole").usage(usage.clone())]);
        let hook = Recorder::answering("FirstChunk", terminate("not like this"));
        let mut agent = setup.builder.hook(hook).build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!((agent.usage(), agent.turns()), (&usage, 0), "{way:?}");
        assert_eq!(agent.total_usage(), &usage, "{way:?}");
    }
}

/// A hook that returns an error at each event whose debug text starts with `event`.
struct Failing {
    event: &'static str,
}

impl ObservabilityHook for Failing {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        match format!("{event:?}").starts_with(self.event) {
            true => Err(HookError::Failed("no connection".into())),
            false => Ok(HookAction::Continue),
        }
    }
}

#[tokio::test]
async fn failing_hook_at_any_event_does_not_end_the_run() {
    for event in ["PreLlmCall", "PostLlmCall", "PreToolExecution", "PostTool"] {
        for way in WAYS {
            let setup = setup([calls([json!({})]), Reply::text("done")]);
            let recorder = Recorder::default();
            let builder = setup.builder.hook(recorder.clone());
            let mut agent = builder.hook(Failing { event }).build();
            let ended = run(way, &mut agent, &ToolContext::default()).await;
            assert_eq!(ended.unwrap().response, "done");
            check_pairs(&recorder.log.lines());
            check_valid(agent.messages());
        }
    }
}
