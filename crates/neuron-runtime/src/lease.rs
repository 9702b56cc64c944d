//! Work that runs only while this process holds its run ([`while_held`]).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use neuron_types::{DurableError, WasmCompatSend, clock};

/// Polls `work` only while this process holds its run. For durable contexts whose runs another process takes over
/// after a lease.
///
/// `prove` proves to the engine that the run is still held, and renews the lease. It is called before the first poll of
/// `work`, then at every third of the lease, and before the first poll after a pause of more than half of the lease. So
/// a process that was stopped or hung, or whose machine slept, begins nothing once it goes on, if another one holds the
/// run by then.
///
/// `prove` must not wait for `work`, which is not polled meanwhile.
///
/// Outside of a tokio runtime there is no clock: the lease is renewed when `work` is polled.
///
/// # Errors
///
/// The error of `prove`, and [`DurableError::Other`] if it takes longer than the lease. `work` is dropped then.
///
/// # Cancel safety
///
/// That of `work`.
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
            // However slow the proof was, it lets the work go on.
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

/// The shortest lease that can be proven.
const SHORTEST: Duration = Duration::from_millis(1);

/// Proves that the run is held. Returns the moment before the proof, from which the engine may count.
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
        // Otherwise the process was stopped meanwhile.
        if moment.age() < lease {
            return Ok(moment);
        }
    }
}

/// A moment by two clocks, for leases. One clock stands still while the machine sleeps, and the other may be set.
#[derive(Debug, Clone, Copy)]
pub struct Moment(Instant, SystemTime);

impl Moment {
    /// Returns the current moment.
    #[must_use]
    pub fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    /// Returns the time since then, by the clock that says more. After a clock was set back it is [`Duration::MAX`].
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
    async fn work_that_takes_long_renews_the_lease() {
        let proofs = AtomicUsize::new(0);
        let prove = || async {
            proofs.fetch_add(1, SeqCst);
            Ok(())
        };
        let done = while_held(LEASE, prove, clock::sleep(LEASE * 2)).await.unwrap();
        assert!(done && proofs.load(SeqCst) >= 4, "{proofs:?}");
    }

    #[tokio::test]
    async fn nothing_begins_after_a_pause_in_which_the_run_was_lost() {
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
            // As long as a process that was stopped.
            std::thread::sleep(LEASE);
            Poll::<()>::Pending
        });
        let error = while_held(LEASE, prove, work).await.unwrap_err();
        assert_eq!((error.to_string(), polls.load(SeqCst)), (lost().to_string(), 1));
    }

    #[tokio::test]
    async fn nothing_begins_without_a_proof() {
        let polls = AtomicUsize::new(0);
        let work = async { polls.fetch_add(1, SeqCst) };
        while_held(LEASE, || async { Err(lost()) }, work).await.unwrap_err();
        assert_eq!(polls.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn slow_proof_lets_the_work_go_on() {
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
    fn moment_of_a_clock_that_was_set_is_old() {
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
