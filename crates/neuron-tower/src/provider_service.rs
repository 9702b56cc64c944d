//! A provider as a tower service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use neuron_model::{Provider, ProviderError, WasmBoxedFuture};
use tower::Service;

use crate::{ModelCall, ModelResponseFuture};

/// A [`Provider`] as a tower service, which is the innermost service inside all layers.
///
/// The service is always ready, and its clones share the provider. It calls the methods of the provider that borrow the
/// request. A call allocates one box for its future. Dropping the future cancels the call.
pub struct ProviderService<P> {
    provider: Arc<P>,
}

impl<P> ProviderService<P> {
    /// Creates a service from a provider.
    pub fn new(provider: P) -> Self {
        Self { provider: Arc::new(provider) }
    }

    /// Returns the wrapped provider.
    #[must_use]
    pub fn provider(&self) -> &P {
        &self.provider
    }
}

impl<'r, P: Provider + 'static> Service<ModelCall<'r>> for ProviderService<P> {
    type Response = ModelResponseFuture;
    type Error = ProviderError;
    type Future = WasmBoxedFuture<'r, Result<ModelResponseFuture, ProviderError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ProviderError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ModelCall<'r>) -> Self::Future {
        let provider = Arc::clone(&self.provider);
        Box::pin(async move {
            match call.wants_stream() {
                true => Ok(provider.complete_stream_ref(call.request()).await?.into()),
                false => Ok(provider.complete_ref(call.request()).await?.into()),
            }
        })
    }
}

impl<P> Clone for ProviderService<P> {
    fn clone(&self) -> Self {
        Self { provider: Arc::clone(&self.provider) }
    }
}

impl<P> fmt::Debug for ProviderService<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderService").finish_non_exhaustive()
    }
}
