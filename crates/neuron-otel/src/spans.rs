//! The spans of operations: their names, their attributes, and what is measured of them.

pub(crate) mod agent;
pub(crate) mod chat;
pub(crate) mod compaction;
pub(crate) mod embeddings;
pub(crate) mod request;
pub(crate) mod tool;
pub(crate) mod turn;

/// `gen_ai.provider.name`, which is required.
pub(crate) fn provider_name(provider: &str) -> &str {
    known(provider).unwrap_or("unknown")
}

/// A text, unless it is empty: then nothing is known.
pub(crate) fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
