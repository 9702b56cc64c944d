//! Sources of API keys that change while the program runs ([`KeySource`]).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use neuron_model::{ProviderError, WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

use crate::Secret;

/// A source of API keys that change while the program runs. Examples are tokens of Azure Entra, Google Cloud, AWS or a
/// vault.
///
/// A provider calls the source before each request, so the source should cache its token until it expires.
///
/// # Example
///
/// ```
/// use neuron_http::KeySource;
/// use neuron_model::ProviderError;
///
/// let source = KeySource::new(|| async {
///     std::fs::read_to_string("/var/run/secrets/token")
///         .map(|token| token.trim().to_owned())
///         .map_err(|error| ProviderError::Authentication(format!("no token: {error}")))
/// });
/// ```
#[derive(Clone)]
pub struct KeySource(Arc<dyn KeySourceDyn>);

impl KeySource {
    /// Creates a source from a function that returns the current key.
    ///
    /// The provider's call returns the error of this function. [`ProviderError::Network`] is retryable, and
    /// [`ProviderError::Authentication`] is not.
    pub fn new<F, K>(key: F) -> Self
    where
        F: Fn() -> K + WasmCompatSend + WasmCompatSync + 'static,
        K: Future<Output = Result<String, ProviderError>> + WasmCompatSend,
    {
        Self(Arc::new(key))
    }

    /// Returns the current key.
    ///
    /// # Errors
    ///
    /// Returns the error of the source's function.
    ///
    /// # Cancel safety
    ///
    /// This method is as cancel safe as the future that the source's function returns.
    pub async fn key(&self) -> Result<Secret, ProviderError> {
        Ok(Secret::new(self.0.key().await?))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySource").finish_non_exhaustive()
    }
}

/// Object-safe form of the function that returns the key.
trait KeySourceDyn: WasmCompatSend + WasmCompatSync {
    fn key(&self) -> WasmBoxedFuture<'_, Result<String, ProviderError>>;
}

impl<F, K> KeySourceDyn for F
where
    F: Fn() -> K + WasmCompatSend + WasmCompatSync,
    K: Future<Output = Result<String, ProviderError>> + WasmCompatSend,
{
    fn key(&self) -> WasmBoxedFuture<'_, Result<String, ProviderError>> {
        Box::pin(async move { self().await })
    }
}
