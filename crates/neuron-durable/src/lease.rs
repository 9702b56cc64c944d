//! Runs work only while this process holds the lease of its run ([`while_held`]).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use neuron_types::{DurableError, WasmCompatSend, clock};

/// Polls `work` only while this process holds the lease of its run. It is for durable contexts of engines in which
/// another process takes over a run whose lease expired.
///
/// `prove` asks the engine to confirm that this process still holds the run, and to renew the lease. It is called
///
/// - before the first poll of `work`,
/// - after each third of the lease, and
/// - before the first poll after a pause of more than half of the lease.
///
/// Such a pause happens if the process was stopped or the machine slept. If another process took over the run during
/// the pause, `work` is not polled again.
///
/// `prove` must not wait for `work`, because `work` is not polled while `prove` runs.
///
/// Outside of a tokio runtime there is no timer. The lease is then renewed only when `work` is polled.
///
/// # Errors
///
/// Returns the error of `prove`, or [`DurableError::Other`] if `prove` takes longer than the lease. `work` is dropped
/// in both cases.
///
/// # Cancel safety
///
/// As cancel safe as `work`.
pub async fn while_held<T, F>(
    lease: Duration,
    prove: impl Fn() -> F + WasmCompatSend,
    work: impl Future<Output = T> + WasmCompatSend,
) -> Result<T, DurableError>
where
    F: Future<Output = Result<(), DurableError>> + WasmCompatSend,
{
    let lease = lease.max(SHORTEST);
    let mut work = pin!(work);
    loop {
        let proven = proven(lease, &prove).await?;
        let mut beat = pin!(clock::sleep(lease / 3));
        let (mut is_first, mut has_clock) = (true, true);
        let done = poll_fn(|cx| {
            // The first poll follows the proof directly. Without this exception a slow proof would prevent every poll.
            if !std::mem::take(&mut is_first) && proven.age() > lease / 2 {
                return Poll::Ready(None);
            }
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if has_clock && let Poll::Ready(is_due) = beat.as_mut().poll(cx) {
                has_clock = false;
                if is_due {
                    return Poll::Ready(None);
                }
            }
            Poll::Pending
        });
        if let Some(done) = done.await {
            return Ok(done);
        }
    }
}

/// Minimum length of a lease. Shorter leases are raised to it.
const SHORTEST: Duration = Duration::from_millis(1);

/// Calls `prove`, which asks the engine to confirm that this process holds the run. Repeats the call until it succeeds
/// within the time `lease`. Returns the time before the successful call, because the engine may start the lease then.
async fn proven<F>(lease: Duration, prove: &impl Fn() -> F) -> Result<Moment, DurableError>
where
    F: Future<Output = Result<(), DurableError>>,
{
    loop {
        let moment = Moment::now();
        let Some(proof) = clock::within(lease, prove()).await else {
            let text =
                format!("it took longer than the lease of {lease:?} to prove that the run is held");
            return Err(DurableError::Other(text.into()));
        };
        proof?;
        // An older proof means that the process was stopped during the proof, so the lease may have expired.
        if moment.age() < lease {
            return Ok(moment);
        }
    }
}

/// A point in time for leases, measured by two clocks. The monotonic clock may stop while the machine sleeps. The
/// system clock may be changed.
#[derive(Debug, Clone, Copy)]
pub struct Moment(Instant, SystemTime);

impl Moment {
    /// Returns the current time of both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    /// Returns the time since this moment. If the two clocks disagree, the longer time counts. Returns
    /// [`Duration::MAX`] if the system clock was set back to before the moment.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.0.elapsed().max(self.1.elapsed().unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    const LEASE: Duration = Duration::from_millis(300);

    fn lost() -> DurableError {
        DurableError::Other("lost".into())
    }

    #[tokio::test]
    async fn long_work_renews_the_lease() {
        let proofs = AtomicUsize::new(0);
        let prove = || async {
            proofs.fetch_add(1, SeqCst);
            Ok(())
        };
        let done = while_held(LEASE, prove, clock::sleep(LEASE * 2)).await.unwrap();
        assert!(done && proofs.load(SeqCst) >= 4, "{proofs:?}");
    }

    #[tokio::test]
    async fn work_is_not_polled_after_a_pause_that_lost_the_lease() {
        let (proofs, polls) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let prove = || async {
            match proofs.fetch_add(1, SeqCst) {
                0 => Ok(()),
                _ => Err(lost()),
            }
        };
        let work = poll_fn(|cx| {
            polls.fetch_add(1, SeqCst);
            cx.waker().wake_by_ref();
            // Blocks as if the process had been stopped.
            std::thread::sleep(LEASE);
            Poll::<()>::Pending
        });
        let error = while_held(LEASE, prove, work).await.unwrap_err();
        assert_eq!((error.to_string(), polls.load(SeqCst)), (lost().to_string(), 1));
    }

    #[tokio::test]
    async fn work_is_not_polled_without_a_proof() {
        let polls = AtomicUsize::new(0);
        let work = async { polls.fetch_add(1, SeqCst) };
        while_held(LEASE, || async { Err(lost()) }, work).await.unwrap_err();
        assert_eq!(polls.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn work_continues_after_a_slow_proof() {
        let polls = AtomicUsize::new(0);
        let prove = || async {
            clock::sleep(LEASE * 2 / 3).await;
            Ok(())
        };
        let work = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            match polls.fetch_add(1, SeqCst) {
                0..3 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        while_held(LEASE, prove, work).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn proof_that_hangs_is_an_error() {
        let prove = || std::future::pending::<Result<(), DurableError>>();
        let error = while_held(LEASE, prove, async { unreachable!("not held") }).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("longer than the lease of 300ms"), "{error}");
    }

    #[test]
    fn moment_is_old_after_a_clock_change() {
        let day = Duration::from_secs(24 * 3600);
        let slept = Moment(Instant::now(), SystemTime::now() - day);
        let set_back = Moment(Instant::now(), SystemTime::now() + day);
        assert!(slept.age() >= day && set_back.age() == Duration::MAX);
        assert!(Moment::now().age() < day);
    }

    #[test]
    fn work_ends_without_a_runtime() {
        let work = while_held(LEASE, || async { Ok(()) }, async { 7 });
        let done = futures_util::FutureExt::now_or_never(work);
        assert_eq!(done.unwrap().unwrap(), 7);
    }
}
