//! Runs an agent in one of the three ways, and interrupts it as planned.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use neuron_loop::LoopError;
use neuron_types::{StopReason, StreamEvent, ToolCall, ToolContext, ToolOutput};

use crate::chat::Step;
use crate::model::case::{Begin, Case, Place, Way};
use crate::model::parts::Agent;
use crate::model::world::{PLANNED, World};

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ended {
    With(String),
    Dropped,
    Panicked,
}

/// An interruption of a run from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stop {
    Never,
    /// The run is cancelled at this wait. Waits are counted from the start of the run.
    Cancel(usize),
    Drop(usize),
    /// The future of a step is dropped at this wait. Waits are counted from the start of the run.
    DropStep(usize),
}

/// Drives a run until it ends or is interrupted by `stop`. Returns how it ended, and the places at which it waited. The
/// journal of `world` contains the events of the run.
pub(crate) async fn run(
    case: &Case,
    way: Way,
    agent: &mut Agent,
    begin: Begin,
    ctx: &ToolContext,
    world: &World,
    stop: Stop,
) -> (Ended, Vec<Place>) {
    let whole: Pin<Box<dyn Future<Output = String> + '_>> = match way {
        Way::Run => Box::pin(async move {
            let result = match begin {
                Begin::Message(message) => agent.run(message, ctx).await,
                Begin::Decisions(decisions) => agent.resume(decisions, ctx).await,
                Begin::Start(start) => agent.run_from(start, ctx).await,
            };
            match result {
                Ok(result) => answered(&result.stop_reason, result.turns, &result.response),
                Err(error) => ended_with(error, world),
            }
        }),
        Way::Stream => Box::pin(stream(case, agent, begin, ctx, world)),
        Way::Step => Box::pin(steps(agent, begin, ctx, world, stop)),
    };
    let (mut waited, world) = (Vec::new(), world.clone());
    let ended = Watched { whole, waited: &mut waited, stop, world }.await;
    (ended, waited)
}

async fn stream(
    case: &Case,
    agent: &mut Agent,
    begin: Begin,
    ctx: &ToolContext,
    world: &World,
) -> String {
    let mut events = match begin {
        Begin::Message(message) => agent.run_stream(message, ctx).await,
        Begin::Decisions(decisions) => agent.resume_stream(decisions, ctx).await,
        Begin::Start(start) => agent.run_from_stream(start, ctx).await,
    };
    let mut last = None;
    loop {
        world.wait(Place::Reader, case.config.slow_reader).await;
        let Some(event) = events.recv().await else { break };
        let (line, is_end) = match event {
            StreamEvent::ApprovalRequired(pending) => {
                (ended_with(LoopError::ApprovalRequired(pending), world), true)
            }
            event => {
                let ends = matches!(event, StreamEvent::RunComplete(_) | StreamEvent::Error(_));
                (line(&event), ends)
            }
        };
        world.note(|journal| {
            if last.is_some() {
                journal.faults.push(format!("an event after the last: {line}"));
            }
            journal.lines.push(line.clone());
        });
        if is_end {
            last = Some(line);
        }
    }
    last.unwrap_or_else(|| "no end".into())
}

async fn steps(
    agent: &mut Agent,
    begin: Begin,
    ctx: &ToolContext,
    world: &World,
    stop: Stop,
) -> String {
    let _max_turns = agent.config().max_turns.unwrap_or_default();
    let waited = Cell::new(0);
    let mut steps = match begin {
        Begin::Message(message) => agent.run_step(message, ctx),
        Begin::Decisions(decisions) => agent.resume_step(decisions, ctx),
        Begin::Start(start) => agent.run_from_step(start, ctx),
    };
    let mut last = None;
    loop {
        let step = Box::pin(steps.next());
        let turn = match (Abandoned { step, waited: &waited, stop }).await {
            Some(Some(turn)) => turn,
            Some(None) => break,
            None => {
                world.note(|journal| journal.dropped_in = journal.place);
                continue;
            }
        };
        let (line, is_end) = match turn {
            Ok(Step::Tools { calls, results }) => (executed(&calls, &results), false),
            Ok(Step::Compacted { old_tokens, new_tokens }) => {
                (compacted(old_tokens, new_tokens), false)
            }
            Ok(Step::Ended(result)) => {
                (answered(&result.stop_reason, result.turns, &result.response), true)
            }
            Err(error) => (ended_with(error, world), true),
        };
        world.note(|journal| {
            if last.is_some() {
                journal.faults.push(format!("a turn after the last: {line}"));
            }
            journal.lines.push(line.clone());
        });
        if is_end {
            last = Some(line);
        }
    }
    last.unwrap_or_else(|| "no end".into())
}

/// A future that polls a run and records each place at which the run waits. `stop` selects a wait at which the run is
/// cancelled or dropped. A planned panic ends the run. Any other panic is a failure of the test.
struct Watched<'a> {
    whole: Pin<Box<dyn Future<Output = String> + 'a>>,
    waited: &'a mut Vec<Place>,
    stop: Stop,
    world: World,
}

impl Future for Watched<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let whole = self.whole.as_mut();
        let polled = match catch_unwind(AssertUnwindSafe(|| whole.poll(cx))) {
            Ok(polled) => polled,
            Err(panic) if panic.downcast_ref::<String>().is_some_and(|text| text == PLANNED) => {
                return Poll::Ready(Ended::Panicked);
            }
            Err(panic) => resume_unwind(panic),
        };
        if let Poll::Ready(outcome) = polled {
            return Poll::Ready(Ended::With(outcome));
        }
        let place = self.world.note(|journal| journal.place).expect("something waits");
        self.waited.push(place);
        match self.stop {
            Stop::Cancel(at) if at == self.waited.len() => self.world.cancel(),
            Stop::Drop(at) if at == self.waited.len() => return Poll::Ready(Ended::Dropped),
            _ => {}
        }
        Poll::Pending
    }
}

/// A future that polls a step and may drop it while it waits.
struct Abandoned<'a, F> {
    step: Pin<Box<F>>,
    /// Number of waits of this step and all earlier steps.
    waited: &'a Cell<usize>,
    stop: Stop,
}

impl<F: Future> Future for Abandoned<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(turn) = self.step.as_mut().poll(cx) {
            return Poll::Ready(Some(turn));
        }
        self.waited.set(self.waited.get() + 1);
        if self.stop == Stop::DropStep(self.waited.get()) {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

/// Formats the error with which a run ended as a line. If the run waits for an approval, also records the pending
/// calls.
fn ended_with(error: LoopError, world: &World) -> String {
    let line = failed_with(&error);
    if let LoopError::ApprovalRequired(pending) = error {
        world.note(|journal| journal.pending = Some(*pending));
    }
    line
}

// Functions that format the observations of a run as lines. The reference writes the same lines.

pub(crate) fn answered(stop: &StopReason, turns: usize, response: &str) -> String {
    format!("answer {stop:?} in {turns}: {response}")
}

pub(crate) fn failed(kind: &str, text: &str) -> String {
    format!("error {kind}: {text}")
}

pub(crate) fn failed_with(error: &LoopError) -> String {
    failed(error.kind(), &error.to_string())
}

pub(crate) fn reset(attempt: usize, error: &str) -> String {
    format!("reset {attempt} after {error}")
}

pub(crate) fn compacted(old: usize, new: usize) -> String {
    format!("compacted {old} {new}")
}

pub(crate) fn executed(calls: &[ToolCall], results: &[ToolOutput]) -> String {
    format!("executed {calls:?} {results:?}")
}

pub(crate) fn line(event: &StreamEvent) -> String {
    match event {
        StreamEvent::Reset { attempt, error } => reset(*attempt, &error.to_string()),
        StreamEvent::RunComplete(result) => {
            answered(&result.stop_reason, result.turns, &result.response)
        }
        StreamEvent::Error(error) => match error.as_loop() {
            Some(error) => failed_with(error),
            None => format!("not an error of a run: {error:?}"),
        },
        event => format!("{event:?}"),
    }
}
