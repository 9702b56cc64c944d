//! Tests of a loop detector that sub-agents inherit.

use neuron_runtime::LoopDetector;
use neuron_testing::Reply;
use neuron_types::{LoopError, Role, ToolContext};
use serde_json::json;

use crate::support::*;

/// Returns `count` replies that make the same call.
fn same(count: usize) -> Vec<Reply> {
    (0..count).map(|_| calls([("c0", "act", json!({ "x": 1 }))])).collect()
}

/// Returns the number of system messages in the last request of an agent.
fn warnings(scripts: &Scripts, agent: &str) -> usize {
    let requests = scripts.of(agent).requests();
    let messages = &requests.last().unwrap().messages;
    messages.iter().filter(|message| message.role == Role::System).count()
}

#[tokio::test]
async fn sub_agent_counts_its_own_calls() {
    // Each of the two runs of `a` makes the same call twice, which would be four calls together.
    let inner = [same(2), vec![text("a")], same(2), vec![text("b")]].concat();
    let main = vec![asks(&["a"]), asks(&["a"]), text("done")];
    let scripts = Scripts::new([("main", main), ("a", inner)]);
    let builder = parent(&scripts, &Log::default(), [("a", with_tools("a", &["act"]))]);
    let mut agent = Chat::new(builder.hook(LoopDetector::new()));
    let result = agent.run("start", &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "done");
    assert_eq!((warnings(&scripts, "a"), warnings(&scripts, "main")), (0, 0));
}

#[tokio::test]
async fn loop_of_a_sub_agent_ends_both_runs() {
    for way in WAYS {
        let scripts = Scripts::new([("main", vec![asks(&["a"])]), ("a", same(5))]);
        let log = Log::default();
        let builder = parent(&scripts, &log, [("a", with_tools("a", &["act"]))]);
        let mut agent = Chat::new(builder.hook(LoopDetector::new()));
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        let LoopError::HookTerminated(reason) = &error else { panic!("{error:?}") };
        assert!(
            reason.starts_with("loop detector: the model made the call `act({\"x\":1})` 5 times"),
            "{reason}"
        );
        assert_eq!((warnings(&scripts, "a"), warnings(&scripts, "main")), (2, 0), "{way:?}");
    }
}

#[tokio::test]
async fn sub_agent_without_inherited_hooks_is_not_checked() {
    let inner = [same(9), vec![text("a")]].concat();
    let scripts = Scripts::new([("main", vec![asks(&["a"]), text("done")]), ("a", inner)]);
    let mut config = with_tools("a", &["act"]);
    config.inherits_hooks = false;
    let builder = parent(&scripts, &Log::default(), [("a", config)]);
    let mut agent = Chat::new(builder.hook(LoopDetector::new()));
    agent.run("start", &ToolContext::default()).await.unwrap();
    assert_eq!(warnings(&scripts, "a"), 0);
}
