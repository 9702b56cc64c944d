//! Tests of `CallScope`, the hook scopes around a tool call in a durable context.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use neuron_types::{CallScope, LoopError, Outcome};

use crate::scope::{Log, PollMode, open, two_polls};

fn scope(log: &Log) -> CallScope {
    CallScope::new(open([PollMode::Once], log))
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

const CANCELLED: Outcome<'static> = Outcome::Error(&LoopError::Cancelled);

#[tokio::test]
async fn every_poll_is_inside_the_scopes_and_end_is_called_once() {
    let log = Log::default();
    let scope = CallScope::new(open([PollMode::Once, PollMode::Once], &log));
    assert_eq!(scope.run(two_polls(log.clone())).await, 7);
    assert_eq!(log.take(), "a( b( work )b )a a( b( work )b )a");
    // A durable context may retry the same call.
    scope.clone().run(two_polls(log.clone())).await;
    assert_eq!(log.take(), "a( b( work )b )a a( b( work )b )a");
    let other = scope.clone();
    scope.end(CANCELLED);
    assert_eq!(log.take(), "b:cancelled drop-b a:cancelled drop-a");
    other.end(CANCELLED);
    assert_eq!(log.take(), "", "it ended before");
}

#[test]
fn parallel_calls_have_separate_scopes() {
    let (first, second) = (Log::default(), Log::default());
    let (one, two) = (scope(&first), scope(&second));
    let mut one = Box::pin(one.run(two_polls(first.clone())));
    let mut two = Box::pin(two.run(two_polls(second.clone())));
    assert!(one.poll_unpin(&mut context()).is_pending());
    assert_eq!((first.take().as_str(), second.take().as_str()), ("a( work )a", ""));
    assert!(two.poll_unpin(&mut context()).is_pending());
    assert_eq!((first.take().as_str(), second.take().as_str()), ("", "a( work )a"));
    assert_eq!(one.poll_unpin(&mut context()), Poll::Ready(7));
    assert_eq!((first.take().as_str(), second.take().as_str()), ("a( work )a", ""));
}

/// Checks that each poll enters the scopes only once if `CallScope::run` wraps the same tool call twice. This happens
/// if one durable context wraps another.
#[tokio::test]
async fn nested_run_of_one_call_enters_the_scopes_once() {
    let log = Log::default();
    let scope = scope(&log);
    assert_eq!(scope.run(scope.clone().run(two_polls(log.clone()))).await, 7);
    assert_eq!(log.take(), "a( work )a a( work )a");
}

#[test]
fn scopes_are_usable_after_a_panic() {
    let log = Log::default();
    let scope = scope(&log);
    let mut panics = Box::pin(scope.run(async { panic!("the work panics") }));
    catch_unwind(AssertUnwindSafe(|| panics.poll_unpin(&mut context()))).unwrap_err();
    assert_eq!(log.take(), "a(");
    let mut again = Box::pin(scope.run(two_polls(log.clone())));
    assert!(again.poll_unpin(&mut context()).is_pending());
    assert_eq!(log.take(), "a( work )a");
    scope.end(CANCELLED);
    assert_eq!(log.take(), "a:cancelled drop-a");
}

#[test]
fn polls_after_the_end_run_outside_of_the_scopes() {
    let log = Log::default();
    let scope = scope(&log);
    let mut work = Box::pin(scope.run(two_polls(log.clone())));
    assert!(work.poll_unpin(&mut context()).is_pending());
    scope.end(CANCELLED);
    assert_eq!(log.take(), "a( work )a a:cancelled drop-a");
    assert_eq!(work.poll_unpin(&mut context()), Poll::Ready(7));
    assert_eq!(log.take(), "work");
}

#[test]
fn last_clone_drops_the_scopes_without_an_end() {
    let log = Log::default();
    let scope = scope(&log);
    let mut work = Box::pin(scope.run(two_polls(log.clone())));
    assert!(work.poll_unpin(&mut context()).is_pending());
    drop(scope);
    assert_eq!(log.take(), "a( work )a");
    drop(work);
    assert_eq!(log.take(), "drop-a");
}

#[tokio::test]
async fn default_call_scope_runs_without_scopes() {
    let log = Log::default();
    let none = CallScope::default();
    assert_eq!(none.run(two_polls(log.clone())).await, 7);
    none.clone().end(CANCELLED);
    assert_eq!(log.take(), "work work");
    assert_eq!(format!("{none:?}"), "CallScope { is_set: false }");
    assert_eq!(format!("{:?}", scope(&log)), "CallScope { is_set: true }");
}
