//! What keeps a provider from embedding.

use std::time::Duration;

use super::provider::retry_hint;
use crate::BoxError;

/// What keeps an [`EmbeddingProvider`](crate::EmbeddingProvider) from answering.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// The key is missing, wrong, or lacks a permission.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The provider limits the rate of requests. Retryable.
    #[error("rate limited{}", retry_hint(.retry_after))]
    RateLimit {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The request is malformed: an empty input, an unknown model.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The connection failed. Retryable.
    #[error("network error: {0}")]
    Network(#[source] BoxError),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

impl EmbeddingError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimit { .. } | Self::Network(_))
    }

    /// Returns the variant's name, stable over versions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Authentication(_) => "Authentication",
            Self::RateLimit { .. } => "RateLimit",
            Self::InvalidRequest(_) => "InvalidRequest",
            Self::Network(_) => "Network",
            Self::Other(_) => "Other",
        }
    }
}
