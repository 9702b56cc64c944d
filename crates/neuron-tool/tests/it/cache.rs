//! Tests of `ToolCache` with a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::ToolCache;
use neuron_types::{ToolContext, ToolEffect, ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::support::{async_tool, definition, registry};

/// Creates a registry with tools of every effect, behind `cache`. A tool that runs returns how many tools ran before
/// it. The argument `waits` is a delay in seconds.
fn counting(cache: ToolCache) -> ToolRegistry {
    let count = Arc::new(AtomicUsize::new(0));
    let tool = |name, effect| {
        let count = count.clone();
        async_tool(definition(name), effect, move |input, _| {
            let count = count.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                if let Some(waits) = input["waits"].as_u64() {
                    tokio::time::sleep(Duration::from_secs(waits)).await;
                }
                match input["end"].as_str() {
                    Some("fail") => Err(ToolError::ModelRetry("again".into())),
                    Some("error") => Ok(ToolOutput::error(count.to_string())),
                    _ => Ok(ToolOutput::text(count.to_string())),
                }
            })
        })
    };
    let mut registry = registry([
        tool("pure", ToolEffect::Pure),
        tool("other", ToolEffect::Pure),
        tool("idempotent", ToolEffect::Idempotent),
        tool("once", ToolEffect::AtMostOnce),
    ]);
    registry.add_middleware(cache);
    registry
}

fn cache() -> ToolCache {
    ToolCache::new(Duration::from_secs(60))
}

fn ctx(session_id: &str, run_id: &str, idempotency_key: &str) -> ToolContext {
    ToolContext {
        session_id: session_id.into(),
        run_id: run_id.into(),
        idempotency_key: idempotency_key.into(),
        ..ToolContext::default()
    }
}

async fn call(registry: &ToolRegistry, name: &str, input: Value, ctx: &ToolContext) -> String {
    match registry.execute(name, input, ctx).await {
        Ok(output) => output.content[0].to_string(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn pure_output_is_cached_by_arguments_within_one_run() {
    let registry = counting(cache());
    let here = ctx("s", "r", "");
    for (name, input, ctx, expected) in [
        ("pure", json!({ "a": 1, "b": { "c": 2, "d": 3 } }), &here, "0"),
        // Equal arguments may have their keys in another order.
        ("pure", json!({ "b": { "d": 3, "c": 2 }, "a": 1 }), &here, "0"),
        ("pure", json!({ "a": 2 }), &here, "1"),
        ("other", json!({ "a": 2 }), &here, "2"),
        ("pure", json!({ "a": 2 }), &ctx("s", "r2", ""), "3"),
        ("pure", json!({ "a": 2 }), &ctx("s2", "r", ""), "4"),
        ("pure", json!({ "a": 2 }), &ctx("s", "r", "key"), "1"),
        ("pure", json!([1, 2]), &here, "5"),
        ("pure", json!([2, 1]), &here, "6"),
    ] {
        assert_eq!(call(&registry, name, input.clone(), ctx).await, expected, "{input}");
    }
}

#[tokio::test(start_paused = true)]
async fn outputs_expire_and_errors_are_not_cached() {
    let registry = counting(cache());
    let ctx = ctx("s", "r", "");
    assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "0");
    tokio::time::advance(Duration::from_millis(59_999)).await;
    assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "0");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "1");
    assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "1");
    let error = json!({ "end": "error" });
    assert_eq!(call(&registry, "pure", error.clone(), &ctx).await, "2");
    assert_eq!(call(&registry, "pure", error, &ctx).await, "3");
    assert_eq!(call(&registry, "pure", json!({ "end": "fail" }), &ctx).await, "again");
    assert_eq!(call(&registry, "pure", json!({ "end": "fail" }), &ctx).await, "again");
    assert_eq!(call(&registry, "other", json!({}), &ctx).await, "6");
}

/// A call of a tool that is not pure must remove the cached outputs of pure tools. Regression test. The cache returned
/// the old content of a file after a tool had written the file.
#[tokio::test(start_paused = true)]
async fn tool_with_an_effect_invalidates_pure_outputs() {
    for changer in ["once", "idempotent"] {
        let registry = counting(cache());
        let ctx = ctx("s", "r", "key");
        assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "0");
        assert_eq!(call(&registry, changer, json!({}), &ctx).await, "1");
        assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "2");
        assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "2");

        // These reads start before or during the change, and finish after the change.
        let changes = call(&registry, changer, json!({ "waits": 2, "n": 1 }), &ctx);
        let reads = async {
            assert_eq!(call(&registry, "pure", json!({ "waits": 1 }), &ctx).await, "4");
            assert_eq!(call(&registry, "pure", json!({ "waits": 1 }), &ctx).await, "4");
        };
        futures_util::join!(changes, reads);
        assert_eq!(call(&registry, "pure", json!({ "waits": 1 }), &ctx).await, "5");

        let reads = call(&registry, "pure", json!({ "waits": 9 }), &ctx);
        let changes = call(&registry, changer, json!({ "n": 2 }), &ctx);
        futures_util::join!(reads, changes);
        assert_eq!(call(&registry, "pure", json!({ "waits": 9 }), &ctx).await, "8");

        // A call that was dropped may have changed something too.
        let mut dropped = Box::pin(call(&registry, changer, json!({ "waits": 1, "n": 3 }), &ctx));
        assert!(futures_util::poll!(&mut dropped).is_pending());
        assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "10");
        drop(dropped);
        assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "11");
    }
}

#[tokio::test(start_paused = true)]
async fn idempotent_output_is_cached_for_attempts_of_one_call() {
    let registry = counting(cache());
    for (name, key, expected) in [
        ("idempotent", "k1", "0"),
        ("idempotent", "k1", "0"),
        ("idempotent", "k2", "1"),
        ("once", "k1", "2"),
        ("once", "k1", "3"),
        // Calls of other tools do not remove the cached output of an idempotent call.
        ("idempotent", "k1", "0"),
        ("idempotent", "", "4"),
        ("idempotent", "", "5"),
    ] {
        assert_eq!(call(&registry, name, json!({}), &ctx("s", "r", key)).await, expected, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn oldest_outputs_are_removed_at_the_limit() {
    let registry = counting(cache().with_max_entries(2));
    let ctx = ctx("s", "r", "");
    for (input, expected) in [(1, "0"), (2, "1"), (1, "0"), (3, "2"), (2, "1"), (1, "3"), (3, "2")]
    {
        assert_eq!(call(&registry, "pure", json!(input), &ctx).await, expected);
    }
    let registry = counting(cache().with_max_entries(0));
    assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "0");
    assert_eq!(call(&registry, "pure", json!({}), &ctx).await, "1");
}

/// If several equal calls are made in parallel, one call must run, and the other calls must receive its output.
/// Regression test. All calls ran, because no output was cached when they started.
#[tokio::test(start_paused = true)]
async fn concurrent_equal_calls_run_once() {
    for (name, key) in [("pure", ""), ("idempotent", "key")] {
        let registry = counting(cache());
        let ctx = ctx("s", "r", key);
        let same = || call(&registry, name, json!({ "waits": 5 }), &ctx);
        let (other, mut dropped) = (call(&registry, "other", json!({}), &ctx), Box::pin(same()));
        assert!(futures_util::poll!(&mut dropped).is_pending());
        let waiting = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(dropped);
        };
        let start = tokio::time::Instant::now();
        let ends = futures_util::join!(same(), same(), same(), other, waiting);
        // The first call was dropped, so the second call ran, and the other calls received its output.
        assert_eq!((ends.0, ends.1, ends.2), ("2".into(), "2".into(), "2".into()), "{name}");
        assert_eq!(ends.3, "1", "another call does not wait");
        assert_eq!(start.elapsed(), Duration::from_secs(6));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_call_runs_after_a_failure_unless_cancelled() {
    let registry = counting(cache());
    let here = ctx("s", "r", "");
    let cancelled = ctx("s", "r", "");
    let error = json!({ "waits": 5, "end": "error" });
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancelled.cancellation_token.cancel();
    };
    let start = tokio::time::Instant::now();
    let (first, second, third, ()) = futures_util::join!(
        call(&registry, "pure", error.clone(), &here),
        async {
            let ended = call(&registry, "pure", error.clone(), &cancelled).await;
            (ended, start.elapsed().as_secs())
        },
        call(&registry, "pure", error.clone(), &here),
        cancel,
    );
    assert_eq!((first, third), ("0".into(), "1".into()));
    assert_eq!(second, ("cancelled".into(), 1));
}

/// A call that waits for an equal call must not receive its output if a third call changed data in the meantime.
/// Regression test.
#[tokio::test(start_paused = true)]
async fn waiting_call_ignores_an_output_from_before_a_change() {
    let registry = counting(cache());
    let ctx = ctx("s", "r", "");
    let read = || call(&registry, "pure", json!({ "waits": 5 }), &ctx);
    let ends = futures_util::join!(read(), call(&registry, "once", json!({}), &ctx), read());
    assert_eq!(ends, ("0".into(), "1".into(), "2".into()));
}

/// If two servers share a cache, their tools with the same name must have separate cached outputs. Regression test. The
/// cache returned the output of the other server's tool.
#[tokio::test(start_paused = true)]
async fn tools_with_the_same_name_have_separate_cached_outputs() {
    let cache = Arc::new(cache());
    let search = |text: &'static str| {
        async_tool(definition("search"), ToolEffect::Pure, move |_, _| {
            Box::pin(async move { Ok(ToolOutput::text(text)) })
        })
    };
    let mut registry = ToolRegistry::new();
    for server in ["issues", "mails"] {
        let mut tools = self::registry([search(server)]);
        tools.add_middleware(cache.clone());
        registry.merge_prefixed(&format!("{server}_"), tools).unwrap();
    }
    let ctx = ctx("s", "r", "");
    for _ in 0..2 {
        assert_eq!(call(&registry, "issues_search", json!({}), &ctx).await, "issues");
        assert_eq!(call(&registry, "mails_search", json!({}), &ctx).await, "mails");
    }
    let mut registry = self::registry([search("before")]);
    registry.add_middleware(cache);
    assert_eq!(call(&registry, "search", json!({}), &ctx).await, "before");
    registry.register_dyn(search("after"));
    assert_eq!(call(&registry, "search", json!({}), &ctx).await, "after");
}
