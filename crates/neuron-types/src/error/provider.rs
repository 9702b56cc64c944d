//! What keeps a provider from answering.

use std::time::Duration;

use crate::BoxError;

/// What keeps a provider from answering.
///
/// The text of a variant holds the HTTP status, the vendor's code and message, and its request id
/// where there are such things.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The connection failed: DNS, TLS, reset. Retryable.
    #[error("network error: {0}")]
    Network(#[source] BoxError),
    /// The provider limits the rate of requests. Retryable.
    #[error("rate limited{}", retry_hint(.retry_after))]
    RateLimit {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The model is being loaded. Retryable.
    #[error("model loading: {0}")]
    ModelLoading(String),
    /// No answer came within this time. Retryable.
    #[error("timeout after {0:?}")]
    Timeout(Duration),
    /// The provider is down or overloaded. Retryable.
    #[error("service unavailable: {0}")]
    ServiceUnavailable(String),
    /// The key is missing, wrong, or lacks a permission.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The request is malformed or asks for what the model cannot do.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The request is longer than the model's context window, with the room for the answer. A shorter
    /// conversation may succeed.
    #[error("context window exceeded: {0}")]
    ContextWindowExceeded(String),
    /// The provider has no such model.
    #[error("model not found: {0}")]
    ModelNotFound(String),
    /// A quota or a spending limit is used up.
    #[error("insufficient resources: {0}")]
    InsufficientResources(String),
    /// A stream broke after it had begun.
    #[error("stream error: {0}")]
    StreamError(String),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

impl ProviderError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Network(_)
                | Self::RateLimit { .. }
                | Self::ModelLoading(_)
                | Self::Timeout(_)
                | Self::ServiceUnavailable(_)
        )
    }

    /// Returns how long the provider asks to wait, if it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { retry_after } => *retry_after,
            _ => None,
        }
    }

    /// Whether the request may have reached the provider. `false` for a [`Network`](Self::Network) error that holds an
    /// [`Unsent`]: then the request took no tokens.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        let Self::Network(error) = self else {
            return true;
        };
        let error: &(dyn std::error::Error + 'static) = &**error;
        !std::iter::successors(Some(error), |error| error.source())
            .any(|error| error.is::<Unsent>())
    }

    /// Whether the call took no tokens: the provider refused it, or it was not [sent](Self::was_sent).
    #[must_use]
    pub fn takes_no_tokens(&self) -> bool {
        let is_refused = matches!(
            self,
            Self::RateLimit { .. }
                | Self::ModelLoading(_)
                | Self::ServiceUnavailable(_)
                | Self::Authentication(_)
                | Self::InvalidRequest(_)
                | Self::ContextWindowExceeded(_)
                | Self::ModelNotFound(_)
                | Self::InsufficientResources(_)
        );
        is_refused || !self.was_sent()
    }

    /// Returns the variant's name, stable over versions: retry policies and journals use it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Network(_) => "Network",
            Self::RateLimit { .. } => "RateLimit",
            Self::ModelLoading(_) => "ModelLoading",
            Self::Timeout(_) => "Timeout",
            Self::ServiceUnavailable(_) => "ServiceUnavailable",
            Self::Authentication(_) => "Authentication",
            Self::InvalidRequest(_) => "InvalidRequest",
            Self::ContextWindowExceeded(_) => "ContextWindowExceeded",
            Self::ModelNotFound(_) => "ModelNotFound",
            Self::InsufficientResources(_) => "InsufficientResources",
            Self::StreamError(_) => "StreamError",
            Self::Other(_) => "Other",
        }
    }
}

/// The end of a rate limit's text: ", retry after 2s", or nothing.
pub(super) fn retry_hint(retry_after: &Option<Duration>) -> String {
    retry_after.map(|delay| format!(", retry after {delay:?}")).unwrap_or_default()
}

/// The cause of a [`ProviderError::Network`] for a request that did not leave: no connection could be made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unsent(pub BoxError);
