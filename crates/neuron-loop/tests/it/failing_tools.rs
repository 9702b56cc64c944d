//! Results that the model receives from failing tools, and the limit of retries.

use neuron_loop::{LoopConfig, LoopError, ToolErrorPolicy};
use neuron_testing::Reply;
use neuron_types::{ToolContext, ToolError};
use serde_json::json;

use crate::support::*;

fn limited(retries: usize) -> LoopConfig {
    LoopConfig {
        tool_retry_limit: Some(retries),
        tool_errors: ToolErrorPolicy::ReturnToModel,
        ..Default::default()
    }
}

#[tokio::test]
async fn success_or_new_run_resets_the_retry_counter() {
    let wrong = || calls([json!({"fail": "no"})]);
    let setup = setup([
        wrong(),
        calls([json!({"fail": "no"}), json!({"text": "yes"})]),
        wrong(),
        Reply::text("first"),
        wrong(),
        Reply::text("second"),
    ]);
    let mut agent = setup.builder.config(limited(1)).build();
    let ctx = ToolContext::default();
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "first");
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "second");
}

#[tokio::test]
async fn unknown_tools_share_one_retry_counter() {
    let unknown = |name: &'static str| Reply::tool_calls([("c0", name, json!({}))]);
    let setup = setup([unknown("foo"), unknown("bar"), unknown("baz")]);
    let mut agent = setup.builder.config(limited(1)).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    let LoopError::Tool(ToolError::InvalidInput(text)) = &error else { panic!("{error:?}") };
    assert!(text.contains("tools that do not exist in 2 turns in a row"), "{text}");
    assert_eq!(setup.provider.requests().len(), 2);
}

/// Regression test. Nothing reset the counter of unknown tools, so calls in turns that were far apart ended the run.
#[tokio::test]
async fn turn_without_unknown_tools_resets_their_counter() {
    let unknown = || Reply::tool_calls([("c0", "foo", json!({}))]);
    let beside = Reply::tool_calls([("c0", "bar", json!({})), ("c1", "act", json!({}))]);
    let known = || calls([json!({})]);
    let failing = || calls([json!({"fail": "no"})]);
    let replies = [unknown(), known(), unknown(), failing(), unknown(), known(), beside, unknown()];
    let count = replies.len();
    let setup = setup(replies);
    let mut agent = setup.builder.config(limited(1)).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err().to_string();
    assert!(error.contains("tools that do not exist in 2 turns in a row"), "{error}");
    assert_eq!(setup.provider.requests().len(), count);
}
