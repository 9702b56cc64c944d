//! Receivers of the deltas of a streamed response.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{StreamEvent, WasmCompatSend, WasmCompatSync};

/// Receives the deltas of a streamed response. Senders call [`send`](#method.send).
pub trait DeltaSink: WasmCompatSend + WasmCompatSync {
    /// Takes the event out of `event`. Returns `Ready` when the reader has received the event or accepts no more
    /// events. After `Pending`, call it again with the same `event`, which is empty if the event was already taken.
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()>;
}

impl dyn DeltaSink + '_ {
    /// Sends one event, with backpressure from the reader.
    ///
    /// # Cancel safety
    ///
    /// The reader may receive the event even if the future is dropped.
    pub fn send(&self, event: StreamEvent) -> impl Future<Output = ()> + WasmCompatSend {
        let mut event = Some(event);
        poll_fn(move |cx| self.poll_send(cx, &mut event))
    }
}

/// A channel of capacity one between a sender and the reader of its stream. The sender waits until the reader has taken
/// the event. Clones share the channel.
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
pub struct DeltaSlot(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    event: Option<StreamEvent>,
    /// Senders that wait for the slot. A durable context may poll several senders with different wakers.
    senders: Vec<Waker>,
    /// The waiting reader.
    reader: Option<Waker>,
    /// Set when the reader is gone or no more events follow.
    is_closed: bool,
}

impl DeltaSlot {
    /// Takes the event and wakes the waiting senders.
    #[must_use]
    pub fn take(&self) -> Option<StreamEvent> {
        let mut slot = self.lock();
        let event = slot.event.take()?;
        slot.senders.drain(..).for_each(Waker::wake);
        Some(event)
    }

    /// Waits for an event. Returns `None` once the slot is closed.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        if let Some(event) = self.take() {
            return Poll::Ready(Some(event));
        }
        let mut slot = self.lock();
        if slot.is_closed {
            return Poll::Ready(None);
        }
        slot.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Closes the slot. The reader ends, and later events are discarded.
    pub fn close(&self) {
        let mut slot = self.lock();
        slot.is_closed = true;
        slot.senders.drain(..).for_each(Waker::wake);
        if let Some(reader) = slot.reader.take() {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
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
        let mut slot = self.lock();
        if slot.is_closed {
            *event = None;
            return Poll::Ready(());
        }
        if slot.event.is_none() {
            // An empty `event` here means that the reader took this sender's event.
            match event.take() {
                Some(event) => slot.event = Some(event),
                None => return Poll::Ready(()),
            }
            if let Some(reader) = slot.reader.take() {
                reader.wake();
            }
        }
        // A sender may be polled again before it is woken, so register each waker once.
        if !slot.senders.iter().any(|waker| waker.will_wake(cx.waker())) {
            slot.senders.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Buffers the deltas of a response until a layer has checked the whole response.
///
/// # Example
///
/// ```
/// use neuron_types::{CompletionResponse, BufferedDeltas, LoopError, ModelCall, ModelLayer, ModelNext};
///
/// /// Suppresses responses that contain "secret".
/// struct NoSecrets;
///
/// impl ModelLayer for NoSecrets {
///     async fn call(&self, call: ModelCall<'_>, next: ModelNext<'_>) -> Result<CompletionResponse, LoopError> {
///         let held = next.sink().map(BufferedDeltas::new);
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
pub struct BufferedDeltas<'s> {
    sink: &'s dyn DeltaSink,
    deltas: Mutex<Vec<StreamEvent>>,
}

impl<'s> BufferedDeltas<'s> {
    /// Creates a buffer in front of a sink.
    #[must_use]
    pub fn new(sink: &'s dyn DeltaSink) -> Self {
        Self { sink, deltas: Mutex::default() }
    }

    /// Sends the buffered deltas.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses the deltas that were not sent yet.
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

impl DeltaSink for BufferedDeltas<'_> {
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        match event.take() {
            Some(delta) if delta.is_delta() => {
                self.lock().push(delta);
                Poll::Ready(())
            }
            other => {
                if let Some(StreamEvent::Reset { .. }) = other {
                    // The call is repeated, so the buffered deltas are void.
                    self.lock().clear();
                }
                *event = other;
                self.sink.poll_send(cx, event)
            }
        }
    }
}

impl fmt::Debug for BufferedDeltas<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferedDeltas").field("deltas", &self.lock().len()).finish_non_exhaustive()
    }
}
