//! The span of an operation. It is current while the operation is polled, and ends in all cases.

use std::sync::Arc;

use neuron_types::{LoopError, OperationScope, Outcome};
use tracing::Span;
use web_time::Instant;

use crate::failure::Failure;
use crate::run_state::{Activity, extend_to_now};

/// The telemetry that is recorded at the end of an operation.
pub(crate) trait Recorder: Send + 'static {
    /// Records the result of the operation, and its duration in seconds.
    fn ended(self, span: &Span, ending: &Ending<'_>, seconds: f64);
}

/// The end of an operation.
pub(crate) enum Ending<'a> {
    Outcome(Outcome<'a>),
    /// The future was dropped.
    Dropped,
    /// The operation panicked.
    Panicked,
}

impl Ending<'_> {
    /// Returns the failure of an operation that has no result. `None` if it did not fail.
    pub(crate) fn failure(&self, captures: bool) -> Option<Failure> {
        match self {
            Self::Dropped => Some(Failure::dropped()),
            Self::Panicked => Some(Failure::panicked()),
            Self::Outcome(Outcome::Error(error)) => Failure::of(*error, captures),
            Self::Outcome(_) => None,
        }
    }

    /// Returns `true` if the operation was abandoned while it waited.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Dropped | Self::Panicked => true,
            Self::Outcome(Outcome::Error(error)) => {
                matches!(error.downcast_ref(), Some(LoopError::Cancelled))
            }
            Self::Outcome(_) => false,
        }
    }
}

/// The span of an operation, with its recorder.
pub(crate) struct SpanScope<W: Recorder> {
    span: Span,
    activity: Arc<Activity>,
    work: Option<W>,
    polls: Polls,
}

/// The polls of an operation.
#[derive(Default)]
pub(crate) struct Polls {
    last: Option<Instant>,
    /// Set if a poll began and did not return.
    is_inside: bool,
}

impl Polls {
    pub(crate) fn around(&mut self, poll: impl FnOnce()) {
        // Remains set if `poll` panics.
        self.is_inside = true;
        poll();
        self.is_inside = false;
        self.last = Some(Instant::now());
    }

    /// Returns the end of an operation that is dropped.
    pub(crate) fn dropped(&self) -> Ending<'static> {
        if self.is_inside { Ending::Panicked } else { Ending::Dropped }
    }

    /// Returns the end time of an operation and of its span. An exported span ends where it was last current, which is
    /// its last poll. An operation that was abandoned while it waited, or that was never polled here, ends now.
    pub(crate) fn ended(&self, ending: &Ending<'_>, span: &Span) -> Instant {
        match self.last.filter(|_| !ending.is_abandoned()) {
            Some(last) => last,
            None => {
                extend_to_now(span);
                Instant::now()
            }
        }
    }
}

impl<W: Recorder> SpanScope<W> {
    pub(crate) fn new(span: Span, activity: Arc<Activity>, work: W) -> Self {
        Self { span, activity, work: Some(work), polls: Polls::default() }
    }

    fn conclude(&mut self, ending: &Ending<'_>) {
        // `end` is followed by `drop`, which must not record again.
        let Some(work) = self.work.take() else {
            return;
        };
        let ended = self.polls.ended(ending, &self.span);
        if let Some(run) = self.activity.run() {
            run.extend_turn();
        }
        work.ended(
            &self.span,
            ending,
            ended.saturating_duration_since(self.activity.started()).as_secs_f64(),
        );
    }
}

impl<W: Recorder> OperationScope for SpanScope<W> {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.polls.around(|| self.span.in_scope(|| self.activity.around(poll)));
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.conclude(&Ending::Outcome(outcome));
    }
}

impl<W: Recorder> Drop for SpanScope<W> {
    fn drop(&mut self) {
        self.conclude(&self.polls.dropped());
    }
}
