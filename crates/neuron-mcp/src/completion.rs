//! Completions: what could stand in an argument that a person is typing.

/// What the argument belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget {
    /// The prompt with this name.
    Prompt(String),
    /// The resources with this address or URI template.
    Resource(String),
}

/// What to complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionQuery {
    /// What the argument belongs to.
    pub target: CompletionTarget,
    /// The argument's name.
    pub argument: String,
    /// What was typed so far.
    pub value: String,
    /// The arguments that are filled in already, as name and value.
    pub context: Vec<(String, String)>,
}

/// What could stand there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpCompletion {
    /// The best ones first; at most 100, as the protocol demands. A server's further ones are left out.
    pub values: Vec<String>,
    /// How many there are in all, if that is known.
    pub total: Option<u32>,
    /// Whether there are more than these, if that is known.
    pub has_more: Option<bool>,
}
