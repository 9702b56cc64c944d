//! Hides wakes among the futures of a run from the SDK ([`with_own_wakes`]).
//!
//! The SDK fails a workflow task if anything except the SDK wakes the workflow, because the order of such wakes may
//! differ on replay. The futures of a run also wake each other while they are polled. For example, the reader of a
//! stream wakes the loop when it takes an event. The order of these wakes depends only on the code, so they are safe.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::{self, ThreadId};

/// Polls a future, and polls it again immediately if it was woken by the polling thread during the poll. Passes all
/// other wakes to the SDK.
pub(crate) async fn with_own_wakes<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let wakes = Arc::new(OwnWakes::default());
    let waker = Waker::from(wakes.clone());
    poll_fn(|cx| {
        loop {
            wakes.begin(cx.waker());
            let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
            let is_woken = wakes.end();
            if poll.is_ready() || !is_woken {
                return poll;
            }
        }
    })
    .await
}

/// A waker that distinguishes wakes by the polling thread during a poll from all other wakes.
#[derive(Default)]
struct OwnWakes(Mutex<State>);

#[derive(Default)]
struct State {
    /// The thread that is polling the future. `None` between two polls.
    polled_by: Option<ThreadId>,
    /// `true` if the thread that is polling the future also woke it during the current poll.
    is_woken: bool,
    /// The SDK's waker. It is woken by other threads, and by any thread between two polls.
    outer: Option<Waker>,
}

impl OwnWakes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a poll on the current thread. Wakes by this thread during the poll are only recorded. All other wakes go
    /// to `outer`, the SDK's waker.
    fn begin(&self, outer: &Waker) {
        let polled_by = Some(thread::current().id());
        *self.lock() = State { polled_by, is_woken: false, outer: Some(outer.clone()) };
    }

    /// Ends the poll that is in progress. Returns `true` if the polling thread woke the future during that poll.
    fn end(&self) -> bool {
        let mut state = self.lock();
        state.polled_by = None;
        state.is_woken
    }
}

impl Wake for OwnWakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.polled_by == Some(thread::current().id()) {
            state.is_woken = true;
            return;
        }
        let outer = state.outer.clone();
        drop(state);
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use futures::FutureExt;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn futures_that_wake_each_other_end_in_one_poll() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let (sender, mut receiver) = mpsc::channel(1);
        let send = async move {
            for number in 0..100 {
                sender.send(number).await.unwrap();
            }
        };
        let receive = async move {
            let mut sum = 0;
            while let Some(number) = receiver.recv().await {
                sum += number;
            }
            sum
        };
        let mut both = pin!(with_own_wakes(futures::future::join(receive, send)));
        let polled = both.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled.map(|(sum, ())| sum), Poll::Ready(4950));
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn wake_outside_the_poll_or_by_another_thread_reaches_the_sdk() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);

        let (sender, receiver) = oneshot::channel();
        let mut waits = pin!(with_own_wakes(receiver));
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        sender.send(7).unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));

        let (sender, receiver) = oneshot::channel();
        let mut receiver = receiver.fuse();
        let mut sender = Some(sender);
        let mut waits = pin!(with_own_wakes(poll_fn(|cx| {
            let poll = receiver.poll_unpin(cx);
            if let Some(sender) = sender.take() {
                thread::spawn(move || sender.send(8).unwrap()).join().unwrap();
            }
            poll
        })));
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(Ok(8)));
    }
}
