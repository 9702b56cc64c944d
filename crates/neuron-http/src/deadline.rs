//! One time limit for all parts of a call.

use std::future::Future;
use std::time::Duration;

use neuron_types::ProviderError;

/// When a call must be over, whatever it is made of. The browser limits the time of its requests
/// itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    #[cfg(not(target_family = "wasm"))]
    limit: Duration,
    /// `None` is further away than a clock can tell.
    #[cfg(not(target_family = "wasm"))]
    at: Option<tokio::time::Instant>,
}

impl Deadline {
    /// Sets a time limit that begins now.
    #[cfg(not(target_family = "wasm"))]
    #[must_use]
    pub(crate) fn after(limit: Duration) -> Self {
        let at = tokio::time::Instant::now().checked_add(limit);
        Self { limit, at }
    }

    /// Sets a time limit that begins now.
    #[cfg(target_family = "wasm")]
    #[must_use]
    pub(crate) fn after(_limit: Duration) -> Self {
        Self {}
    }

    /// Sets a time limit that begins now, unless this one ends before it.
    #[cfg(not(target_family = "wasm"))]
    #[must_use]
    pub(crate) fn or_after(self, limit: Duration) -> Self {
        let sooner = Self::after(limit);
        match (self.at, sooner.at) {
            (Some(at), Some(other)) if at <= other => self,
            _ => sooner,
        }
    }

    /// Sets a time limit that begins now, unless this one ends before it.
    #[cfg(target_family = "wasm")]
    #[must_use]
    pub(crate) fn or_after(self, _limit: Duration) -> Self {
        self
    }

    /// Limits the time of `work` to what is left.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Timeout`] with the whole limit.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) async fn within<T>(self, work: impl Future<Output = T>) -> Result<T, ProviderError> {
        match self.at {
            Some(at) => tokio::time::timeout_at(at, work)
                .await
                .map_err(|_| ProviderError::Timeout(self.limit)),
            None => Ok(work.await),
        }
    }

    /// Waits for `work`.
    ///
    /// # Errors
    ///
    /// None: the browser limits the time.
    #[cfg(target_family = "wasm")]
    pub(crate) async fn within<T>(self, work: impl Future<Output = T>) -> Result<T, ProviderError> {
        Ok(work.await)
    }
}
