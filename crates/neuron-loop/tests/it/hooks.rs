//! Dispatch of events to hooks. Every hook receives every event, and the strongest action wins. Every start event is
//! followed by one end event.

use neuron_testing::Reply;
use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook, ToolContext};
use serde_json::json;

use crate::support::*;

fn skip(reason: &str) -> HookAction {
    HookAction::Skip { reason: reason.into() }
}

fn terminate(reason: &str) -> HookAction {
    HookAction::Terminate { reason: reason.into() }
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
