//! Tests of `ConcurrencyLimit` and `RateLimit` with a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use neuron_tool::builtin::{ConcurrencyLimit, RateLimit};
use neuron_tool::{ToolMiddleware, ToolRegistry};
use neuron_types::{ToolContext, ToolEffect, ToolError, ToolOutput};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Result, async_tool, definition, registry, run, shown};

/// The start times of calls in milliseconds, and the maximum number of concurrent calls.
#[derive(Default)]
struct Seen {
    starts: Vec<(u64, u128)>,
    running: usize,
    most: usize,
}

/// Creates a registry with a tool whose argument is its running time in milliseconds. Also returns the recorded start
/// times and the maximum number of concurrent calls.
fn tools(limit: impl ToolMiddleware + 'static) -> (ToolRegistry, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let log = seen.clone();
    let begin = Instant::now();
    let tool = async_tool(definition("t"), ToolEffect::AtMostOnce, move |input, _| {
        let log = log.clone();
        Box::pin(async move {
            {
                let mut seen = log.lock().unwrap();
                let id = input["id"].as_u64().unwrap();
                seen.starts.push((id, begin.elapsed().as_millis()));
                seen.running += 1;
                seen.most = seen.most.max(seen.running);
            }
            tokio::time::sleep(Duration::from_millis(input["takes"].as_u64().unwrap())).await;
            log.lock().unwrap().running -= 1;
            Ok(ToolOutput::text("done"))
        })
    });
    let mut registry = registry([tool]);
    registry.add_middleware(limit);
    (registry, seen)
}

async fn call(registry: &ToolRegistry, id: u64, takes: u64, ctx: &ToolContext) -> Result {
    registry.execute("t", json!({ "id": id, "takes": takes }), ctx).await
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_queues_further_calls_in_order() {
    for (limit, expected) in [
        (2, [(0, 0), (1, 0), (2, 10), (3, 30), (4, 30)]),
        (0, [(0, 0), (1, 10), (2, 40), (3, 60), (4, 80)]),
        (usize::MAX, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]),
    ] {
        let (registry, seen) = tools(ConcurrencyLimit::new(limit));
        let ctx = ToolContext::default();
        let takes = [10, 30, 20, 20, 10];
        let calls = takes.iter().zip(0..).map(|(takes, id)| call(&registry, id, *takes, &ctx));
        assert!(join_all(calls).await.iter().all(Result::is_ok));
        let seen = seen.lock().unwrap();
        assert_eq!(seen.starts, expected, "{limit}");
        assert_eq!(seen.most, limit.clamp(1, 5));
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limit_queues_further_calls_in_order() {
    let (registry, seen) = tools(RateLimit::new(2, Duration::from_millis(100)));
    let ctx = ToolContext::default();
    join_all((0..5).map(|id| call(&registry, id, 1000, &ctx))).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    join_all((5..8).map(|id| call(&registry, id, 0, &ctx))).await;
    let expected = [(0, 0), (1, 0), (2, 100), (3, 100), (4, 200), (5, 1700), (6, 1700), (7, 1800)];
    assert_eq!(seen.lock().unwrap().starts, expected);
}

/// A call that is cancelled or dropped while it waits in the queue must not start or count. Regression test.
#[tokio::test(start_paused = true)]
async fn cancelled_or_dropped_calls_do_not_start_or_count() {
    for by_rate in [false, true] {
        let (registry, seen) = match by_rate {
            true => tools(RateLimit::new(1, Duration::from_millis(100))),
            false => tools(ConcurrencyLimit::new(1)),
        };
        let ctx = ToolContext::default();
        let cancelled = ToolContext::default();
        let first = call(&registry, 0, 100, &ctx);
        let waiting = call(&registry, 1, 100, &cancelled);
        let mut dropped = Box::pin(call(&registry, 2, 100, &ctx));
        let last = call(&registry, 3, 100, &ctx);
        let cancel = async {
            assert!((&mut dropped).now_or_never().is_none());
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(dropped);
            cancelled.cancellation_token.cancel();
        };
        let (first, waiting, (), last) = futures_util::join!(first, waiting, cancel, last);
        assert!(first.is_ok() && last.is_ok());
        assert!(matches!(waiting, Err(ToolError::Cancelled)));
        assert_eq!(seen.lock().unwrap().starts, [(0, 0), (3, 100)]);
        // The token of this call was cancelled before the call.
        assert!(matches!(call(&registry, 4, 0, &cancelled).await, Err(ToolError::Cancelled)));
        assert_eq!(seen.lock().unwrap().starts.len(), 2);
    }
}

#[test]
fn rate_limit_without_runtime_fails_before_the_start() {
    let mut registry = registry([crate::support::echo("t")]);
    registry.add_middleware(RateLimit::new(1, Duration::ZERO));
    let result = run(&registry, "t", json!({})).now_or_never().unwrap();
    assert_eq!(shown(&result), "execution failed: rates need a tokio runtime");
}

proptest! {
    #[test]
    fn no_period_exceeds_the_rate(
        max in 1_usize..4,
        period in 1_u64..50,
        arrivals in prop::collection::vec(0_u64..200, 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let starts = runtime.block_on(async {
            let (registry, seen) = tools(RateLimit::new(max, Duration::from_millis(period)));
            let ctx = ToolContext::default();
            join_all(arrivals.iter().map(|at| {
                let (registry, ctx) = (&registry, &ctx);
                async move {
                    tokio::time::sleep(Duration::from_millis(*at)).await;
                    call(registry, 0, 0, ctx).await.unwrap();
                }
            }))
            .await;
            std::mem::take(&mut seen.lock().unwrap().starts)
        });
        prop_assert_eq!(starts.len(), arrivals.len());
        for window in starts.windows(max + 1) {
            prop_assert!(window[max].1 - window[0].1 >= u128::from(period), "{:?}", starts);
        }
    }
}
