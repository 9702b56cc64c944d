//! What a policy that only knows names and arguments says of a whole call.

use neuron_types::{PermissionDecision, PermissionPolicy, ToolCall};
use serde_json::{Value, json};

#[test]
fn the_whole_call_is_decided_by_its_name_and_arguments() {
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
