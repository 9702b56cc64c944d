//! Resources, which are data with a URI. A tool's result contains a resource itself or a link to a resource.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource with its content, as returned by a tool or read from an MCP server.
///
/// The content is in [`text`](Self::text) or in [`blob`](Self::blob).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// URI of the resource, with any scheme.
    pub uri: String,
    /// MIME type of the content. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The content of a text resource. `None` for any other resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content of a binary resource, in standard base64. `None` for a text resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl EmbeddedResource {
    /// Creates a text resource.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), text: Some(text.into()), ..Self::default() }
    }

    /// Creates a binary resource. `base64` is the content in standard base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        Self { uri: uri.into(), blob: Some(base64.into()), ..Self::default() }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// Prints the URI, followed by the text of a text resource or the MIME type of any other resource.
impl fmt::Display for EmbeddedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return write!(f, "[resource {}]\n{text}", self.uri);
        }
        match &self.mime_type {
            Some(mime_type) => write!(f, "[resource {}, {mime_type}]", self.uri),
            None => write!(f, "[resource {}]", self.uri),
        }
    }
}

/// A link to a resource, without the content. The content can be read from the server by URI.
///
/// Create the struct with `..Default::default()`, because later versions may add fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLink {
    /// URI of the resource, with any scheme.
    pub uri: String,
    /// Name of the resource.
    pub name: String,
    /// Display name for people. `None` means the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// MIME type of the content. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size of the content in bytes, before any encoding such as base64. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl ResourceLink {
    /// Creates a link from a URI and a name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

/// Prints the URI, the title or the name, the description and the MIME type.
impl fmt::Display for ResourceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[link to resource {}: {}", self.uri, self.title.as_ref().unwrap_or(&self.name))?;
        for part in [&self.description, &self.mime_type].into_iter().flatten() {
            write!(f, ", {part}")?;
        }
        f.write_str("]")
    }
}
