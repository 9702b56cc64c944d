//! Tests of `TimeoutMiddleware` with a paused clock.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::TimeoutMiddleware;
use neuron_types::{ToolContext, ToolEffect, ToolError, ToolOutput};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{async_tool, definition, registry, run, shown};

/// The cancellation token that the last call received.
type Seen = Arc<Mutex<Option<CancellationToken>>>;

/// Creates a registry with tools whose argument is their running time in seconds. Also returns a variable with the
/// cancellation token of the last call.
fn slow(names: &[&str]) -> (ToolRegistry, Seen) {
    let seen = Seen::default();
    let tools = names.iter().map(|name| {
        let seen = seen.clone();
        async_tool(definition(name), ToolEffect::AtMostOnce, move |input, ctx| {
            *seen.lock().unwrap() = Some(ctx.cancellation_token.clone());
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(input["seconds"].as_u64().unwrap())).await;
                Ok(ToolOutput::text("done"))
            })
        })
    });
    (registry(tools), seen)
}

fn timeouts() -> TimeoutMiddleware {
    TimeoutMiddleware::new(Duration::from_millis(2500))
        .with_tool_timeout("slow_search", Duration::from_secs(120))
}

#[tokio::test(start_paused = true)]
async fn each_tool_has_its_timeout_and_the_error_names_it() {
    let (mut registry, seen) = slow(&["fast", "slow_search"]);
    registry.add_middleware(timeouts());
    let start = tokio::time::Instant::now();
    let is_cancelled = || seen.lock().unwrap().as_ref().unwrap().is_cancelled();
    for (name, seconds, expected, took) in [
        ("fast", 2, "done", 2000),
        ("fast", 3, "execution failed: `fast` exceeded its time limit of 2.5s", 4500),
        ("slow_search", 119, "done", 123_500),
        (
            "slow_search",
            999,
            "execution failed: `slow_search` exceeded its time limit of 120s",
            243_500,
        ),
    ] {
        let result = run(&registry, name, json!({ "seconds": seconds })).await;
        assert_eq!(shown(&result), expected);
        assert_eq!(start.elapsed().as_millis(), took);
        assert_eq!(is_cancelled(), result.is_err(), "the tool's token");
        if let Err(ToolError::ExecutionFailed(source)) = result {
            let source = source.downcast::<io::Error>().unwrap();
            assert_eq!(source.kind(), io::ErrorKind::TimedOut);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn callers_token_cancels_the_tool_and_is_not_cancelled() {
    let (mut registry, seen) = slow(&["fast"]);
    registry.add_middleware(timeouts());
    let ctx = ToolContext::default();
    registry.execute("fast", json!({ "seconds": 9 }), &ctx).await.unwrap_err();
    assert!(!ctx.cancellation_token.is_cancelled());
    registry.execute("fast", json!({ "seconds": 1 }), &ctx).await.unwrap();
    let token = seen.lock().unwrap().clone().unwrap();
    assert!(!token.is_cancelled());
    ctx.cancellation_token.cancel();
    assert!(token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn dropped_call_cancels_the_tools_token() {
    let (mut registry, seen) = slow(&["fast"]);
    registry.add_middleware(timeouts());
    let ctx = ToolContext::default();
    let mut call = Box::pin(registry.execute("fast", json!({ "seconds": 1 }), &ctx));
    assert!(futures_util::poll!(&mut call).is_pending());
    drop(call);
    assert!(seen.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[test]
fn timeout_without_runtime_fails_before_the_start() {
    let (mut registry, seen) = slow(&["fast"]);
    registry.add_middleware(timeouts());
    let call = run(&registry, "fast", json!({ "seconds": 1 }));
    let result = futures_util::FutureExt::now_or_never(call).unwrap();
    assert_eq!(shown(&result), "execution failed: time limits need a tokio runtime");
    assert!(seen.lock().unwrap().is_none());
}
