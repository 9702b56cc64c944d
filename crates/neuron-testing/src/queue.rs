//! The queue of scripted replies. Each call takes the next reply.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A first-in, first-out queue of replies, which calls share by reference.
#[derive(Debug)]
pub(crate) struct Queue<R>(Mutex<State<R>>);

#[derive(Debug)]
struct State<R> {
    left: VecDeque<R>,
    /// Number of replies, including used replies.
    total: usize,
    /// Number of calls, including calls that got no reply.
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

    /// Takes the next reply. Also returns the number of the call, counted from 1.
    pub(crate) fn take(&self) -> Result<(usize, R), Exhausted> {
        let mut state = lock(&self.0);
        state.calls += 1;
        let call = state.calls;
        match state.left.pop_front() {
            Some(reply) => Ok((call, reply)),
            None => Err(Exhausted { total: state.total, call }),
        }
    }

    pub(crate) fn remaining(&self) -> usize {
        lock(&self.0).left.len()
    }

    /// Panics if replies are left.
    #[track_caller]
    pub(crate) fn assert_complete(&self) {
        let (left, total) = {
            let state = lock(&self.0);
            (state.left.len(), state.total)
        };
        assert!(left == 0, "{left} of the script's {total} replies were not used");
    }
}

/// Locks a mutex whose data is valid even after a panic.
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
    fn gives_replies_in_order_then_says_how_many_there_were() {
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
    fn complains_of_replies_that_are_left() {
        let queue = Queue::new([1, 2, 3]);
        assert!(queue.take().is_ok());
        queue.assert_complete();
    }
}
