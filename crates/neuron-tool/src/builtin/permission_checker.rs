//! [`PermissionChecker`], which checks each call with a policy.

use std::fmt;

use neuron_types::{
    PermissionDecision, PermissionPolicy, ToolContext, ToolError, ToolOutput, WasmBoxedFuture,
};

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Checks each call with a [`PermissionPolicy`] before the tool runs.
///
/// [`Deny`](PermissionDecision::Deny) becomes [`ToolError::PermissionDenied`] with the reason.
/// [`Ask`](PermissionDecision::Ask) also becomes `PermissionDenied`, with the question, because middleware cannot ask a
/// person.
///
/// If other middleware changes calls, add the `PermissionChecker` after that middleware, so that the policy checks the
/// changed call.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::PermissionChecker;
/// use neuron_types::{PermissionDecision, PermissionPolicy};
///
/// struct NoShell;
///
/// impl PermissionPolicy for NoShell {
///     fn check(&self, tool_name: &str, _input: &serde_json::Value) -> PermissionDecision {
///         match tool_name {
///             "bash" => PermissionDecision::Deny("no shell here".into()),
///             _ => PermissionDecision::Allow,
///         }
///     }
/// }
///
/// let mut registry = ToolRegistry::new();
/// registry.add_middleware(PermissionChecker::new(NoShell));
/// ```
pub struct PermissionChecker {
    policy: Box<dyn PermissionPolicy>,
}

impl PermissionChecker {
    /// Creates a checker with a policy.
    #[must_use]
    pub fn new(policy: impl PermissionPolicy + 'static) -> Self {
        Self { policy: Box::new(policy) }
    }
}

impl ToolMiddleware for PermissionChecker {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.policy.check_call(call, Some(next.definition())) {
                PermissionDecision::Allow => next.run(call, ctx).await,
                PermissionDecision::Deny(reason) => Err(ToolError::PermissionDenied(reason)),
                PermissionDecision::Ask(question) => Err(ToolError::PermissionDenied(format!(
                    "a person would have to allow this: {question}"
                ))),
            }
        })
    }
}

impl fmt::Debug for PermissionChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionChecker").finish_non_exhaustive()
    }
}
