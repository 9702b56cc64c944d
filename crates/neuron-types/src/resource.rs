//! Resources: data with an address, in a tool's result or named by it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The content of a resource, with its address: part of a tool's result, or read from a server.
///
/// It has [`text`](Self::text) or [`blob`](Self::blob).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// Its address, with whatever scheme its owner uses.
    pub uri: String,
    /// The MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The content, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content in standard base64, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl EmbeddedResource {
    /// Text with an address.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), text: Some(text.into()), ..Self::default() }
    }

    /// Bytes with an address, in standard base64.
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

/// The text after its address, or the address and what it is.
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

/// A resource that is named and not sent: who wants it reads it by its address.
///
/// Build it with `..Default::default()`: fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLink {
    /// Its address, with whatever scheme its owner uses.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
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
    /// A resource with an address and a name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

/// The address, the name, and what it is.
impl fmt::Display for ResourceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[link to resource {}: {}", self.uri, self.title.as_ref().unwrap_or(&self.name))?;
        for part in [&self.description, &self.mime_type].into_iter().flatten() {
            write!(f, ", {part}")?;
        }
        f.write_str("]")
    }
}
