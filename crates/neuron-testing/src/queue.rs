//! The queue of scripted replies, and the error for a call after the last reply.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A first-in, first-out queue of scripted replies. Concurrent calls may take replies through a shared reference.
#[derive(Debug)]
pub(crate) struct Queue<R>(Mutex<State<R>>);

#[derive(Debug)]
struct State<R> {
    left: VecDeque<R>,
    /// Number of replies that were ever in the queue, including used replies.
    total: usize,
    /// Number of calls of `take`, including calls that found no reply.
    calls: usize,
}

/// The error for a call after the last reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted {
    total: usize,
    call: usize,
}

impl<R> Queue<R> {
    pub(crate) fn new(replies: impl IntoIterator<Item = R>) -> Self {
        let left: VecDeque<R> = replies.into_iter().collect();
        Self(Mutex::new(State { total: left.len(), left, calls: 0 }))
    }

    pub(crate) fn push(&self, reply: R) {
        let mut state = lock(&self.0);
        state.left.push_back(reply);
        state.total += 1;
    }

    /// Takes the next reply. Returns the number of the call, counted from 1, and the reply.
    ///
    /// Returns [`Exhausted`] if no reply is left.
    pub(crate) fn take(&self) -> Result<(usize, R), Exhausted> {
        let mut state = lock(&self.0);
        state.calls += 1;
        let call = state.calls;
        match state.left.pop_front() {
            Some(reply) => Ok((call, reply)),
            None => Err(Exhausted { total: state.total, call }),
        }
    }

    /// Returns the number of replies that are not used yet.
    pub(crate) fn remaining(&self) -> usize {
        lock(&self.0).left.len()
    }

    /// Panics if a reply is not used yet.
    #[track_caller]
    pub(crate) fn assert_complete(&self) {
        let (left, total) = {
            let state = lock(&self.0);
            (state.left.len(), state.total)
        };
        assert!(left == 0, "{left} of the script's {total} replies were not used");
    }
}

/// Locks a mutex and ignores poisoning. Use only for data that is valid even after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, call } = self;
        let noun = if *total == 1 { "reply" } else { "replies" };
        write!(f, "the script has {total} {noun} and this is call {call}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_returns_replies_in_order_then_an_error_with_the_total() {
        let queue = Queue::new(["a"]);
        queue.push("b");
        assert_eq!(queue.take(), Ok((1, "a")));
        assert_eq!(queue.remaining(), 1);
        assert_eq!(queue.take(), Ok((2, "b")));
        queue.assert_complete();
        let exhausted = queue.take().unwrap_err();
        assert_eq!(exhausted.to_string(), "the script has 2 replies and this is call 3");
    }

    #[test]
    #[should_panic(expected = "2 of the script's 3 replies were not used")]
    fn assert_complete_panics_if_replies_are_left() {
        let queue = Queue::new([1, 2, 3]);
        assert!(queue.take().is_ok());
        queue.assert_complete();
    }
}
