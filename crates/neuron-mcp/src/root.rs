//! Roots, which are the folders in which a client allows a server to work.

/// A folder or file in which a client allows a server to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpRoot {
    /// URI of the root. All current protocol versions require `file://`.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}

impl McpRoot {
    /// Creates a root with a URI and no name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }

    /// Sets the display name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}
