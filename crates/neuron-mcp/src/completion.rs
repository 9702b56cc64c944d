//! Completions of an argument that a person types.

/// The owner of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget {
    /// The prompt with this name.
    Prompt(String),
    /// The resources with this address or URI template.
    Resource(String),
}

/// A query for completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionQuery {
    /// The owner of the argument.
    pub target: CompletionTarget,
    /// The argument's name.
    pub argument: String,
    /// The text that was typed so far.
    pub value: String,
    /// The arguments that are filled in already, as name and value.
    pub context: Vec<(String, String)>,
}

/// Completions of an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpCompletion {
    /// The values, best first. At most 100, as the protocol requires. Further values of a server are left out.
    pub values: Vec<String>,
    /// Number of all values, if it is known.
    pub total: Option<u32>,
    /// True if there are more values, if that is known.
    pub has_more: Option<bool>,
}
