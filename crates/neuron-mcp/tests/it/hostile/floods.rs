//! Tests with servers that send floods of small messages or log lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use neuron_mcp::McpEvent;
use neuron_types::{ProgressReporter, ToolContext};
use serde_json::json;

use crate::hostile::alone::{alone, assert_peak_below};
use crate::hostile::server::{FLOOD, call, client, connect, program};

/// Counts progress reports.
#[derive(Default)]
struct Count(AtomicU64);

impl ProgressReporter for Count {
    fn report(&self, _progress: f64, _total: Option<f64>, _message: Option<&str>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn notification_flood_does_not_block_calls_with_bounded_memory() {
    alone(
        "hostile::floods::notification_flood_does_not_block_calls_with_bounded_memory",
        &[],
        async {
            let client = client().connect_stdio(program("serves")).await.unwrap();
            let mut events = client.events();
            let count = Arc::new(Count::default());
            let ctx = ToolContext {
                progress_reporter: Some(Arc::clone(&count) as Arc<dyn ProgressReporter>),
                ..ToolContext::default()
            };
            // The server responds to the second call in the middle of the flood.
            let (flooded, between) = tokio::join!(
                client.call_tool_in("flood", json!({}), &ctx),
                call(&client, "between")
            );
            flooded.unwrap();
            assert_eq!(between.unwrap(), "between");
            assert_eq!(count.0.load(Ordering::Relaxed), u64::from(FLOOD) / 4);
            // The test has not read any event yet, so most events were dropped.
            assert!(
                matches!(events.next().await, Some(McpEvent::Lagged { missed }) if missed > u64::from(FLOOD) / 3)
            );
            assert_eq!(call(&client, "fine").await.unwrap(), "fine");
            assert_peak_below(50);
        },
    );
}

#[tokio::test]
async fn log_lines_on_standard_output_do_not_block_a_call() {
    let client = connect("serves").await;
    assert_eq!(call(&client, "text flood").await.unwrap(), "fine");
}

#[test]
fn huge_standard_error_output_does_not_block_calls() {
    alone("hostile::floods::huge_standard_error_output_does_not_block_calls", &[], async {
        let client = connect("serves").await;
        assert_eq!(call(&client, "loud").await.unwrap(), "fine");
        assert_peak_below(100);
    });
}
