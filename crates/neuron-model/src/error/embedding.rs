//! Errors of embedding providers.

use std::time::Duration;

use super::provider::{read_delay, retry_hint};
use crate::{BoxError, ProviderError};

/// The error of an [`EmbeddingProvider`](crate::EmbeddingProvider).
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/embedding_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// The API key is missing or wrong, or lacks a permission.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The request exceeded the provider's rate limit. Retryable.
    #[error("rate limited{}", retry_hint(.retry_after))]
    RateLimit {
        /// Delay before the next attempt that the provider requests. `None` if the provider requests no delay.
        retry_after: Option<Duration>,
    },
    /// The request is malformed, for example with an empty input or an unknown model.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The connection failed. Retryable.
    #[error("network error: {0}")]
    Network(#[source] BoxError),
    /// No response arrived within this time. Retryable.
    #[error("timeout after {0:?}")]
    Timeout(Duration),
    /// The provider is down or overloaded, or is loading the model. Retryable.
    #[error("service unavailable: {0}")]
    ServiceUnavailable(String),
    /// A quota or a spending limit is exhausted.
    #[error("insufficient resources: {0}")]
    InsufficientResources(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

impl EmbeddingError {
    /// Returns `true` if a retry of the same request may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::RateLimit { .. }
                | Self::Network(_)
                | Self::Timeout(_)
                | Self::ServiceUnavailable(_)
        )
    }

    /// Returns the delay before the next attempt that the provider requests. Returns `None` if the provider requests no
    /// delay. See [`ProviderError::retry_after`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { retry_after } => *retry_after,
            Self::ServiceUnavailable(text) => read_delay(text),
            _ => None,
        }
    }

    /// Returns the name of the variant. The name is stable across versions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Authentication(_) => "Authentication",
            Self::RateLimit { .. } => "RateLimit",
            Self::InvalidRequest(_) => "InvalidRequest",
            Self::Network(_) => "Network",
            Self::Timeout(_) => "Timeout",
            Self::ServiceUnavailable(_) => "ServiceUnavailable",
            Self::InsufficientResources(_) => "InsufficientResources",
            Self::Other(_) => "Other",
        }
    }
}

/// Converts the error to the variant with the same meaning.
///
/// A provider that offers completions and embeddings can thus use the same code for both kinds of requests.
impl From<ProviderError> for EmbeddingError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Network(source) => Self::Network(source),
            ProviderError::RateLimit { retry_after } => Self::RateLimit { retry_after },
            ProviderError::Timeout(limit) => Self::Timeout(limit),
            ProviderError::ModelLoading(text) | ProviderError::ServiceUnavailable(text) => {
                Self::ServiceUnavailable(text)
            }
            ProviderError::Authentication(text) => Self::Authentication(text),
            ProviderError::InvalidRequest(text) | ProviderError::ContextWindowExceeded(text) => {
                Self::InvalidRequest(text)
            }
            ProviderError::ModelNotFound(text) => {
                Self::InvalidRequest(format!("model not found: {text}"))
            }
            ProviderError::InsufficientResources(text) => Self::InsufficientResources(text),
            ProviderError::Other(source) => Self::Other(source),
            error @ ProviderError::StreamError(_) => Self::Other(Box::new(error)),
        }
    }
}
