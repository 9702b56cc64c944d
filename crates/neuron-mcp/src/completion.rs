//! Completions of an argument of a prompt or of a resource template, while a user types it.

/// The prompt or resource template whose argument is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget {
    /// The prompt with this name.
    Prompt(String),
    /// The resource with this URI or this URI template.
    Resource(String),
}

/// A query for completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionQuery {
    /// The prompt or resource template that has the argument.
    pub target: CompletionTarget,
    /// Name of the argument.
    pub argument: String,
    /// The text that the user has typed so far.
    pub value: String,
    /// Arguments that are already filled in, as pairs of name and value.
    pub context: Vec<(String, String)>,
}

/// Completions of an argument that a server returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpCompletion {
    /// The completions, best first. The protocol allows at most 100. A server of this crate removes all further
    /// completions.
    pub values: Vec<String>,
    /// Number of all completions, including completions that are not in `values`. `None` if the server does not report
    /// the number.
    pub total: Option<u32>,
    /// Set to `true` if there are more completions than `values`. `None` if the server does not report it.
    pub has_more: Option<bool>,
}
