//! Number of calls that a limit allows, the work that it prevents, and the next run.

use neuron_testing::Reply;
use neuron_types::{TokenUsage, ToolContext, UsageLimits};
use serde_json::json;

use crate::support::*;

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

#[track_caller]
fn check_exceeded(error: &str, text: &str) {
    assert_eq!(error, format!("usage limit exceeded: {text}"));
}

#[tokio::test]
async fn final_response_over_a_limit_is_returned() {
    let limits = UsageLimits::default;
    for limits in [
        limits().with_output_tokens_limit(5),
        limits().with_input_tokens_limit(5),
        limits().with_total_tokens_limit(5),
    ] {
        for way in WAYS {
            let setup = setup([Reply::text("long").usage(usage(10, 1000)), Reply::text("more")]);
            let mut agent = setup.builder.usage_limits(limits.clone()).build();
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            assert_eq!((result.response.as_str(), result.limit_reached), ("long", None));
            // Limits apply to one run. The next run starts at zero.
            assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "more");
        }
    }
}

#[tokio::test]
async fn token_counts_add_up_and_saturate() {
    for way in WAYS {
        let whole = TokenUsage {
            cache_read_tokens: Some(7),
            cache_creation_tokens: Some(5),
            reasoning_tokens: Some(3),
            ..usage(usize::MAX - 1, 2)
        };
        let setup =
            setup([calls([json!({})]).usage(whole.clone()), Reply::text("done").usage(whole)]);
        let mut agent = setup.builder.build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let expected = TokenUsage {
            cache_read_tokens: Some(14),
            cache_creation_tokens: Some(10),
            reasoning_tokens: Some(6),
            ..usage(usize::MAX, 4)
        };
        assert_eq!((&result.usage, agent.total_usage()), (&expected, &expected));
    }
    for way in WAYS {
        let setup = setup([
            calls([json!({})]).usage(usage(usize::MAX, usize::MAX)),
            calls([json!({})]).usage(usage(usize::MAX, usize::MAX)),
        ]);
        let most = usize::MAX - 1;
        let limits = UsageLimits::default()
            .with_total_tokens_limit(most)
            .with_request_limit(usize::MAX)
            .with_tool_calls_limit(usize::MAX);
        let mut agent = setup.builder.usage_limits(limits).max_turns(usize::MAX).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        check_exceeded(&error, &format!("total token limit exceeded: {} > {most}", usize::MAX));
        assert_eq!(setup.log.count("start"), 0);
    }
}
