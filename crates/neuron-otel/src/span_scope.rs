//! A span around an operation: current while it runs, ended on every path.

use std::sync::Arc;

use neuron_types::{LoopError, OperationScope, Outcome};
use tracing::Span;
use web_time::Instant;

use crate::failure::Failure;
use crate::run_state::{Activity, touch};

/// What is told of an operation.
pub(crate) trait Work: Send + 'static {
    /// Tells how it ended, and after how many seconds.
    fn ended(self, span: &Span, ending: &Ending<'_>, seconds: f64);
}

/// How an operation ended.
pub(crate) enum Ending<'a> {
    Outcome(Outcome<'a>),
    /// Its future was dropped.
    Dropped,
    /// It panicked.
    Panicked,
}

impl Ending<'_> {
    /// What is told of an end without a result; `None` if it is no failure.
    pub(crate) fn failure(&self, captures: bool) -> Option<Failure> {
        match self {
            Self::Dropped => Some(Failure::dropped()),
            Self::Panicked => Some(Failure::panicked()),
            Self::Outcome(Outcome::Error(error)) => Failure::of(*error, captures),
            Self::Outcome(_) => None,
        }
    }

    /// Whether it was given up while it waited.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            Self::Dropped | Self::Panicked => true,
            Self::Outcome(Outcome::Error(error)) => {
                matches!(error.downcast_ref(), Some(LoopError::Cancelled))
            }
            Self::Outcome(_) => false,
        }
    }
}

/// The span of an operation, and what is told of it.
pub(crate) struct SpanScope<W: Work> {
    span: Span,
    activity: Arc<Activity>,
    work: Option<W>,
    polls: Polls,
}

/// When an operation was polled.
#[derive(Default)]
pub(crate) struct Polls {
    last: Option<Instant>,
    /// Whether a poll began and did not come back.
    is_inside: bool,
}

impl Polls {
    pub(crate) fn around(&mut self, poll: impl FnOnce()) {
        self.is_inside = true;
        poll();
        self.is_inside = false;
        self.last = Some(Instant::now());
    }

    /// How an operation ended that is dropped.
    pub(crate) fn dropped(&self) -> Ending<'static> {
        if self.is_inside { Ending::Panicked } else { Ending::Dropped }
    }

    /// When an operation ended, which is when its span does. A span ends in traces where it was current last:
    /// where its last poll was. One that waited when it was given up, or was never polled here, ends now.
    pub(crate) fn ended(&self, ending: &Ending<'_>, span: &Span) -> Instant {
        match self.last.filter(|_| !ending.is_given_up()) {
            Some(last) => last,
            None => {
                touch(span);
                Instant::now()
            }
        }
    }
}

impl<W: Work> SpanScope<W> {
    pub(crate) fn new(span: Span, activity: Arc<Activity>, work: W) -> Self {
        Self { span, activity, work: Some(work), polls: Polls::default() }
    }

    fn conclude(&mut self, ending: &Ending<'_>) {
        let Some(work) = self.work.take() else {
            return;
        };
        let ended = self.polls.ended(ending, &self.span);
        if let Some(run) = self.activity.run() {
            run.touch_turn();
        }
        work.ended(
            &self.span,
            ending,
            ended.saturating_duration_since(self.activity.started()).as_secs_f64(),
        );
    }
}

impl<W: Work> OperationScope for SpanScope<W> {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.polls.around(|| self.span.in_scope(|| self.activity.around(poll)));
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.conclude(&Ending::Outcome(outcome));
    }
}

impl<W: Work> Drop for SpanScope<W> {
    fn drop(&mut self) {
        self.conclude(&self.polls.dropped());
    }
}
