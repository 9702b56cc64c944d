//! Who decides whether a tool may be called.

use serde_json::Value;

use crate::{ToolCall, ToolDefinition, WasmCompatSend, WasmCompatSync};

/// Decides whether a tool may be called.
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
    /// Decides by name and arguments.
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision;

    /// Decides with the whole call and the tool's definition, if there is such a tool. Provided:
    /// calls [`check`](Self::check).
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

/// What a [`PermissionPolicy`] decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// Go on.
    Allow,
    /// Refuse, with the reason.
    Deny(String),
    /// Ask a person, with the question.
    Ask(String),
}
