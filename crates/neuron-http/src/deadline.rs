//! One time limit for all parts of a call. On wasm32 there is none, because the browser limits its requests itself.

#[cfg(not(target_family = "wasm"))]
pub(crate) use native::Deadline;
#[cfg(target_family = "wasm")]
pub(crate) use wasm::Deadline;

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use neuron_types::ProviderError;
    use pin_project_lite::pin_project;
    use tokio::time::{Instant, Timeout, timeout_at};

    /// The time at which a call ends.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Deadline {
        /// The limit as it was set, for the error.
        limit: Duration,
        at: Instant,
    }

    /// Stands for a limit that the clock cannot represent, about 30 years.
    const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

    impl Deadline {
        /// Sets a time limit that starts now.
        #[must_use]
        pub(crate) fn after(limit: Duration) -> Self {
            let now = Instant::now();
            Self { limit, at: now.checked_add(limit).unwrap_or_else(|| now + FAR) }
        }

        /// Sets a time limit that starts now, unless this deadline is earlier.
        #[must_use]
        pub(crate) fn or_after(self, limit: Duration) -> Self {
            let other = Self::after(limit);
            if self.at <= other.at { self } else { other }
        }

        /// Limits the time of `work`. The future returns [`ProviderError::Timeout`] with the whole limit.
        pub(crate) fn within<F: Future>(self, work: F) -> Within<F> {
            Within { limit: self.limit, work: timeout_at(self.at, work) }
        }
    }

    pin_project! {
        /// The future of [`Deadline::within`]. An `async fn` would hold the space of `work` twice.
        pub(crate) struct Within<F> {
            limit: Duration,
            #[pin]
            work: Timeout<F>,
        }
    }

    impl<F: Future> Future for Within<F> {
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
    use std::time::Duration;

    use neuron_types::ProviderError;

    /// No time limit.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Deadline;

    impl Deadline {
        #[must_use]
        pub(crate) fn after(_limit: Duration) -> Self {
            Self
        }

        #[must_use]
        pub(crate) fn or_after(self, _limit: Duration) -> Self {
            self
        }

        /// Waits for `work`.
        pub(crate) async fn within<F: Future>(self, work: F) -> Result<F::Output, ProviderError> {
            Ok(work.await)
        }
    }
}
