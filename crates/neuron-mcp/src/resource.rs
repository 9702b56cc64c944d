//! Resources that a server offers to clients.

use neuron_types::{EmbeddedResource, ResourceLink};

/// A resource in the list of a server, with `uri`, `name`, `title`, `description`, `mime_type` and `size`.
pub type McpResource = ResourceLink;

/// The content of a resource, with `uri`, `mime_type`, and either `text` or `blob` (base64).
pub type McpResourceContents = EmbeddedResource;

/// A template for the URIs of resources.
///
/// Build it with `..Default::default()`, because fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpResourceTemplate {
    /// The URI template (RFC 6570), for example `file:///{path}`.
    pub uri_template: String,
    /// Name of the template.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description of the resources that match the template.
    pub description: Option<String>,
    /// MIME type of the resources. `None` if it differs between the resources or is unknown.
    pub mime_type: Option<String>,
}

impl McpResourceTemplate {
    /// Creates a template with a name.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }
}
