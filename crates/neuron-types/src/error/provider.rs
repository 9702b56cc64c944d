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
    ///
    /// A [`RateLimit`](Self::RateLimit) has a field for it. The text of a [`ServiceUnavailable`](Self::ServiceUnavailable)
    /// and of a [`ModelLoading`](Self::ModelLoading) ends with it, as written by
    /// [`with_retry_after`](Self::with_retry_after). Other errors have none.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { retry_after } => *retry_after,
            Self::ServiceUnavailable(text) | Self::ModelLoading(text) => read_delay(text),
            _ => None,
        }
    }

    /// Adds how long the provider asks to wait.
    ///
    /// A [`ServiceUnavailable`](Self::ServiceUnavailable) and a [`ModelLoading`](Self::ModelLoading) hold nothing but a
    /// text, so the text gets it at its end: `503: busy, retry after 1.5s`. It stays with the text in journals and in
    /// errors made from this one. Replaces an earlier delay. An error that is neither of these nor a
    /// [`RateLimit`](Self::RateLimit) is returned unchanged.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use neuron_types::ProviderError;
    ///
    /// let error = ProviderError::ServiceUnavailable("503: busy".into());
    /// let error = error.with_retry_after(Duration::from_millis(1500));
    /// assert_eq!(error.to_string(), "service unavailable: 503: busy, retry after 1.5s");
    /// assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
    /// ```
    #[must_use]
    pub fn with_retry_after(self, delay: Duration) -> Self {
        match self {
            Self::RateLimit { .. } => Self::RateLimit { retry_after: Some(delay) },
            Self::ServiceUnavailable(text) => Self::ServiceUnavailable(write_delay(text, delay)),
            Self::ModelLoading(text) => Self::ModelLoading(write_delay(text, delay)),
            other => other,
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

/// Stands before the delay at the end of a text.
const DELAY: &str = ", retry after ";

/// Ends a text with a delay in seconds.
fn write_delay(mut text: String, delay: Duration) -> String {
    if read_delay(&text).is_some() {
        text.truncate(text.rfind(DELAY).unwrap_or(text.len()));
    }
    format!("{text}{DELAY}{}s", delay.as_secs_f64())
}

/// Reads the delay at the end of a text.
pub(super) fn read_delay(text: &str) -> Option<Duration> {
    let (_, delay) = text.rsplit_once(DELAY)?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The cause of a [`ProviderError::Network`] for a request that did not leave: no connection could be made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unsent(pub BoxError);
