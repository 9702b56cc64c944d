//! Resources that a server offers to read.

use neuron_types::{EmbeddedResource, ResourceLink};

/// A resource that a server offers, with `uri`, `name`, `title`, `description`, `mime_type` and `size`.
pub type McpResource = ResourceLink;

/// The content of a resource, with `uri`, `mime_type`, and `text` or, in base64, `blob`.
pub type McpResourceContents = EmbeddedResource;

/// Resources that differ in parts of their address.
///
/// Build it with `..Default::default()`: fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpResourceTemplate {
    /// The URI template (RFC 6570), for example `file:///{path}`.
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Description of the resources.
    pub description: Option<String>,
    /// The MIME type that all of them have.
    pub mime_type: Option<String>,
}

impl McpResourceTemplate {
    /// A template with a name.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }
}
