//! The error of invalid permission rules.

/// The error of invalid permission rules.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/permission_rule_error.md")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermissionRuleError {
    /// A rule is invalid.
    #[error("permission rule `{rule}`: {reason}")]
    InvalidRule {
        /// Name of the rule. For a rule without a name, its effect and tools, for example `deny bash`.
        rule: String,
        /// The reason why the rule is invalid.
        reason: String,
    },
    /// The base directory of the rules' relative paths is invalid.
    #[error("the directory `{directory}` of permission rules {reason}")]
    InvalidDirectory {
        /// Path of the base directory.
        directory: String,
        /// The reason why the directory is invalid.
        reason: String,
    },
}
