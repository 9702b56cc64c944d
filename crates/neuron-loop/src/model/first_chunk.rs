//! Holding back the first delta of a durable context until the hooks have heard of it.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use neuron_types::{DeltaSink, StreamEvent};

/// A sink as durable contexts see it.
pub(super) struct FirstChunkGate<'s> {
    sink: &'s dyn DeltaSink,
    gate: Mutex<Gate>,
}

#[derive(Default)]
struct Gate {
    state: State,
    /// The run that waits for the first delta, and senders that wait for the run.
    waiting: Vec<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No delta has come.
    #[default]
    Quiet,
    /// A delta waits until the hooks have heard of it.
    Waiting,
    Open,
    /// Deltas come to their end without being heard.
    Muted,
}

impl<'s> FirstChunkGate<'s> {
    pub(super) fn new(sink: &'s dyn DeltaSink) -> Self {
        Self { sink, gate: Mutex::default() }
    }

    /// Waits for the first delta.
    pub(super) async fn first(&self) {
        poll_fn(|cx| {
            let mut gate = self.lock();
            match gate.state {
                State::Quiet => gate.wait(cx),
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Lets the first delta and those after it go on, or lets nobody hear of them.
    pub(super) fn open(&self, is_heard: bool) {
        let mut gate = self.lock();
        gate.state = if is_heard { State::Open } else { State::Muted };
        gate.waiting.drain(..).for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    fn wait(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl DeltaSink for FirstChunkGate<'_> {
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        let is_delta = event.as_ref().is_some_and(StreamEvent::is_delta);
        // A context that tries again itself says so. The loop itself tells of everything else.
        let is_heard = is_delta || matches!(event, None | Some(StreamEvent::Reset { .. }));
        let mut gate = self.lock();
        match gate.state {
            State::Quiet if is_delta => {
                gate.state = State::Waiting;
                gate.waiting.drain(..).for_each(Waker::wake);
                gate.wait(cx)
            }
            State::Waiting if is_delta => gate.wait(cx),
            State::Muted => {
                *event = None;
                Poll::Ready(())
            }
            _ if is_heard => {
                drop(gate);
                self.sink.poll_send(cx, event)
            }
            _ => {
                *event = None;
                Poll::Ready(())
            }
        }
    }
}
