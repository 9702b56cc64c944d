//! Scopes that record an operation in a span. The span is current while the operation is polled, and ends with the
//! operation.

use std::sync::Arc;

use neuron_types::{LoopError, OperationScope, Outcome};
use tracing::Span;
use web_time::Instant;

use crate::failure::Failure;
use crate::run_state::{Activity, extend_to_now};

/// Records the telemetry at the end of an operation.
pub(crate) trait Recorder: Send + 'static {
    /// Records the result of the operation, and its duration in seconds.
    fn ended(self, span: &Span, ending: &Ending<'_>, seconds: f64);
}

/// The way in which an operation ended.
pub(crate) enum Ending<'a> {
    /// The operation returned a result or an error.
    Outcome(Outcome<'a>),
    /// The operation's future was dropped before it ended.
    Dropped,
    /// The operation panicked.
    Panicked,
}

impl Ending<'_> {
    /// Returns the failure to record, or `None` if the operation did not fail. If `captures` is `false`, leaves out a
    /// description that may quote content.
    pub(crate) fn failure(&self, captures: bool) -> Option<Failure> {
        match self {
            Self::Dropped => Some(Failure::dropped()),
            Self::Panicked => Some(Failure::panicked()),
            Self::Outcome(Outcome::Error(error)) => Failure::of(*error, captures),
            Self::Outcome(_) => None,
        }
    }

    /// Returns `true` if the operation was dropped or cancelled, or panicked. Its last poll may then be long ago.
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

/// The scope of an operation. Enters the span for each poll, and calls the recorder at the end.
pub(crate) struct SpanScope<W: Recorder> {
    span: Span,
    activity: Arc<Activity>,
    /// Recorder of the operation. `None` after the end was recorded.
    work: Option<W>,
    polls: Polls,
}

/// Stores when an operation was last polled, and if its last poll panicked.
#[derive(Default)]
pub(crate) struct Polls {
    /// Time when the last poll returned.
    last: Option<Instant>,
    /// Set while the operation is polled, and after a poll that panicked.
    is_inside: bool,
}

impl Polls {
    /// Runs one poll of the operation, and stores when the poll returned.
    pub(crate) fn around(&mut self, poll: impl FnOnce()) {
        // If `poll` panics, the flag remains set.
        self.is_inside = true;
        poll();
        self.is_inside = false;
        self.last = Some(Instant::now());
    }

    /// Returns the ending of an operation whose scope is dropped without an outcome.
    pub(crate) fn dropped(&self) -> Ending<'static> {
        if self.is_inside { Ending::Panicked } else { Ending::Dropped }
    }

    /// Returns the end time of an operation and of its span. If the operation was abandoned or never polled through
    /// this scope, the end time is now. Otherwise it is the time of the last poll, which `tracing_opentelemetry`
    /// exports as the span's end.
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

    /// Records the end of the operation. Only the first call has an effect.
    fn conclude(&mut self, ending: &Ending<'_>) {
        // `drop` runs after `end` and must not record the operation again.
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
