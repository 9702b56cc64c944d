//! The time limit for workers to answer queries ([`Patience`]).

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time that workers have to answer the queries of a list, or one query.
#[derive(Debug)]
pub(super) struct Patience {
    /// Time for one answer.
    each: Duration,
    /// Time at which nothing is waited for any more.
    end: Instant,
    has_answer: AtomicBool,
    is_silent: AtomicBool,
}

impl Patience {
    pub(super) fn new(each: Duration, all: Duration) -> Self {
        let end = Instant::now() + all;
        Self { each, end, has_answer: AtomicBool::new(false), is_silent: AtomicBool::new(false) }
    }

    /// Time for the next answer. Where no worker is, the first one that does not answer is waited for.
    fn left(&self) -> Duration {
        match self.is_silent.load(Relaxed) && !self.has_answer.load(Relaxed) {
            true => Duration::ZERO,
            false => self.each.min(self.end.saturating_duration_since(Instant::now())),
        }
    }

    /// Waits for an answer. `None` if there is none in time.
    pub(super) async fn wait<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let answer = tokio::time::timeout(self.left(), answer).await.ok();
        let heard = if answer.is_some() { &self.has_answer } else { &self.is_silent };
        heard.store(true, Relaxed);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn silent_worker_is_waited_for_once_and_one_that_answers_always() {
        let patience = Patience::new(Duration::from_secs(60), SHORT);
        assert_eq!(patience.wait(pending::<()>()).await, None);
        let patience = Patience::new(SHORT, Duration::from_secs(600));
        assert_eq!((patience.wait(pending::<()>()).await, patience.left()), (None, Duration::ZERO));
        assert_eq!((patience.wait(ready(7)).await, patience.left()), (Some(7), SHORT));
        assert_eq!((patience.wait(pending::<()>()).await, patience.left()), (None, SHORT));
    }
}
