//! The spans of operations, with their names, attributes and measurements.

pub(crate) mod agent;
pub(crate) mod chat;
pub(crate) mod compaction;
pub(crate) mod embeddings;
pub(crate) mod request;
pub(crate) mod tool;
pub(crate) mod turn;

/// Returns `gen_ai.provider.name`, which is required.
pub(crate) fn provider_name(provider: &str) -> &str {
    known(provider).unwrap_or("unknown")
}

/// Returns `None` for an empty text, which stands for an unknown value.
pub(crate) fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
