//! The time limit for the answers of workers to queries ([`Patience`]).

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Limits the time for a single query, or for all queries of a list.
#[derive(Debug)]
pub(super) struct Patience {
    /// Maximum time to wait for the answer to one query.
    each: Duration,
    /// Time after which no query is waited for any more.
    end: Instant,
    /// Set if a worker has answered a query.
    has_answer: AtomicBool,
    /// Set if a query was not answered in time.
    is_silent: AtomicBool,
}

impl Patience {
    /// Creates a time limit of `each` for one query, and of `all` for all queries together, counted from now.
    pub(super) fn new(each: Duration, all: Duration) -> Self {
        let end = Instant::now() + all;
        Self { each, end, has_answer: AtomicBool::new(false), is_silent: AtomicBool::new(false) }
    }

    /// Returns the maximum time to wait for the next answer. Returns zero if the first query was not answered, because
    /// probably no worker is running.
    fn left(&self) -> Duration {
        match self.is_silent.load(Relaxed) && !self.has_answer.load(Relaxed) {
            true => Duration::ZERO,
            false => self.each.min(self.end.saturating_duration_since(Instant::now())),
        }
    }

    /// Waits for a worker's answer to a query. Returns `None` if no answer arrives within the time limit.
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
    async fn silent_workers_are_not_awaited_again_until_one_answers() {
        let patience = Patience::new(Duration::from_secs(60), SHORT);
        assert_eq!(patience.wait(pending::<()>()).await, None);
        let patience = Patience::new(SHORT, Duration::from_secs(600));
        assert_eq!((patience.wait(pending::<()>()).await, patience.left()), (None, Duration::ZERO));
        assert_eq!((patience.wait(ready(7)).await, patience.left()), (Some(7), SHORT));
        assert_eq!((patience.wait(pending::<()>()).await, patience.left()), (None, SHORT));
    }
}
