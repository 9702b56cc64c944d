//! The trait of policies that permit or deny tool calls.

use serde_json::Value;

use crate::{ToolCall, ToolDefinition, WasmCompatSend, WasmCompatSync};

/// Decides whether a tool call is allowed.
///
/// # Example
///
/// ```
/// use neuron_types::{PermissionDecision, PermissionPolicy};
///
/// struct ReadOnly;
///
/// impl PermissionPolicy for ReadOnly {
///     fn check(&self, tool_name: &str, _input: &serde_json::Value) -> PermissionDecision {
///         match tool_name {
///             "read_file" | "list_dir" => PermissionDecision::Allow,
///             _ => PermissionDecision::Deny(format!("{tool_name} writes")),
///         }
///     }
/// }
/// assert_eq!(ReadOnly.check("read_file", &serde_json::json!({})), PermissionDecision::Allow);
/// ```
pub trait PermissionPolicy: WasmCompatSend + WasmCompatSync {
    /// Decides whether a call is allowed, given the tool's name and the arguments.
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision;

    /// Decides whether a call is allowed. `_definition` is the definition of the called tool, or `None` for an unknown
    /// tool. The agent loop asks about an unknown tool only if the agent defers tools, because the tool may have been
    /// removed after the model had found it.
    ///
    /// Code that applies a policy, such as the agent loop, calls this method. The default calls [`check`](Self::check).
    fn check_call(
        &self,
        call: &ToolCall,
        _definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        self.check(&call.name, &call.input)
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
impl<P: PermissionPolicy + ?Sized> PermissionPolicy for std::sync::Arc<P> {
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        (**self).check(tool_name, input)
    }

    fn check_call(
        &self,
        call: &ToolCall,
        definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        (**self).check_call(call, definition)
    }
}

/// The decision of a [`PermissionPolicy`] on a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// The call may run.
    Allow,
    /// The call must not run. The text is the reason.
    Deny(String),
    /// The call may run only after a person has approved it. The text is the question to the person.
    Ask(String),
}
