//! A permission policy that requires several policies to agree ([`CombinedPolicy`]).

use std::fmt;
use std::sync::Arc;

use neuron_types::{PermissionDecision, PermissionPolicy, ToolCall, ToolDefinition};
use serde_json::Value;

/// Combines several permission policies. A call runs if all of them allow it.
///
/// - If a policy denies a call, the call is denied with the reason of the first such policy.
/// - Otherwise, if some policies require an approval, their questions are joined into one question.
/// - Without any policy every call requires an approval.
///
/// # Example
///
/// ```
/// use neuron_runtime::{CombinedPolicy, PermissionRule, PermissionRules};
/// use neuron_types::{PermissionDecision, PermissionPolicy, PermissionRuleError};
/// use serde_json::json;
///
/// # fn main() -> Result<(), PermissionRuleError> {
/// let company = PermissionRules::new([
///     PermissionRule::allow("*"),
///     PermissionRule::deny("delete_*").because("nobody deletes"),
/// ])?;
/// let user = PermissionRules::new([PermissionRule::allow("read_*"), PermissionRule::allow("delete_*")])?;
///
/// let policy = CombinedPolicy::new().with(company).with(user);
/// assert_eq!(policy.check("read_file", &json!({})), PermissionDecision::Allow);
/// assert!(matches!(policy.check("delete_file", &json!({})), PermissionDecision::Deny(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct CombinedPolicy {
    policies: Vec<Arc<dyn PermissionPolicy>>,
}

impl CombinedPolicy {
    /// Creates a combination without policies, so every call requires an approval.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a policy. A call runs only if this policy and all other policies allow it.
    #[must_use]
    pub fn with(mut self, policy: impl PermissionPolicy + 'static) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    fn combine(
        &self,
        tool: &str,
        check: impl Fn(&dyn PermissionPolicy) -> PermissionDecision,
    ) -> PermissionDecision {
        let mut questions = Vec::new();
        for policy in &self.policies {
            match check(&**policy) {
                PermissionDecision::Allow => {}
                PermissionDecision::Ask(question) => questions.push(question),
                PermissionDecision::Deny(reason) => return PermissionDecision::Deny(reason),
            }
        }
        if self.policies.is_empty() {
            questions.push(format!("May `{tool}` be called? There is no policy"));
        }
        match questions.is_empty() {
            true => PermissionDecision::Allow,
            false => PermissionDecision::Ask(questions.join("; ")),
        }
    }
}

impl PermissionPolicy for CombinedPolicy {
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        self.combine(tool_name, |policy| policy.check(tool_name, input))
    }

    fn check_call(
        &self,
        call: &ToolCall,
        definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        self.combine(&call.name, |policy| policy.check_call(call, definition))
    }
}

impl fmt::Debug for CombinedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CombinedPolicy").field("policies", &self.policies.len()).finish()
    }
}
