//! Tests the code and the statements of the section "PermissionPolicy" of neuron's book.

use neuron_types::{PermissionDecision, PermissionPolicy};
use serde_json::json;

struct ReadOnlyPolicy;
impl PermissionPolicy for ReadOnlyPolicy {
    fn check(&self, tool_name: &str, _input: &serde_json::Value) -> PermissionDecision {
        match tool_name {
            "read_file" | "list_dir" => PermissionDecision::Allow,
            _ => PermissionDecision::Deny(format!("{tool_name} is not allowed in read-only mode")),
        }
    }
}

#[test]
fn policy_allows_denies_or_asks() {
    let answer = |decision| match decision {
        PermissionDecision::Allow => "allowed".to_owned(),
        PermissionDecision::Deny(reason) => reason,
        PermissionDecision::Ask(prompt) => prompt,
    };
    assert_eq!(answer(ReadOnlyPolicy.check("read_file", &json!({}))), "allowed");
    assert_eq!(
        answer(ReadOnlyPolicy.check("rm", &json!({}))),
        "rm is not allowed in read-only mode"
    );
    assert_eq!(answer(PermissionDecision::Ask("sure?".into())), "sure?");
}
