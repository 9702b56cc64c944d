//! Tests of permission rules in an agent and in a registry's middleware.

use neuron_loop::LoopError;
use neuron_runtime::{
    AnnotationCondition, ArgumentPattern, CombinedPolicy, PermissionRule, PermissionRules,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::builtin::PermissionChecker;
use neuron_types::{ApprovalDecisions, ToolAnnotations, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::support::*;

fn reader(log: &Log) -> Act {
    let annotations = ToolAnnotations { read_only_hint: Some(true), ..Default::default() };
    Act { annotations: Some(annotations), ..Act::new("read", log) }
}

/// Allows read-only calls and writes within `/code`, denies keys, and requires approval for all other calls.
fn policy() -> CombinedPolicy {
    let read_only = AnnotationCondition { read_only: Some(true), ..Default::default() };
    let user = PermissionRules::new([
        PermissionRule::allow("*").annotated(read_only),
        PermissionRule::allow("write").when("path", ArgumentPattern::path("/code/**")),
    ]);
    let company = PermissionRules::new([
        PermissionRule::allow("*"),
        PermissionRule::deny("*")
            .named("no keys")
            .when("path", ArgumentPattern::path("/**/.env"))
            .because("keys stay here"),
    ]);
    CombinedPolicy::new().with(user.unwrap()).with(company.unwrap())
}

fn call(id: &str, tool: &str, path: &str) -> (String, String, Value) {
    (id.to_owned(), tool.to_owned(), json!({ "path": path, "text": "done" }))
}

#[tokio::test]
async fn agent_runs_allowed_calls_denies_others_and_asks_about_the_rest() {
    let log = Log::default();
    let provider = ScriptedProvider::new([
        Reply::tool_calls([
            call("c1", "read", "/code/a"),
            call("c2", "write", "/code/a"),
            call("c3", "read", "/code/.env"),
            call("c4", "write", "/code/../etc/passwd"),
            call("c5", "write", "/etc/passwd"),
        ]),
        Reply::text("all done"),
    ]);
    let builder = bare(provider)
        .tools(registry([reader(&log), Act::new("write", &log)]))
        .permission_policy(policy())
        .config(|config| config.pause_for_approval = true);
    let mut agent = Chat::new(builder);
    let ctx = ToolContext::default();
    let Err(LoopError::ApprovalRequired(pending)) = agent.run("go", &ctx).await else {
        panic!("two calls wait");
    };
    let waiting: Vec<_> = pending.calls.iter().map(|call| call.call.id.as_str()).collect();
    // A path with `..` may lead to a key, so the company's rule denies it.
    assert_eq!(waiting, ["c5"]);
    assert_eq!(pending.calls[0].reason, "May `write` be called? No rule says so");
    let starts = |log: &Log| {
        log.lines().into_iter().filter(|line| line.starts_with("start")).collect::<Vec<_>>()
    };
    assert_eq!(starts(&log), ["start read c1", "start write c2"]);

    agent.run(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    assert_eq!(starts(&log).len(), 3);
    let results: Vec<_> = agent.messages()[2].content.iter().map(ToString::to_string).collect();
    assert_eq!(
        results,
        [
            "[tool result c1: done]",
            "[tool result c2: done]",
            "[tool error c3: permission denied: `read` is denied by the rule `no keys`: keys stay here]",
            "[tool error c4: permission denied: `write` is denied by the rule `no keys`: keys stay here \
             (it is not certain that the rule matches: the argument `path`: the path goes up by `..`)]",
            "[tool result c5: done]",
        ]
    );
}

#[tokio::test]
async fn permission_checker_denies_calls_that_need_an_approval() {
    let log = Log::default();
    let mut tools = registry([reader(&log), Act::new("write", &log)]);
    tools.add_middleware(PermissionChecker::new(policy()));
    let run = async |tool: &str, path: &str| {
        let input = json!({ "path": path, "text": "done" });
        tools.execute(tool, input, &ToolContext::default()).await
    };
    assert_eq!(run("read", "/code/a").await.unwrap(), ToolOutput::text("done"));
    assert_eq!(run("write", "/code/a").await.unwrap(), ToolOutput::text("done"));
    let denied = run("read", "/code/.env").await.unwrap_err();
    assert!(matches!(&denied, ToolError::PermissionDenied(_)));
    assert_eq!(
        denied.to_string(),
        "permission denied: `read` is denied by the rule `no keys`: keys stay here"
    );
    let asked = run("write", "/etc/passwd").await.unwrap_err();
    assert_eq!(
        asked.to_string(),
        "permission denied: a person would have to allow this: May `write` be called? No rule says so"
    );
    assert_eq!(log.lines().len(), 4);
}
