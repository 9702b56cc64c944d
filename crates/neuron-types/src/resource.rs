//! Resources, which are data with a URI in or behind a tool's result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource with its content, from a tool's result or read from a server.
///
/// It has [`text`](Self::text) or [`blob`](Self::blob).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// URI, with any scheme.
    pub uri: String,
    /// The MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The content of a text resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content of any other resource, in standard base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl EmbeddedResource {
    /// Creates a text resource.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), text: Some(text.into()), ..Self::default() }
    }

    /// Creates a binary resource from standard base64.
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

/// Prints the URI, followed by the text or the MIME type.
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

/// A link to a resource without its content. Read the content by URI.
///
/// Create it with `..Default::default()`, because fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLink {
    /// URI, with any scheme.
    pub uri: String,
    /// Name of the resource.
    pub name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size in bytes, before any encoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl ResourceLink {
    /// Creates a link from a URI and a name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

/// Prints the URI, the name, the description and the MIME type.
impl fmt::Display for ResourceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[link to resource {}: {}", self.uri, self.title.as_ref().unwrap_or(&self.name))?;
        for part in [&self.description, &self.mime_type].into_iter().flatten() {
            write!(f, ", {part}")?;
        }
        f.write_str("]")
    }
}
