//! Tests of scopes around a future. Each poll must be inside all scopes, even if a scope is faulty.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use neuron_types::{
    HookAction, HookError, HookEvent, HookScope, LoopError, ObservabilityHook, Operation,
    OperationKind, OperationScope, Outcome, RequestRef, Scopes,
};

/// The behaviour of a test scope in `around`. The scope calls `poll` this number of times, or panics.
#[derive(Clone, Copy)]
pub(super) enum PollMode {
    Once,
    Never,
    Twice,
    Panics,
}

#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(super) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

struct Hook(&'static str, PollMode, Log);

impl ObservabilityHook for Hook {
    async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, _operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        Some(Box::new(Scope(self.0, self.1, self.2.clone())))
    }
}

struct Scope(&'static str, PollMode, Log);

impl OperationScope for Scope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.2.push(format!("{}(", self.0));
        match self.1 {
            PollMode::Once => poll(),
            PollMode::Never => {}
            PollMode::Twice => {
                poll();
                poll();
            }
            PollMode::Panics => panic!("the scope panics"),
        }
        self.2.push(format!("){}", self.0));
    }

    fn end(self: Box<Self>, outcome: Outcome<'_>) {
        let how = match outcome {
            Outcome::Error(error) => error.to_string(),
            Outcome::Compacted { new_tokens } => new_tokens.to_string(),
            _ => "other".into(),
        };
        self.2.push(format!("{}:{how}", self.0));
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.2.push(format!("drop-{}", self.0));
    }
}

/// Opens a scope for each element of `modes`. The scopes are named `a`, `b` and `c` in order, and write the calls of
/// their methods to `log`.
pub(super) fn open<const N: usize>(modes: [PollMode; N], log: &Log) -> Scopes {
    let names = ["a", "b", "c"];
    let hooks: Vec<_> =
        std::iter::zip(names, modes).map(|(name, mode)| Hook(name, mode, log.clone())).collect();
    let kind = OperationKind::Run { session_id: "", request: &RequestRef::default() };
    Scopes::open(&hooks, &Operation::new(HookScope::default(), kind))
}

/// Returns 7 at the second poll of its future. Each poll writes `work` to `log`.
pub(super) async fn two_polls(log: Log) -> u8 {
    let mut polls = 0;
    poll_fn(|cx| {
        log.push("work");
        polls += 1;
        cx.waker().wake_by_ref();
        match polls {
            2 => Poll::Ready(7),
            _ => Poll::Pending,
        }
    })
    .await
}

async fn run<const N: usize>(modes: [PollMode; N]) -> String {
    let log = Log::default();
    let mut scopes = open(modes, &log);
    assert_eq!(scopes.run(two_polls(log.clone())).await, 7);
    std::mem::forget(scopes);
    log.take()
}

#[tokio::test]
async fn every_poll_is_inside_all_scopes_in_hook_order() {
    use PollMode::Once;
    assert_eq!(run([]).await, "work work");
    assert_eq!(run([Once]).await, "a( work )a a( work )a");
    assert_eq!(run([Once, Once, Once]).await, "a( b( c( work )c )b )a a( b( c( work )c )b )a");
}

#[tokio::test]
async fn scope_without_poll_does_not_stop_the_work() {
    use PollMode::{Never, Once};
    assert_eq!(run([Never]).await, "a( )a work a( )a work");
    assert_eq!(run([Never, Once]).await, "a( )a work a( )a work");
    assert_eq!(run([Once, Never]).await, "a( b( )b )a work a( b( )b )a work");
}

#[tokio::test]
async fn scope_that_polls_twice_polls_the_work_once() {
    use PollMode::{Once, Twice};
    assert_eq!(run([Twice]).await, "a( work )a a( work )a");
    // The second call runs the inner scopes again, but does not poll the work.
    assert_eq!(run([Twice, Once]).await, "a( b( work )b b( )b )a a( b( work )b b( )b )a");
}

#[test]
fn panic_in_a_scope_unwinds_and_keeps_the_work() {
    let log = Log::default();
    let mut scopes = open([PollMode::Once, PollMode::Panics], &log);
    let mut cx = Context::from_waker(Waker::noop());
    let mut work = pin!(two_polls(log.clone()));
    {
        let mut inside = pin!(scopes.run(work.as_mut()));
        let polled = catch_unwind(AssertUnwindSafe(|| inside.poll_unpin(&mut cx)));
        assert!(polled.is_err());
    }
    assert_eq!(log.take(), "a( b(");
    assert!(work.poll_unpin(&mut cx).is_pending());
    assert_eq!(work.poll_unpin(&mut cx), Poll::Ready(7));
    log.take();
    drop(scopes);
    assert_eq!(log.take(), "drop-a drop-b");
}

#[test]
fn panic_of_the_work_unwinds_through_the_scopes() {
    let log = Log::default();
    let mut scopes = open([PollMode::Once], &log);
    let mut inside = pin!(scopes.run(async { panic!("the work panics") }));
    let mut cx = Context::from_waker(Waker::noop());
    let polled = catch_unwind(AssertUnwindSafe(|| inside.poll_unpin(&mut cx)));
    let text = *polled.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!((text, log.take()), ("the work panics", "a(".into()));
}

#[test]
fn end_is_called_innermost_first() {
    let log = Log::default();
    let scopes = open([PollMode::Once, PollMode::Never, PollMode::Once], &log);
    assert_eq!(format!("{scopes:?}"), "Scopes { len: 3 }");
    scopes.end(Outcome::Error(&LoopError::Cancelled));
    assert_eq!(log.take(), "c:cancelled drop-c b:cancelled drop-b a:cancelled drop-a");
}

#[test]
fn dropped_work_drops_its_scopes_without_an_end() {
    let log = Log::default();
    let mut scopes = open([PollMode::Once], &log);
    {
        let mut inside = Box::pin(scopes.run(two_polls(log.clone())));
        assert_eq!(format!("{inside:?}"), "InScopes { scopes: 1, .. }");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(inside.poll_unpin(&mut cx).is_pending());
    }
    drop(scopes);
    assert_eq!(log.take(), "a( work )a drop-a");
}

#[tokio::test]
async fn scopes_can_run_several_futures() {
    let log = Log::default();
    let mut scopes = open([PollMode::Once], &log);
    scopes.run(async {}).await;
    scopes.run(async {}).await;
    scopes.end(Outcome::Compacted { new_tokens: 3 });
    assert_eq!(log.take(), "a( )a a( )a a:3 drop-a");
    // Without hooks there are no scopes, and only the work is polled.
    assert_eq!(Scopes::default().run(async { 1 }).await, 1);
}
