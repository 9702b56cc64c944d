//! Tests of `RetryLimit` and `RetryInvalidInput`.

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::{RetryInvalidInput, RetryLimit};
use neuron_types::{ToolContext, ToolError, ToolOutput};
use serde_json::json;

use crate::support::{registry, run, shown, tool};

/// Creates a registry with tools whose arguments choose the result of the call.
fn tools() -> ToolRegistry {
    let ends = |name| {
        tool(name, |input| match input["end"].as_str().unwrap() {
            "retry" => Err(ToolError::ModelRetry("use another".into())),
            "invalid" => Err(ToolError::InvalidInput("no".into())),
            "fail" => Err(ToolError::ExecutionFailed("broken".into())),
            _ => Ok(ToolOutput::text("done")),
        })
    };
    registry([ends("a"), ends("b")])
}

async fn end(registry: &ToolRegistry, name: &str, end: &str) -> String {
    shown(&run(registry, name, json!({ "end": end })).await)
}

const GIVEN_UP: &str =
    "invalid input: `a` was called wrongly 3 times in a row; the last time: use another";

#[tokio::test]
async fn limit_allows_one_more_attempt_than_retries_and_then_resets() {
    let mut registry = tools();
    registry.add_middleware(RetryLimit::new(2));
    for _ in 0..2 {
        assert_eq!(end(&registry, "a", "retry").await, "retry: use another");
        assert_eq!(end(&registry, "a", "retry").await, "retry: use another");
        // Other tools have their own counters, and other errors do not change the counter.
        assert_eq!(end(&registry, "b", "retry").await, "retry: use another");
        assert_eq!(end(&registry, "a", "fail").await, "execution failed: broken");
        assert_eq!(end(&registry, "a", "retry").await, GIVEN_UP);
        assert_eq!(end(&registry, "b", "ok").await, "done");
    }
}

#[tokio::test]
async fn success_resets_the_counter() {
    let mut registry = tools();
    registry.add_middleware(RetryLimit::new(2));
    for _ in 0..5 {
        assert_eq!(end(&registry, "a", "retry").await, "retry: use another");
        assert_eq!(end(&registry, "a", "retry").await, "retry: use another");
        assert_eq!(end(&registry, "a", "ok").await, "done");
    }
}

#[tokio::test]
async fn zero_retries_end_the_run_at_the_first_error() {
    let mut registry = tools();
    registry.add_middleware(RetryLimit::new(0));
    assert_eq!(end(&registry, "a", "retry").await, "invalid input: use another");
}

#[tokio::test]
async fn conversations_have_separate_counters() {
    let mut registry = tools();
    registry.add_middleware(RetryLimit::new(1));
    let ctx = |session: &str, run: &str| ToolContext {
        session_id: session.into(),
        run_id: run.into(),
        ..ToolContext::default()
    };
    for (session, run, is_retry) in [
        ("s1", "r1", true),
        ("s2", "r1", true),
        ("", "r1", true),
        ("", "r2", true),
        // All runs of a session share the counter.
        ("s1", "r2", false),
        ("s2", "r1", false),
        ("", "r2", false),
        ("", "r1", false),
    ] {
        let result =
            registry.execute("a", json!({ "end": "retry" }), &ctx(session, run)).await.unwrap_err();
        assert_eq!(matches!(result, ToolError::ModelRetry(_)), is_retry, "{session} {run}");
    }
}

#[tokio::test]
async fn invalid_input_becomes_a_limited_retry() {
    let mut registry = tools();
    registry.add_middleware(RetryInvalidInput::new(1));
    assert_eq!(end(&registry, "a", "invalid").await, "retry: no");
    assert_eq!(end(&registry, "a", "fail").await, "execution failed: broken");
    assert_eq!(
        end(&registry, "a", "invalid").await,
        "invalid input: `a` was called wrongly 2 times in a row; the last time: no"
    );
}

/// Several invalid calls in one response must count as one retry. Regression test. Each call was counted, so the run
/// ended before the model could correct its calls.
#[tokio::test]
async fn calls_of_one_response_count_once() {
    let mut registry = tools();
    registry.add_middleware(RetryLimit::new(2));
    let ctx = |run: &str, turn: usize| ToolContext {
        session_id: "s".into(),
        run_id: run.into(),
        turn: Some(turn),
        ..ToolContext::default()
    };
    for (name, end, run, turn, is_retry) in [
        ("a", "retry", "r1", 0, true),
        ("a", "retry", "r1", 0, true),
        ("a", "retry", "r1", 0, true),
        // The same turn number in another run of the session is another response.
        ("a", "retry", "r2", 0, true),
        ("a", "retry", "r2", 0, true),
        ("b", "retry", "r2", 0, true),
        ("a", "retry", "r2", 1, false),
        // The counter was reset before this call.
        ("a", "retry", "r2", 2, true),
        ("a", "ok", "r2", 2, false),
        ("a", "retry", "r2", 2, true),
        ("a", "retry", "r2", 3, true),
        ("a", "retry", "r2", 4, false),
    ] {
        let result = registry.execute(name, json!({ "end": end }), &ctx(run, turn)).await;
        assert_eq!(
            matches!(result, Err(ToolError::ModelRetry(_))),
            is_retry,
            "{name} {run} {turn}"
        );
    }
}
