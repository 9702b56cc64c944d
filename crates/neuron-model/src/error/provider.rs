//! Errors of providers.

use std::time::Duration;

use crate::BoxError;

/// The error of a provider.
///
/// The error text contains the HTTP status, the vendor's error code and message, and the request id, if the response
/// had them.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/provider_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The connection failed, for example because of DNS, TLS or a reset. Retryable.
    #[error("network error: {0}")]
    Network(#[source] BoxError),
    /// The request exceeded the provider's rate limit. Retryable.
    ///
    /// The variant has no text. The providers of neuron log the vendor's text and the request id of a response with
    /// status 429 with `tracing`, at level `INFO`.
    #[error("rate limited{}", retry_hint(.retry_after))]
    RateLimit {
        /// Delay before the next attempt that the provider requests. `None` if the provider requests no delay.
        retry_after: Option<Duration>,
    },
    /// The provider is loading the model. Retryable.
    #[error("model loading: {0}")]
    ModelLoading(String),
    /// No response arrived within this time. Retryable.
    #[error("timeout after {0:?}")]
    Timeout(Duration),
    /// The provider is down or overloaded. Retryable.
    #[error("service unavailable: {0}")]
    ServiceUnavailable(String),
    /// The API key is missing or wrong, or lacks a permission.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The request is malformed, or requires a feature that the model does not support.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The request and the space for the response together exceed the model's context window. A shorter conversation
    /// may succeed.
    #[error("context window exceeded: {0}")]
    ContextWindowExceeded(String),
    /// The provider does not have the model.
    #[error("model not found: {0}")]
    ModelNotFound(String),
    /// A quota or a spending limit is exhausted.
    #[error("insufficient resources: {0}")]
    InsufficientResources(String),
    /// A stream broke after it had started.
    #[error("stream error: {0}")]
    StreamError(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

impl ProviderError {
    /// Returns `true` if a retry of the same request may succeed.
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

    /// Returns `true` if a retry of the same request may succeed, and the caller discards the response of the failed
    /// attempt.
    ///
    /// This includes a connection that was lost within the response. A reader of a stream may have received the
    /// beginning of the response, and has to discard it.
    #[must_use]
    pub fn is_retryable_from_start(&self) -> bool {
        self.is_retryable() || matches!(self, Self::StreamError(_))
    }

    /// Returns the time that the provider asks the client to wait before the next attempt. Returns `None` if the
    /// provider asks for no delay.
    ///
    /// - [`RateLimit`](Self::RateLimit) has a field for the delay.
    /// - For [`ServiceUnavailable`](Self::ServiceUnavailable) and [`ModelLoading`](Self::ModelLoading), the delay is
    ///   parsed from the end of the text, in the format of [`with_retry_after`](Self::with_retry_after).
    /// - Other errors have no delay.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { retry_after } => *retry_after,
            Self::ServiceUnavailable(text) | Self::ModelLoading(text) => read_delay(text),
            _ => None,
        }
    }

    /// Sets the delay that [`retry_after`](Self::retry_after) returns. An earlier delay is replaced.
    ///
    /// - [`RateLimit`](Self::RateLimit) stores the delay in its field.
    /// - [`ServiceUnavailable`](Self::ServiceUnavailable) and [`ModelLoading`](Self::ModelLoading) have only a text, so
    ///   the delay is appended to the text, as in `503: busy, retry after 1.5s`. Journals and converted errors keep the
    ///   text, and with it the delay.
    /// - Any other error is returned unchanged.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use neuron_model::ProviderError;
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

    /// Returns `true` if the request may have reached the provider.
    ///
    /// Returns `false` only for a [`Network`](Self::Network) error with an [`Unsent`] error among its sources. Such a
    /// request used no tokens.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        let Self::Network(error) = self else {
            return true;
        };
        let error: &(dyn std::error::Error + 'static) = &**error;
        // HTTP clients wrap their errors, so look at all sources.
        !std::iter::successors(Some(error), |error| error.source())
            .any(|error| error.is::<Unsent>())
    }

    /// Returns `true` if the call used no tokens, because the provider refused the request or the request was not
    /// [sent](Self::was_sent).
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

    /// Returns the name of the variant. The name is stable across versions, because retry policies and journals use it.
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

/// Formats the delay for the end of an error text, as `, retry after 2s`. Returns an empty text if there is no delay.
pub(super) fn retry_hint(retry_after: &Option<Duration>) -> String {
    retry_after.map(|delay| format!(", retry after {delay:?}")).unwrap_or_default()
}

/// The separator between an error text and the retry delay that [`write_delay`] appends to the text.
const DELAY: &str = ", retry after ";

/// Appends a delay in seconds to an error text. An earlier delay at the end of the text is replaced.
fn write_delay(mut text: String, delay: Duration) -> String {
    if read_delay(&text).is_some() {
        text.truncate(text.rfind(DELAY).unwrap_or(text.len()));
    }
    format!("{text}{DELAY}{}s", delay.as_secs_f64())
}

/// Parses the delay that [`write_delay`] appended to an error text. Returns `None` if the text does not end with a
/// delay.
pub(super) fn read_delay(text: &str) -> Option<Duration> {
    let (_, delay) = text.rsplit_once(DELAY)?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The source of a [`ProviderError::Network`] if the request was not sent because no connection could be established.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unsent(pub BoxError);
