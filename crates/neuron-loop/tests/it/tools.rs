//! The tool calls of one response. Covers their order, hints to the model, failures, and skipped or malformed calls.

use std::time::Duration;

use neuron_loop::{LoopConfig, LoopError};
use neuron_testing::Reply;
use neuron_types::{ToolCall, ToolContext, ToolError};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn calls_running_at_a_failure_are_cancelled_and_may_finish_within_the_grace_period() {
    let setup = setup([
        calls([
            json!({"delay": 10, "fail": "boom"}),
            json!({"delay": 1000, "text": "late but fine"}),
            json!({"cancelled": true}),
            json!({"hang": true}),
            json!({"text": "early"}),
        ]),
        Reply::text("recovered"),
    ]);
    let hook = Recorder::default();
    let mut agent = setup
        .builder
        .config(LoopConfig {
            tool_grace: Duration::from_secs(2),
            parallel_tool_execution: true,
            ..Default::default()
        })
        .hook(hook.clone())
        .build();
    let ctx = ToolContext::default();
    let started = tokio::time::Instant::now();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::Tool(ToolError::ExecutionFailed(_))), "the first: {error}");
    assert_eq!(started.elapsed(), Duration::from_millis(2010), "no longer than the grace");
    assert_eq!(
        last_results(agent.messages()),
        [
            "c0: !execution failed: boom",
            "c1: late but fine",
            "c2: !cancelled",
            "c3: ![interrupted: another tool call of the same answer failed; whether the call took effect is unknown]",
            "c4: early",
        ]
    );
    assert_eq!((setup.log.count("told c2"), setup.log.count("dropped c3")), (1, 1));
    assert!(!ctx.cancellation_token.is_cancelled(), "only the batch was cancelled");
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
    assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "recovered");
}

/// Regression test. Before the fix, the model was told that arguments which were only nested too deeply were not JSON.
#[tokio::test]
async fn too_deeply_nested_arguments_have_their_own_error() {
    let input = ToolCall::parse_input(&format!("{}{}", "[".repeat(200), "]".repeat(200)));
    let mut agent = setup([calls([input])]).builder.build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err().to_string();
    assert!(error.contains("(recursion limit exceeded at line 1 column 128)"), "{error}");
}

#[tokio::test]
async fn each_call_context_has_its_id_key_turn_and_run() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let setup = setup([calls([json!({}), json!({})]), calls([json!({})]), Reply::text("done")]);
    let mut tools = registry(&setup.log);
    let note = seen.clone();
    tools.add_middleware(neuron_tool::tool_middleware_fn(move |call, ctx, next| {
        let keys = (call.id.clone(), ctx.idempotency_key.clone(), ctx.run_id.clone());
        note.lock().unwrap().push((keys, ctx.turn));
        next.run(call, ctx)
    }));
    let mut agent = setup.builder.tools(tools).build();
    let ctx = ToolContext { run_id: "r".into(), ..Default::default() };
    agent.run_text("go", &ctx).await.unwrap();
    let key =
        |id: &str, key: &str, turn| ((id.to_owned(), key.to_owned(), "r".to_owned()), Some(turn));
    assert_eq!(
        *seen.lock().unwrap(),
        [key("c0", "r/0/0/0/c0", 0), key("c1", "r/0/0/1/c1", 0), key("c0", "r/0/1/0/c0", 1)]
    );
}

/// Regression test. Several invalid calls in one response must use only one of the model's retries. Before the fix,
/// three such calls used up all retries before the model received any result.
#[tokio::test]
async fn tool_retries_are_counted_per_response() {
    let wrong = || calls(vec![json!({"retry": "use another"}); 3]);
    for way in WAYS {
        for parallel in [false, true] {
            let agent = |setup: Setup| {
                let mut tools = registry(&setup.log);
                tools.add_middleware(neuron_tool::builtin::RetryLimit::new(2));
                setup.builder.tools(tools).parallel_tool_execution(parallel).build()
            };
            let right = calls([json!({"text": "a"})]);
            let replies = [wrong(), wrong(), right, wrong(), wrong(), Reply::text("done")];
            let mut patient = agent(setup(replies));
            let result = run(way, &mut patient, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "done", "{way:?}, parallel: {parallel}");

            let mut at_its_end = agent(setup([wrong(), wrong(), wrong()]));
            let error = run(way, &mut at_its_end, &ToolContext::default()).await.unwrap_err();
            assert!(error.contains("`act` was called wrongly 3 times in a row"), "{error}");
            check_valid(at_its_end.messages());
        }
    }
}
