//! Who hears of a run while it happens.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use neuron_types::{
    DeltaSink, StreamEvent, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};
use tokio_util::sync::CancellationToken;

/// Who hears of a run while it happens.
pub(crate) trait Sink: WasmCompatSend + WasmCompatSync {
    /// Whether the model's answer is asked for as a stream, and its deltas are wanted.
    const DELTAS: bool;
    /// Whether tool results are wanted.
    const RESULTS: bool;

    /// Hands an event over; waits while the reader is slow.
    fn emit(&self, event: StreamEvent) -> impl Future<Output = ()> + WasmCompatSend;
}

/// Nobody: `run`.
pub(crate) struct Quiet;

impl Sink for Quiet {
    const DELTAS: bool = false;
    const RESULTS: bool = false;

    async fn emit(&self, _event: StreamEvent) {}
}

/// Keeps the results of a step's tools: `run_step`.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<Vec<(String, ToolOutput)>>);

impl Results {
    /// Forgets what a step that was dropped left behind.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes the result of a call.
    pub(crate) fn take(&self, call_id: &str) -> Option<ToolOutput> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = results.iter().position(|(id, _)| id == call_id)?;
        Some(results.swap_remove(index).1)
    }
}

impl Sink for Results {
    const DELTAS: bool = false;
    const RESULTS: bool = true;

    async fn emit(&self, event: StreamEvent) {
        if let StreamEvent::ToolResult { id, output, .. } = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((id, output));
        }
    }
}

/// One place for one event, between the engine and the stream that polls it: `run_stream`.
///
/// Both are polled by the same task, so nothing else is needed: the engine waits until the reader
/// has taken the event.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Place>>);

#[derive(Default)]
struct Place {
    event: Option<StreamEvent>,
    /// Who waits for the place to become free: the engine, or several senders of a durable context.
    /// They may be polled by an executor of their own inside the stream's poll, so their own wakers
    /// are kept.
    waiting: Vec<Waker>,
}

impl Slot {
    /// Takes the event, and lets the engine go on.
    pub(crate) fn take(&self) -> Option<StreamEvent> {
        let mut place = self.lock();
        let event = place.event.take()?;
        place.waiting.drain(..).for_each(Waker::wake);
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Slot {
    const DELTAS: bool = true;
    const RESULTS: bool = true;

    async fn emit(&self, event: StreamEvent) {
        let mut event = Some(event);
        poll_fn(|cx| {
            let mut place = self.lock();
            if place.event.is_none() {
                match event.take() {
                    Some(event) => place.event = Some(event),
                    None => return Poll::Ready(()),
                }
            }
            if !place.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                place.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// A sink as durable contexts see it. The first delta waits until the engine has told its hooks of it.
pub(crate) struct Deltas<'s, S> {
    sink: &'s S,
    /// Cancelled once there is a delta.
    first: CancellationToken,
    /// Cancelled once the hooks have seen it.
    goes_on: CancellationToken,
    is_muted: AtomicBool,
}

impl<'s, S> Deltas<'s, S> {
    pub(crate) fn new(sink: &'s S) -> Self {
        let (first, goes_on) = (CancellationToken::new(), CancellationToken::new());
        Self { sink, first, goes_on, is_muted: AtomicBool::new(false) }
    }

    /// Waits for the first delta.
    pub(crate) async fn first(&self) {
        self.first.cancelled().await;
    }

    /// Lets the first delta and those after it go on.
    pub(crate) fn go_on(&self) {
        self.goes_on.cancel();
    }

    /// Lets them come to their end without being heard.
    pub(crate) fn mute(&self) {
        self.is_muted.store(true, Ordering::Release);
        self.goes_on.cancel();
    }
}

impl<S: Sink> DeltaSink for Deltas<'_, S> {
    fn send(&self, event: StreamEvent) -> WasmBoxedFuture<'_, ()> {
        let is_delta = event.is_delta();
        // A context that tries again itself says so, else deltas of both attempts would stand
        // together. The engine itself tells of everything else.
        if !is_delta && !matches!(event, StreamEvent::Reset { .. }) {
            return Box::pin(std::future::ready(()));
        }
        Box::pin(async move {
            if is_delta {
                self.first.cancel();
                self.goes_on.cancelled().await;
            }
            if !self.is_muted.load(Ordering::Acquire) {
                self.sink.emit(event).await;
            }
        })
    }
}
