//! The receiver of the deltas of a streamed answer.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{StreamEvent, WasmCompatSend, WasmCompatSync};

/// Receives the deltas of a streamed answer. Senders call [`send`](#method.send).
pub trait DeltaSink: WasmCompatSend + WasmCompatSync {
    /// Takes the event out of `event` and returns `Ready` once the reader has it, or wants no more events. After
    /// `Pending` it is called again with the same `event`, which is empty if it was taken already.
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()>;
}

impl dyn DeltaSink + '_ {
    /// Sends one event. Waits while the reader is slow.
    ///
    /// # Cancel safety
    ///
    /// The reader may have the event although the future was dropped.
    pub fn send(&self, event: StreamEvent) -> impl Future<Output = ()> + WasmCompatSend {
        let mut event = Some(event);
        poll_fn(move |cx| self.poll_send(cx, &mut event))
    }
}

/// One place for one event, between a sender and the reader of its stream. The sender waits until the reader has taken
/// the event. Clones share the place.
///
/// # Example
///
/// ```
/// use std::task::{Context, Waker};
/// use neuron_types::{DeltaSink, DeltaSlot, StreamEvent};
///
/// let slot = DeltaSlot::default();
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut event = Some(StreamEvent::TextDelta("Hi".into()));
/// assert!(slot.poll_send(&mut cx, &mut event).is_pending());
/// assert!(matches!(slot.take(), Some(StreamEvent::TextDelta(_))));
/// assert!(slot.poll_send(&mut cx, &mut event).is_ready());
/// ```
#[derive(Clone, Default)]
pub struct DeltaSlot(Arc<Mutex<Place>>);

#[derive(Default)]
struct Place {
    event: Option<StreamEvent>,
    /// Senders that wait until the place is free. A durable context may poll several with wakers of its own.
    senders: Vec<Waker>,
    /// The reader, if it waits.
    reader: Option<Waker>,
    /// Whether nobody reads any more, or nothing more comes.
    is_closed: bool,
}

impl DeltaSlot {
    /// Takes the event, and lets the sender go on.
    #[must_use]
    pub fn take(&self) -> Option<StreamEvent> {
        let mut place = self.lock();
        let event = place.event.take()?;
        place.senders.drain(..).for_each(Waker::wake);
        Some(event)
    }

    /// Waits for an event. `None` once the place is closed.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
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
    pub fn close(&self) {
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

impl fmt::Debug for DeltaSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaSlot").finish_non_exhaustive()
    }
}

impl DeltaSink for DeltaSlot {
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

/// Holds the deltas of an answer back until a layer has seen the whole.
///
/// # Example
///
/// ```
/// use neuron_types::{CompletionResponse, HeldBack, LoopError, ModelCall, ModelLayer, ModelNext};
///
/// /// Shows no answer that says "secret".
/// struct NoSecrets;
///
/// impl ModelLayer for NoSecrets {
///     async fn call(&self, call: ModelCall<'_>, next: ModelNext<'_>) -> Result<CompletionResponse, LoopError> {
///         let held = next.sink().map(HeldBack::new);
///         let inner = held.as_ref().map_or(next, |held| next.with_sink(held));
///         let answer = inner.run(call).await?;
///         if answer.message.text().contains("secret") {
///             return Err(call.rejected("the answer tells a secret", false));
///         }
///         if let Some(held) = held {
///             held.release().await;
///         }
///         Ok(answer)
///     }
/// }
/// ```
pub struct HeldBack<'s> {
    sink: &'s dyn DeltaSink,
    deltas: Mutex<Vec<StreamEvent>>,
}

impl<'s> HeldBack<'s> {
    /// Holds back deltas for a sink.
    #[must_use]
    pub fn new(sink: &'s dyn DeltaSink) -> Self {
        Self { sink, deltas: Mutex::default() }
    }

    /// Sends the deltas on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses deltas that were not sent.
    pub async fn release(&self) {
        let deltas = std::mem::take(&mut *self.lock());
        for delta in deltas {
            self.sink.send(delta).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StreamEvent>> {
        self.deltas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeltaSink for HeldBack<'_> {
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        match event.take() {
            Some(delta) if delta.is_delta() => {
                self.lock().push(delta);
                Poll::Ready(())
            }
            other => {
                if let Some(StreamEvent::Reset { .. }) = other {
                    // The call is made again. What was held back counts no more.
                    self.lock().clear();
                }
                *event = other;
                self.sink.poll_send(cx, event)
            }
        }
    }
}

impl fmt::Debug for HeldBack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldBack").field("deltas", &self.lock().len()).finish_non_exhaustive()
    }
}
