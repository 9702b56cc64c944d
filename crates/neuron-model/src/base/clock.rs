//! Sleep and timeout functions that do not panic outside of a tokio runtime or on wasm32.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

#[cfg(target_family = "wasm")]
use std::convert::identity as unconstrained;
#[cfg(not(target_family = "wasm"))]
use std::{
    cell::Cell,
    sync::{Mutex, PoisonError},
};
#[cfg(not(target_family = "wasm"))]
use tokio::{runtime::Id, task::unconstrained};

/// Waits for `duration` and returns `true`.
///
/// Returns `false` immediately if `duration` is zero, if there is no tokio runtime, or if the runtime has no timer, which
/// `enable_time` of its builder enables. The first call in a runtime without a timer prints a panic of tokio, which is
/// caught, and logs a warning.
///
/// On wasm32, the timer is JavaScript's `setTimeout`, which needs no tokio runtime. A wasm program outside of
/// JavaScript has no timer, so the function always returns `false` immediately.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_model::clock::sleep;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert!(sleep(Duration::from_millis(1)).await);
/// # }
/// ```
#[cfg(not(target_family = "wasm"))]
pub async fn sleep(duration: Duration) -> bool {
    let has_clock = !duration.is_zero() && has_timer();
    if has_clock {
        tokio::time::sleep(duration).await;
    }
    has_clock
}

/// Returns `true` in a tokio runtime with a timer.
#[cfg(not(target_family = "wasm"))]
fn has_timer() -> bool {
    /// The runtimes without a timer.
    static WITHOUT: Mutex<Vec<Id>> = Mutex::new(Vec::new());
    thread_local! {
        /// The runtime that this thread asked for last, and whether it has a timer.
        static LAST: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return false;
    };
    let id = runtime.id();
    if let Some((last, has_timer)) = LAST.get()
        && last == id
    {
        return has_timer;
    }
    let mut without = WITHOUT.lock().unwrap_or_else(PoisonError::into_inner);
    // A panic is the only way in which tokio tells that a runtime has no timer.
    let works = || std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    let has_timer = !without.contains(&id) && works();
    if !has_timer && !without.contains(&id) {
        without.push(id);
        tracing::warn!("the tokio runtime has no timer, so no timeout applies: call `enable_time`");
    }
    LAST.set(Some((id, has_timer)));
    has_timer
}

/// Waits for `duration` and returns `true`.
///
/// Returns `false` immediately if `duration` is zero. Uses JavaScript's `setTimeout`.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub async fn sleep(duration: Duration) -> bool {
    // `setTimeout` fires immediately if the delay in milliseconds exceeds 31 bits, about 24 days.
    const LONGEST: u128 = i32::MAX as u128;
    // Rounded up, because a sleep must not be too short.
    let mut left = duration.as_nanos().div_ceil(1_000_000);
    while left > 0 {
        let part = left.min(LONGEST);
        gloo_timers::future::TimeoutFuture::new(u32::try_from(part).unwrap_or(u32::MAX)).await;
        left -= part;
    }
    !duration.is_zero()
}

/// Returns `false` immediately, because a wasm program outside of JavaScript has no timer.
#[cfg(all(target_family = "wasm", not(target_os = "unknown")))]
pub async fn sleep(_duration: Duration) -> bool {
    false
}

/// Waits for `work` and returns its result. Returns `None` and drops `work` if `limit` expires first.
///
/// The work never times out without a limit, or if there is no timer (see [`sleep`]). A limit of zero works everywhere.
/// It expires if `work` is not ready at the first poll.
pub async fn within<T>(
    limit: impl Into<Option<Duration>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let limit = limit.into();
    // Work that uses up tokio's cooperative budget in each poll must not stop the timer.
    let mut time = pin!(unconstrained(sleep(limit.unwrap_or_default())));
    let mut work = pin!(work);
    let mut has_clock = limit.is_some();
    std::future::poll_fn(|cx| {
        // Poll the work first, so that it succeeds if it is ready at the deadline.
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        // Without a timer, `sleep` returns `false` immediately. Only a zero limit has then expired.
        if has_clock && let Poll::Ready(is_up) = time.as_mut().poll(cx) {
            if is_up || limit == Some(Duration::ZERO) {
                return Poll::Ready(None);
            }
            has_clock = false;
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn within_drops_work_after_the_limit() {
        assert_eq!(within(LIMIT, async { 1 }).await, Some(1));
        assert_eq!(within(LIMIT, sleep(LIMIT * 2)).await, None);
        assert_eq!(within(LIMIT * 2, sleep(LIMIT)).await, Some(true));
        assert_eq!(within(Duration::ZERO, std::future::pending::<()>()).await, None);
        assert!(!sleep(Duration::ZERO).await);
    }

    /// Regression test. Before the fix, the first limit in such a runtime panicked.
    #[test]
    fn runtime_without_a_timer_has_no_limits() {
        for _ in 0..2 {
            let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
            bare.block_on(async {
                for _ in 0..2 {
                    assert!(!sleep(LIMIT).await);
                    let yields = tokio::task::yield_now();
                    assert_eq!(within(LIMIT, yields).await, Some(()));
                    assert_eq!(within(Duration::ZERO, std::future::pending::<()>()).await, None);
                }
            });
            let timed =
                tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            assert!(timed.block_on(sleep(LIMIT)));
        }
    }

    #[tokio::test]
    async fn limit_expires_while_work_uses_up_the_budget_of_its_task() {
        let busy = async {
            loop {
                tokio::task::coop::consume_budget().await;
            }
        };
        assert_eq!(within(LIMIT, busy).await, None::<()>);
    }

    #[test]
    fn without_clock_sleep_returns_and_limits_never_expire() {
        let waits = async {
            let mut polls = 0;
            let work = std::future::poll_fn(|cx| {
                polls += 1;
                cx.waker().wake_by_ref();
                if polls < 5 { Poll::Pending } else { Poll::Ready(polls) }
            });
            (sleep(LIMIT).await, within(LIMIT, work).await)
        };
        assert_eq!(
            futures_util::FutureExt::now_or_never(async { sleep(LIMIT).await }),
            Some(false)
        );
        let mut waits = pin!(waits);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let ended = (0..9).find_map(|_| match waits.as_mut().poll(&mut cx) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        });
        assert_eq!(ended, Some((false, Some(5))));
    }
}
