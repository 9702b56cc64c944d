//! Tests of `PermissionChecker`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_tool::builtin::PermissionChecker;
use neuron_types::{
    PermissionDecision, PermissionPolicy, ToolCall, ToolDefinition, ToolError, ToolOutput,
};
use serde_json::{Value, json};

use crate::support::{echo, registry, run, shown, tool};

struct ByName;

impl PermissionPolicy for ByName {
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        match tool_name {
            "read" => PermissionDecision::Allow,
            "write" => PermissionDecision::Deny(format!("{} is read-only", input["path"])),
            _ => PermissionDecision::Ask("run this?".into()),
        }
    }
}

#[tokio::test]
async fn denied_calls_and_calls_with_questions_do_not_run() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = |name| {
        let ran = ran.clone();
        tool(name, move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(ToolOutput::text("done"))
        })
    };
    let mut registry = registry([counted("read"), counted("write"), counted("bash")]);
    registry.add_middleware(PermissionChecker::new(ByName));
    assert_eq!(shown(&run(&registry, "read", json!({})).await), "done");
    for (name, text) in [
        ("write", r#"permission denied: "/etc" is read-only"#),
        ("bash", "permission denied: a person would have to allow this: run this?"),
    ] {
        let result = run(&registry, name, json!({ "path": "/etc" })).await;
        assert_eq!(shown(&result), text);
        assert!(matches!(result, Err(ToolError::PermissionDenied(_))));
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn policy_receives_the_definition() {
    struct ByDescription;
    impl PermissionPolicy for ByDescription {
        fn check(&self, _: &str, _: &Value) -> PermissionDecision {
            PermissionDecision::Allow
        }
        fn check_call(
            &self,
            call: &ToolCall,
            definition: Option<&ToolDefinition>,
        ) -> PermissionDecision {
            let schema = definition.map(|tool| tool.input_schema.to_string()).unwrap_or_default();
            PermissionDecision::Deny(format!("{} {schema}", call.name))
        }
    }
    let mut registry = registry([echo("read")]);
    registry.add_middleware(PermissionChecker::new(ByDescription));
    let text = shown(&run(&registry, "read", json!({})).await);
    assert_eq!(text, r#"permission denied: read {"type":"object"}"#);
}
