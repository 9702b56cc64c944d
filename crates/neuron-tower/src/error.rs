//! Classification of the errors of layers, and their conversion to errors of neuron.

use std::fmt;
use std::time::Duration;

use neuron_model::{EmbeddingError, ProviderError};
use tower::BoxError;
use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;

/// An error that states whether a retry of the same call may succeed. [`RetryTransient`](crate::RetryTransient) uses
/// this information.
///
/// [`ProviderError`], [`EmbeddingError`] and [`tower::BoxError`] implement this trait. Many layers box their errors as
/// `BoxError`. Implement the trait for the error types of your own layers.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use neuron_tower::RetryableError;
/// use neuron_model::ProviderError;
///
/// let limited = ProviderError::RateLimit { retry_after: Some(Duration::from_secs(3)) };
/// let boxed = tower::BoxError::from(limited);
/// assert!(boxed.is_retryable());
/// assert_eq!(boxed.retry_after(), Some(Duration::from_secs(3)));
///
/// let elapsed = tower::BoxError::from(tower::timeout::error::Elapsed::new());
/// assert!(elapsed.is_retryable());
/// ```
pub trait RetryableError: fmt::Display {
    /// Returns `true` if a retry of the same call may succeed.
    fn is_retryable(&self) -> bool;

    /// Returns the minimum delay before a retry. Returns `None` if the error requests no delay.
    fn retry_after(&self) -> Option<Duration>;
}

impl RetryableError for ProviderError {
    fn is_retryable(&self) -> bool {
        ProviderError::is_retryable(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        ProviderError::retry_after(self)
    }
}

impl RetryableError for EmbeddingError {
    fn is_retryable(&self) -> bool {
        EmbeddingError::is_retryable(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        EmbeddingError::retry_after(self)
    }
}

/// For a [`ProviderError`] or [`EmbeddingError`] in the box, returns the result of this error. tower's [`Elapsed`] and
/// [`Overloaded`] are retryable. Any other error is not retryable.
impl RetryableError for BoxError {
    fn is_retryable(&self) -> bool {
        match inner(self) {
            Some(error) => error.is_retryable(),
            None => self.is::<Elapsed>() || self.is::<Overloaded>(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        inner(self)?.retry_after()
    }
}

/// Returns the [`ProviderError`] or [`EmbeddingError`] inside the box. Returns `None` for any other error.
fn inner(error: &BoxError) -> Option<&dyn RetryableError> {
    if let Some(error) = error.downcast_ref::<ProviderError>() {
        return Some(error);
    }
    Some(error.downcast_ref::<EmbeddingError>()?)
}

/// Converts the error of a service to a [`ProviderError`]. `waited` is the duration of the call, for
/// [`ProviderError::Timeout`].
pub(crate) fn provider_error(error: BoxError, waited: Duration) -> ProviderError {
    match error.downcast::<ProviderError>() {
        Ok(error) => *error,
        Err(error) if error.is::<Elapsed>() => ProviderError::Timeout(waited),
        Err(error) if error.is::<Overloaded>() => {
            ProviderError::ServiceUnavailable("the load-shed layer rejected the call".into())
        }
        Err(error) => ProviderError::Other(error),
    }
}

/// Converts the error of a service to an [`EmbeddingError`]. `waited` is the duration of the call, for
/// [`EmbeddingError::Timeout`].
pub(crate) fn embedding_error(error: BoxError, waited: Duration) -> EmbeddingError {
    match error.downcast::<EmbeddingError>() {
        Ok(error) => *error,
        Err(error) => provider_error(error, waited).into(),
    }
}
