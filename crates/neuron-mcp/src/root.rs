//! Roots, which are the folders in which a client lets a server work.

/// A folder or file that a client lets a server work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpRoot {
    /// URI of the root, which is `file://…` today.
    pub uri: String,
    /// Its name for people.
    pub name: Option<String>,
}

impl McpRoot {
    /// A root with an address.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }

    /// Sets its name for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}
