//! The tool calls of one response. Covers their order, hints to the model, failures, and skipped or malformed calls.

use std::time::Duration;

use neuron_loop::{LoopConfig, LoopError};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContentBlock, HookAction, Message, StopReason, ToolCall, ToolContext, ToolError,
};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn results_keep_the_order_of_the_calls() {
    let setup = setup([
        calls([
            json!({"delay": 30, "text": "a"}),
            json!({"delay": 20, "text": "b"}),
            json!({"text": "c"}),
        ]),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.parallel_tool_execution(true).build();
    let started = tokio::time::Instant::now();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(30), "they ran together");
    assert_eq!(last_results(&result.messages), ["c0: a", "c1: b", "c2: c"]);
    assert_eq!(
        setup.log.lines(),
        ["start c0", "start c1", "start c2", "end c2", "end c1", "end c0"]
    );
    assert_eq!(result.messages.len(), 4, "one user message for the whole batch");
}

#[tokio::test(start_paused = true)]
async fn calls_run_sequentially_by_default() {
    let setup = setup([
        calls([json!({"delay": 30, "text": "a"}), json!({"text": "b"})]),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(setup.log.lines(), ["start c0", "end c0", "start c1", "end c1"]);
}

#[tokio::test]
async fn every_call_of_a_mixed_batch_has_one_result() {
    for parallel in [false, true] {
        let setup = setup([
            calls([json!({"text": "fine"}), json!({"retry": "try 2024-01-01"}), json!({})]),
            Reply::text("done"),
        ]);
        let skip = HookAction::Skip { reason: "skipped by policy".into() };
        let mut agent = setup
            .builder
            .parallel_tool_execution(parallel)
            .hook(Recorder::answering("PreTool act c2", skip))
            .build();
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(
            last_results(&result.messages),
            ["c0: fine", "c1: !try 2024-01-01", "c2: skipped by policy"]
        );
        assert_eq!(setup.log.count("start c2"), 0);
    }
}

#[tokio::test]
async fn failure_ends_the_run_and_later_calls_do_not_start() {
    let setup = setup([
        calls([json!({"text": "fine"}), json!({"fail": "disk full"}), json!({})]),
        Reply::text("recovered"),
    ]);
    let hook = Recorder::default();
    let mut agent = setup.builder.hook(hook.clone()).build();
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(
        matches!(&error, LoopError::Tool(ToolError::ExecutionFailed(e)) if e.to_string() == "disk full")
    );
    assert_eq!(
        last_results(agent.messages()),
        [
            "c0: fine",
            "c1: !execution failed: disk full",
            "c2: ![not executed: another tool call of the same answer failed]",
        ]
    );
    assert_eq!(setup.log.count("start"), 2);
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
    assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "recovered");
}

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

/// Regression test. After a tool call fails at its first poll, no queued call may begin. Before the fix, queued calls
/// still ran, although their results were not used.
#[tokio::test(start_paused = true)]
async fn call_that_fails_at_its_first_poll_starts_no_other_call() {
    let failing = || [json!({"fail": "no"}), json!({"text": "b"}), json!({"delay": 5})];
    let whole = || [json!({"text": "a"}), json!({"text": "b"}), json!({"delay": 5})];
    let terminate = HookAction::Terminate { reason: "enough".into() };
    let because_of_tool = "another tool call of the same answer failed";
    let because_of_hook = "terminated by hook: enough";
    for (inputs, first, why) in
        [(failing(), "!execution failed: no", because_of_tool), (whole(), "a", because_of_hook)]
    {
        for way in WAYS {
            let setup = setup([calls(inputs.clone())]);
            let hook = Recorder::answering("PostTool act c0", terminate.clone());
            let builder = setup.builder.parallel_tool_execution(true).hook(hook.clone());
            let mut agent = builder.build();
            run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
            assert_eq!(setup.log.lines(), ["start c0", "end c0"], "{way:?}");
            assert_eq!(
                last_results(agent.messages()),
                [
                    format!("c0: {first}"),
                    format!("c1: ![not executed: {why}]"),
                    format!("c2: ![not executed: {why}]"),
                ]
            );
            check_pairs(&hook.log.lines());
        }
    }
}

#[tokio::test]
async fn unknown_tool_ends_the_run_with_its_name() {
    let setup = setup([
        Reply::tool_call("c0", "get_wether", json!({"city": "Paris"})),
        Reply::text("recovered"),
    ]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert_eq!(error.to_string(), "tool error: tool not found: get_wether");
    assert_eq!(last_results(agent.messages()), ["c0: !tool not found: get_wether"]);
    assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "recovered");
}

#[tokio::test]
async fn duplicate_or_empty_call_ids_are_rejected_before_any_tool_runs() {
    for (ids, text) in [
        (["a", "a"], "two tool calls have the id `a`"),
        (["a", ""], "a call of the tool `act` has no id"),
    ] {
        for way in WAYS {
            let setup = setup([
                Reply::tool_calls(ids.map(|id| (id, "act", json!({})))),
                Reply::text("recovered"),
            ]);
            let hook = Recorder::default();
            let mut agent = setup.builder.hook(hook.clone()).build();
            let ctx = ToolContext::default();
            let error = run(way, &mut agent, &ctx).await.unwrap_err();
            assert!(error.contains(text), "{error}");
            assert_eq!(setup.log.lines(), Vec::<String>::new());
            assert_eq!(agent.messages(), [Message::user("go")]);
            assert!(agent.usage().input_tokens > 0, "the answer was paid for");
            check_pairs(&hook.log.lines());
            assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
        }
    }
}

#[tokio::test]
async fn response_with_a_tool_result_is_rejected() {
    let result =
        ContentBlock::ToolResult { tool_use_id: "c0".into(), content: vec![], is_error: false };
    let setup = setup([Reply::message(vec![result]), Reply::text("recovered")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(error.to_string().contains("it holds a tool result"), "{error}");
    assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
    check_valid(agent.messages());
}

fn cut_off() -> Vec<ContentBlock> {
    let call = |id: &str, input| ContentBlock::ToolUse { id: id.into(), name: "act".into(), input };
    vec![
        call("c0", json!({"text": "whole"})),
        call("c1", ToolCall::invalid_json_input(r#"{"text": "ha"#)),
    ]
}

#[tokio::test]
async fn response_cut_off_within_arguments_runs_nothing() {
    for reason in [StopReason::MaxTokens, StopReason::ContentFilter] {
        for way in WAYS {
            let setup = setup([
                Reply::message(cut_off()).stop_reason(reason.clone()),
                Reply::text("recovered"),
            ]);
            let mut agent = setup.builder.build();
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            assert_eq!(result.stop_reason, reason);
            assert_eq!(setup.log.lines(), Vec::<String>::new());
            let why = "![not executed: the model's answer was cut off within the arguments of a tool call]";
            assert_eq!(
                last_results(&result.messages),
                [format!("c0: {why}"), format!("c1: {why}")]
            );
            check_valid(&result.messages);
            assert_eq!(result.messages[1].content, cut_off(), "the raw text is kept");
            assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
        }
    }
}

#[tokio::test]
async fn complete_calls_of_a_response_cut_off_later_run() {
    let setup = setup([
        calls([json!({"text": "a"})]).stop_reason(StopReason::MaxTokens),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(&result.messages), ["c0: a"]);
}

#[tokio::test]
async fn malformed_arguments_are_an_error_that_shows_them() {
    for way in WAYS {
        let setup = setup([
            Reply::message(cut_off()).stop_reason(StopReason::ToolUse),
            Reply::text("recovered"),
        ]);
        let mut agent = setup.builder.build();
        let ctx = ToolContext::default();
        let error = run(way, &mut agent, &ctx).await.unwrap_err();
        assert_eq!(
            error,
            r#"tool error: invalid input: the arguments of `act` are not JSON (EOF while parsing a string at line 1 column 12): {"text": "ha"#
        );
        assert_eq!(setup.log.lines(), Vec::<String>::new());
        assert_eq!(
            last_results(agent.messages()),
            [
                "c0: ![not executed: another tool call of the same answer failed]",
                r#"c1: !invalid input: the arguments of `act` are not JSON (EOF while parsing a string at line 1 column 12): {"text": "ha"#,
            ]
        );
        assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
    }
}

#[tokio::test]
async fn calls_run_for_every_other_stop_reason() {
    for reason in [StopReason::EndTurn, StopReason::Other("stop".into()), StopReason::PauseTurn] {
        for way in WAYS {
            let setup = setup([
                calls([json!({"text": "a"})])
                    .with_text("I am done? No.")
                    .stop_reason(reason.clone()),
                Reply::text("done"),
            ]);
            let mut agent = setup.builder.build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!((last_results(&result.messages), result.turns), (vec!["c0: a".into()], 2));
        }
    }
}

#[tokio::test]
async fn calls_of_a_refused_response_do_not_run() {
    let setup = setup([calls([json!({})]).stop_reason(StopReason::Refusal)]);
    let mut agent = setup.builder.build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::Refusal);
    assert_eq!(last_results(&result.messages), ["c0: ![not executed: the model refused to go on]"]);
    assert_eq!(setup.log.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn tool_call_with_extra_fields_runs() {
    let raw = ContentBlock::Raw {
        provider: "anthropic".into(),
        json: json!({"type": "tool_use", "id": "c0", "name": "act", "input": {}, "caller": "x"}),
        portable: Some(Box::new(ContentBlock::ToolUse {
            id: "c0".into(),
            name: "act".into(),
            input: json!({"text": "raw"}),
        })),
    };
    let provider = ScriptedProvider::new([Reply::message(vec![raw]), Reply::text("done")]);
    let log = Log::default();
    let mut agent = Chat::builder(provider, window()).tools(registry(&log)).build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(&result.messages), ["c0: raw"]);
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

#[tokio::test(start_paused = true)]
async fn panic_in_a_tool_fails_only_that_call() {
    for way in WAYS {
        for parallel in [false, true] {
            let setup = setup([
                calls([
                    json!({"delay": 10, "text": "a"}),
                    json!({"delay": 1, "panic": true}),
                    json!({"delay": 10, "text": "c"}),
                ]),
                Reply::text("after"),
            ]);
            let mut agent = setup.builder.parallel_tool_execution(parallel).build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "after");
            assert_eq!(
                last_results(agent.messages()),
                [
                    "c0: a",
                    "c1: !`act` failed unexpectedly; whether the call took effect is unknown",
                    "c2: c"
                ],
                "{way:?}, parallel: {parallel}"
            );
            check_valid(agent.messages());
        }
    }
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

/// Regression test. A response is cut off or refused, so its tool calls must not run. Its text must still be the final
/// response of the run, although results of its calls follow in the history.
#[tokio::test]
async fn response_whose_calls_must_not_run_keeps_its_text() {
    let cut = calls([ToolCall::invalid_json_input("{")]).stop_reason(StopReason::MaxTokens);
    for reply in [cut, calls([json!({})]).stop_reason(StopReason::Refusal)] {
        let reply = reply.with_text("I cannot do that.");
        for way in WAYS {
            let mut agent = setup([reply.clone()]).builder.build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "I cannot do that.", "{way:?}");
        }
    }
}

/// Regression test. Before the fix, an agent's second run had the idempotency keys of its first.
#[tokio::test]
async fn calls_of_different_runs_have_different_keys() {
    let setup =
        setup([calls([json!({})]), Reply::text("one"), calls([json!({})]), Reply::text("two")]);
    let keys = Log::default();
    let mut tools = registry(&setup.log);
    let note = keys.clone();
    tools.add_middleware(neuron_tool::tool_middleware_fn(move |call, ctx, next| {
        note.push(&ctx.idempotency_key);
        next.run(call, ctx)
    }));
    let mut agent = setup.builder.tools(tools).build();
    let ctx = ToolContext { run_id: "r".into(), ..Default::default() };
    agent.run_text("a", &ctx).await.unwrap();
    agent.run_text("b", &ctx).await.unwrap();
    assert_eq!(keys.lines(), ["r/0/0/0/c0", "r/1/0/0/c0"]);
}

/// A tool can have an argument named `invalid_json`. The loop uses the same name to store arguments that are not JSON,
/// and must not confuse the two.
#[tokio::test]
async fn tool_with_an_argument_called_invalid_json_runs() {
    struct Lint;
    impl neuron_types::ToolDyn for Lint {
        fn name(&self) -> &str {
            "lint"
        }
        fn definition(&self) -> neuron_types::ToolDefinition {
            let act = neuron_types::ToolDyn::definition(&Act { name: "lint", log: Log::default() });
            let input_schema = json!({"properties": {"invalid_json": {"type": "string"}}});
            neuron_types::ToolDefinition { input_schema, ..act }
        }
        fn call_dyn<'a>(
            &'a self,
            input: serde_json::Value,
            _: &'a ToolContext,
        ) -> neuron_types::WasmBoxedFuture<'a, Result<neuron_types::ToolOutput, ToolError>>
        {
            Box::pin(async move { Ok(neuron_types::ToolOutput::text(input.to_string())) })
        }
    }
    let setup =
        setup([Reply::tool_call("c0", "lint", json!({"invalid_json": "{"})), Reply::text("done")]);
    let mut tools = registry(&setup.log);
    tools.register_dyn(std::sync::Arc::new(Lint));
    let mut agent = setup.builder.tools(tools).build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(&result.messages), [r#"c0: {"invalid_json":"{"}"#]);
}
