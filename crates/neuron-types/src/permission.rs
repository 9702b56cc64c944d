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
    /// Decides by the tool's name and the arguments.
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision;

    /// Decides by the whole call and the definition of the tool, if the tool exists. The default calls
    /// [`check`](Self::check).
    fn check_call(
        &self,
        call: &ToolCall,
        _definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        self.check(&call.name, &call.input)
    }
}

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

/// The decision of a [`PermissionPolicy`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// Run the call.
    Allow,
    /// Deny the call, with the reason.
    Deny(String),
    /// Ask a person for approval, with the question.
    Ask(String),
}
