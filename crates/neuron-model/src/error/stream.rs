//! The error of an event stream.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{BoxError, ProviderError, WasmCompatSend, WasmCompatSync};

/// The error that ends an event stream.
///
/// Clones share the original error, which [`as_provider`](Self::as_provider) and [`as_loop`](Self::as_loop) return.
///
/// # Example
///
/// ```
/// use neuron_model::{ProviderError, StreamError};
///
/// let error = StreamError::from(ProviderError::ServiceUnavailable("529 overloaded".into()));
/// assert!(error.is_retryable());
/// assert_eq!(error.to_string(), "service unavailable: 529 overloaded");
/// assert!(matches!(error.as_provider(), Some(ProviderError::ServiceUnavailable(_))));
/// ```
#[derive(Clone)]
pub struct StreamError(Arc<Cause>);

enum Cause {
    Text { message: String, retryable: bool },
    Provider(ProviderError),
    Run(Box<dyn RunError>),
}

/// The error of an agent's run, as the end of a stream.
///
/// This crate knows no runs. `neuron-types` implements the trait for its `LoopError`, so that a [`StreamError`] can carry
/// it. Providers do not need the trait.
pub trait RunError: Error + WasmCompatSend + WasmCompatSync + 'static {
    /// Returns the name of the error's variant, for [`StreamError::kind`].
    fn kind(&self) -> &'static str;

    /// Returns `true` if a retry of the same run may succeed.
    fn is_retryable(&self) -> bool;

    /// Returns the provider's error that ended the run. Returns `None` if a provider did not end it.
    fn as_provider(&self) -> Option<&ProviderError>;

    /// Converts into the error that [`as_provider`](Self::as_provider) returns.
    ///
    /// # Errors
    ///
    /// The unchanged error, if a provider did not end the run.
    fn into_provider(self: Box<Self>) -> Result<ProviderError, Box<dyn RunError>>;
}

/// Names the type of the error that [`StreamError::as_loop`] returns.
///
/// [`StreamError`] implements the trait for one type only, the `LoopError` of `neuron-types`. The compiler therefore
/// infers it, and a call of `as_loop` names no type.
pub trait HoldsRunError<E: RunError> {}

impl StreamError {
    /// Creates an error from a text. A retry of the same request may succeed.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self(Arc::new(Cause::Text { message: message.into(), retryable: true }))
    }

    /// Creates an error from a text. A retry of the same request would fail again.
    pub fn non_retryable(message: impl Into<String>) -> Self {
        Self(Arc::new(Cause::Text { message: message.into(), retryable: false }))
    }

    /// Creates the error with which the stream of a run ends.
    pub fn of_run(error: impl RunError) -> Self {
        Self(Arc::new(Cause::Run(Box::new(error))))
    }

    /// Returns the `Display` text of the error.
    #[must_use]
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Returns `true` if a retry of the same request may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Cause::Text { retryable, .. } => *retryable,
            Cause::Provider(error) => error.is_retryable(),
            Cause::Run(error) => error.is_retryable(),
        }
    }

    /// Returns `true` if the error is not [retryable](Self::is_retryable) and does not come from a provider.
    ///
    /// A provider's error is never final, even if it is not retryable. For example, a connection that is lost within a
    /// response is not retryable, because the reader has received a part of the response. A caller that can discard
    /// this part may repeat the call.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !self.is_retryable() && self.as_provider().is_none()
    }

    /// Returns the delay before the next attempt that the provider requests. Returns `None` if the provider requests no
    /// delay.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.as_provider().and_then(ProviderError::retry_after)
    }

    /// Returns the [`RunError::kind`] or [`ProviderError::kind`] of the error, which is a stable name. Returns
    /// `StreamError` for an error that was created from a text.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &*self.0 {
            Cause::Text { .. } => "StreamError",
            Cause::Provider(error) => error.kind(),
            Cause::Run(error) => error.kind(),
        }
    }

    /// Returns the provider's error that caused this error. Returns `None` if the cause is not a provider.
    #[must_use]
    pub fn as_provider(&self) -> Option<&ProviderError> {
        match &*self.0 {
            Cause::Text { .. } => None,
            Cause::Provider(error) => Some(error),
            Cause::Run(error) => error.as_provider(),
        }
    }

    /// Returns the error of an agent's run, which is the `LoopError` of `neuron-types`. Returns `None` if the error is not
    /// from the stream of a run.
    #[must_use]
    pub fn as_loop<E: RunError>(&self) -> Option<&E>
    where
        Self: HoldsRunError<E>,
    {
        let Cause::Run(error) = &*self.0 else {
            return None;
        };
        let error: &(dyn Error + 'static) = &**error;
        error.downcast_ref()
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Text { message, .. } => f.write_str(message),
            Cause::Provider(error) => error.fmt(f),
            Cause::Run(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Text { message, retryable } => f
                .debug_struct("StreamError")
                .field("message", message)
                .field("retryable", retryable)
                .finish(),
            Cause::Provider(error) => f.debug_tuple("StreamError").field(error).finish(),
            Cause::Run(error) => f.debug_tuple("StreamError").field(error).finish(),
        }
    }
}

impl Error for StreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            Cause::Text { .. } => None,
            Cause::Provider(error) => error.source(),
            Cause::Run(error) => error.source(),
        }
    }
}

impl From<ProviderError> for StreamError {
    fn from(error: ProviderError) -> Self {
        Self(Arc::new(Cause::Provider(error)))
    }
}

/// Converts into the provider's error that caused this error.
///
/// - If other clones of the error exist, the result is a copy of the provider's error, with the same variant and text.
/// - A retryable error that was created from a text becomes [`ProviderError::ServiceUnavailable`].
/// - A [final](StreamError::is_final) error becomes [`ProviderError::Other`], because no call is repeated after this
///   error.
impl From<StreamError> for ProviderError {
    fn from(error: StreamError) -> Self {
        // Without other clones, the original error can be moved out.
        let shared = match Arc::try_unwrap(error.0) {
            Ok(Cause::Provider(error)) => return error,
            Ok(Cause::Run(error)) => match error.into_provider() {
                Ok(error) => return error,
                Err(error) => StreamError(Arc::new(Cause::Run(error))),
            },
            Ok(cause) => StreamError(Arc::new(cause)),
            Err(shared) => StreamError(shared),
        };
        if let Some(error) = shared.as_provider() {
            return copy_of(error, &shared);
        }
        match &*shared.0 {
            Cause::Text { message, retryable: true } => Self::ServiceUnavailable(message.clone()),
            _ => Self::Other(Box::new(shared)),
        }
    }
}

/// Copies the provider error inside `shared`. A boxed source cannot be cloned, so the copy refers to the source inside
/// `shared`.
fn copy_of(error: &ProviderError, shared: &StreamError) -> ProviderError {
    use ProviderError as E;
    let source = || -> BoxError { Box::new(SharedSource(shared.clone())) };
    match error {
        E::Network(_) => E::Network(source()),
        E::RateLimit { retry_after } => E::RateLimit { retry_after: *retry_after },
        E::ModelLoading(text) => E::ModelLoading(text.clone()),
        E::Timeout(duration) => E::Timeout(*duration),
        E::ServiceUnavailable(text) => E::ServiceUnavailable(text.clone()),
        E::Authentication(text) => E::Authentication(text.clone()),
        E::InvalidRequest(text) => E::InvalidRequest(text.clone()),
        E::ContextWindowExceeded(text) => E::ContextWindowExceeded(text.clone()),
        E::ModelNotFound(text) => E::ModelNotFound(text.clone()),
        E::InsufficientResources(text) => E::InsufficientResources(text.clone()),
        E::StreamError(text) => E::StreamError(text.clone()),
        E::Other(_) => E::Other(source()),
    }
}

/// The source of a copied [`ProviderError`]. It shares the source of the original error, which cannot be cloned.
///
/// `Display` shows only the original source, because the copied error adds the prefix of its variant.
#[derive(Debug)]
struct SharedSource(StreamError);

impl SharedSource {
    fn get(&self) -> &(dyn Error + 'static) {
        match self.0.as_provider() {
            Some(ProviderError::Network(source) | ProviderError::Other(source)) => &**source,
            _ => &self.0,
        }
    }
}

impl fmt::Display for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.get(), f)
    }
}

impl Error for SharedSource {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.get().source()
    }
}
