//! Test of the default method of `PermissionPolicy`.

use neuron_types::{PermissionDecision, PermissionPolicy, ToolCall};
use serde_json::{Value, json};

#[test]
fn default_check_call_uses_name_and_arguments() {
    struct Echo;
    impl PermissionPolicy for Echo {
        fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
            PermissionDecision::Ask(format!("{tool_name} {input}?"))
        }
    }
    let call = ToolCall { id: "c1".into(), name: "rm".into(), input: json!(["-r"]) };
    let policy: &dyn PermissionPolicy = &Echo;
    assert_eq!(policy.check_call(&call, None), PermissionDecision::Ask(r#"rm ["-r"]?"#.into()));
}
