//! Work that runs only while this process has not paused for longer than its lease ([`held`]).

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use neuron_durable::{Moment, while_held};
use neuron_types::DurableError;
use restate_sdk::errors::HandlerResult;

/// Polls `work` to its end. Drops `work` and returns an error if this process pauses for longer than `lease`, because
/// Restate may then have called another process.
///
/// Restate gives up a process that does not respond for a certain time, which is longer than the lease. After a shorter
/// pause than the lease, this process therefore still holds the invocation. No request to Restate is needed.
pub(crate) async fn held<T>(
    lease: Duration,
    work: impl Future<Output = HandlerResult<T>> + Send,
) -> HandlerResult<T> {
    let proven = Mutex::new(Moment::now());
    let prove = || {
        let mut proven = proven.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = std::mem::replace(&mut *proven, Moment::now()).age();
        let result = match pause <= lease {
            true => Ok(()),
            false => Err(lost(pause, lease)),
        };
        async move { result }
    };
    match while_held(lease, prove, work).await {
        Ok(done) => done,
        // Restate retries the invocation, unless it has already called another process.
        Err(error) => Err(error.to_string().into()),
    }
}

/// Creates the error for a pause that was longer than the lease.
fn lost(pause: Duration, lease: Duration) -> DurableError {
    let text = format!(
        "the process stood still for {pause:.1?}, longer than its lease of {lease:?}: another one may have the invocation"
    );
    tracing::warn!(
        ?pause,
        ?lease,
        "a handler was dropped, because the process paused for longer than its lease"
    );
    DurableError::Other(text.into())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::Duration;

    use restate_sdk::errors::HandlerResult;

    use super::held;

    const LEASE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn work_is_dropped_after_a_pause_longer_than_the_lease() {
        let mut polls = 0;
        let work = poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            // Blocks the thread like a process that is stopped.
            std::thread::sleep(LEASE * 2);
            Poll::<HandlerResult<()>>::Pending
        });
        held(LEASE, work).await.unwrap_err();
        assert_eq!(polls, 1);
    }

    #[tokio::test]
    async fn work_without_a_pause_outlives_the_lease() {
        let work = async {
            tokio::time::sleep(Duration::from_millis(2500)).await;
            Ok(7)
        };
        assert_eq!(held(Duration::from_secs(1), work).await.unwrap(), 7);
    }
}
