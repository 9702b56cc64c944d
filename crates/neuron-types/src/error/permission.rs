//! What is wrong with a rule that permits or forbids tool calls.

/// What is wrong with rules that permit or forbid tool calls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermissionRuleError {
    /// A rule makes no sense.
    #[error("permission rule `{rule}`: {reason}")]
    InvalidRule {
        /// The rule's name, or what it says.
        rule: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory that relative paths start from is not one.
    #[error("the directory `{directory}` of permission rules {reason}")]
    InvalidDirectory {
        /// The directory.
        directory: String,
        /// What is wrong with it.
        reason: String,
    },
}
