//! The spans of operations, with their names, attributes and measurements.

pub(crate) mod agent;
pub(crate) mod chat;
pub(crate) mod compaction;
pub(crate) mod embeddings;
pub(crate) mod request;
pub(crate) mod tool;
pub(crate) mod turn;

/// Returns the value of `gen_ai.provider.name`. The conventions require the attribute, so an empty name becomes
/// `unknown`.
pub(crate) fn provider_name(provider: &str) -> &str {
    known(provider).unwrap_or("unknown")
}

/// Returns the text, or `None` if it is empty. An empty text means that the value is unknown.
pub(crate) fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
