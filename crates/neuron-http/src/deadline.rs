//! The deadline of a call ([`Deadline`]).

use std::time::Duration;

#[cfg(not(target_family = "wasm"))]
pub(crate) use tokio::time::Instant;
#[cfg(target_family = "wasm")]
pub(crate) use web_time::Instant;

/// The time at which a call must have ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// The configured time limit of the call, which timeout errors report.
    limit: Duration,
    at: Instant,
}

/// Maximum time limit, about 30 years. It replaces longer limits, because the clock cannot represent their end.
const MAX_LIMIT: Duration = Duration::from_secs(86_400 * 365 * 30);

impl Deadline {
    /// Creates a deadline that is `limit` from now.
    #[must_use]
    pub(crate) fn after(limit: Duration) -> Self {
        let now = Instant::now();
        Self { limit, at: now.checked_add(limit).unwrap_or_else(|| now + MAX_LIMIT) }
    }

    /// Returns the earlier of this deadline and a deadline that is `limit` from now.
    #[must_use]
    pub(crate) fn or_after(self, limit: Duration) -> Self {
        let other = Self::after(limit);
        if self.at <= other.at { self } else { other }
    }
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use neuron_model::ProviderError;
    use pin_project_lite::pin_project;
    use tokio::time::{Timeout, timeout_at};

    use super::Deadline;

    impl Deadline {
        /// Polls `work` until the deadline. At the deadline the future returns [`ProviderError::Timeout`] with the
        /// configured limit.
        pub(crate) fn within<F: Future>(self, work: F) -> WithinDeadline<F> {
            WithinDeadline { limit: self.limit, work: timeout_at(self.at, work) }
        }
    }

    pin_project! {
        /// The future of [`Deadline::within`]. It is a type of its own, because an `async fn` would store `work` twice.
        pub(crate) struct WithinDeadline<F> {
            limit: Duration,
            #[pin]
            work: Timeout<F>,
        }
    }

    impl<F: Future> Future for WithinDeadline<F> {
        type Output = Result<F::Output, ProviderError>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            let this = self.project();
            this.work.poll(cx).map_err(|_| ProviderError::Timeout(*this.limit))
        }
    }
}

#[cfg(target_family = "wasm")]
mod wasm {
    use std::future::Future;

    use neuron_model::{ProviderError, clock};
    use web_time::Instant;

    use super::Deadline;

    impl Deadline {
        /// Polls `work` until the deadline. At the deadline the future returns [`ProviderError::Timeout`] with the
        /// configured limit.
        pub(crate) async fn within<F: Future>(self, work: F) -> Result<F::Output, ProviderError> {
            let left = self.at.saturating_duration_since(Instant::now());
            clock::within(left, work).await.ok_or(ProviderError::Timeout(self.limit))
        }
    }
}
