//! The reader of a run: nobody, the results of a step, or a stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use neuron_types::{DeltaSink, StreamEvent, ToolOutput};

/// The reader of a run.
#[derive(Clone, Copy)]
pub(crate) enum Reader<'a> {
    Nobody,
    /// Keeps the results of tools.
    Results(&'a Results),
    /// Hears of everything.
    Stream(&'a dyn DeltaSink),
}

impl<'a> Reader<'a> {
    /// The receiver of deltas, if the answer of the model is streamed.
    pub(crate) fn deltas(self) -> Option<&'a dyn DeltaSink> {
        match self {
            Self::Stream(sink) => Some(sink),
            Self::Nobody | Self::Results(_) => None,
        }
    }

    pub(crate) fn is_nobody(self) -> bool {
        matches!(self, Self::Nobody)
    }

    /// Hands an event over. Waits while the reader is slow.
    pub(crate) async fn tell(self, event: impl FnOnce() -> StreamEvent) {
        if let Self::Stream(sink) = self {
            sink.send(event()).await;
        }
    }

    /// Hands the result of a tool over.
    pub(crate) async fn tell_result(self, id: &str, name: &str, output: &ToolOutput) {
        match self {
            Self::Nobody => {}
            Self::Results(results) => results.lock().push((id.to_owned(), output.clone())),
            Self::Stream(sink) => {
                let (id, name) = (id.to_owned(), name.to_owned());
                sink.send(StreamEvent::ToolResult { id, name, output: output.clone() }).await;
            }
        }
    }
}

/// The results of the tools of one step, by the ids of their calls.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<Vec<(String, ToolOutput)>>);

impl Results {
    /// Takes the result of a call.
    pub(crate) fn take(&self, call_id: &str) -> Option<ToolOutput> {
        let mut results = self.lock();
        let index = results.iter().position(|(id, _)| id == call_id)?;
        Some(results.swap_remove(index).1)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, ToolOutput)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place for one event, between a run and the stream that reads it. The run waits until the reader has taken the
/// event.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Place>>);

#[derive(Default)]
struct Place {
    event: Option<StreamEvent>,
    /// Senders that wait until the place is free. A durable context may poll several with wakers of its own.
    senders: Vec<Waker>,
    /// The reader of a detached run, which is polled by another task.
    reader: Option<Waker>,
    /// Whether nobody reads any more, or nothing more comes.
    is_closed: bool,
}

impl Slot {
    /// Takes the event, and lets the run go on.
    pub(crate) fn take(&self) -> Option<StreamEvent> {
        let mut place = self.lock();
        let event = place.event.take()?;
        place.senders.drain(..).for_each(Waker::wake);
        Some(event)
    }

    /// Waits for an event. `None` once the run has closed the place.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        if let Some(event) = self.take() {
            return Poll::Ready(Some(event));
        }
        let mut place = self.lock();
        if place.is_closed {
            return Poll::Ready(None);
        }
        place.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Lets everything else be sent to nobody, and tells the reader that nothing more comes.
    pub(crate) fn close(&self) {
        let mut place = self.lock();
        place.is_closed = true;
        place.senders.drain(..).for_each(Waker::wake);
        if let Some(reader) = place.reader.take() {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl DeltaSink for Slot {
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        let mut place = self.lock();
        if place.is_closed {
            *event = None;
            return Poll::Ready(());
        }
        if place.event.is_none() {
            match event.take() {
                Some(event) => place.event = Some(event),
                None => return Poll::Ready(()),
            }
            if let Some(reader) = place.reader.take() {
                reader.wake();
            }
        }
        if !place.senders.iter().any(|waker| waker.will_wake(cx.waker())) {
            place.senders.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
