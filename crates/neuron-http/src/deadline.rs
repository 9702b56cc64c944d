//! The deadline of a call ([`Deadline`]). On wasm32 it never expires, because the browser limits its requests.

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
    use std::time::Duration;

    use neuron_types::ProviderError;

    /// A deadline that never expires.
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

        /// Waits for `work` without a limit.
        pub(crate) async fn within<F: Future>(self, work: F) -> Result<F::Output, ProviderError> {
            Ok(work.await)
        }
    }
}
