//! Receivers of the deltas of a streamed response.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{StreamEvent, WasmCompatSend, WasmCompatSync};

/// Receives the deltas of a streamed response. Senders call [`send`](#method.send).
pub trait DeltaSink: WasmCompatSend + WasmCompatSync {
    /// Takes the event out of `event` and delivers it to the reader.
    ///
    /// Returns `Ready` when the reader has received the event, or if the reader accepts no more events. After
    /// `Pending`, call this method again with the same variable as `event`, even if its value is already `None`.
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()>;
}

impl dyn DeltaSink + '_ {
    /// Sends one event. Waits until the reader has received the event.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the reader may or may not receive the event.
    pub fn send(&self, event: StreamEvent) -> impl Future<Output = ()> + WasmCompatSend {
        let mut event = Some(event);
        poll_fn(move |cx| self.poll_send(cx, &mut event))
    }
}

/// A channel with the capacity of one event. A sender waits until the reader has taken the event.
///
/// Clones share the channel.
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

/// The state of a [`DeltaSlot`], shared by the senders and the reader.
#[derive(Default)]
struct Slot {
    /// The event that was sent and not yet taken.
    event: Option<StreamEvent>,
    /// Wakers of the waiting senders. There may be several, because a durable context may poll several senders with
    /// different wakers.
    senders: Vec<Waker>,
    /// Waker of the waiting reader.
    reader: Option<Waker>,
    /// Set after [`DeltaSlot::close`]. Later events are then discarded.
    is_closed: bool,
}

impl DeltaSlot {
    /// Takes the event out of the slot and wakes the waiting senders. Returns `None` if the slot is empty.
    #[must_use]
    pub fn take(&self) -> Option<StreamEvent> {
        let mut slot = self.lock();
        let event = slot.event.take()?;
        // FAULT a reader does not wake the sender: without the line
        //     (durability::concurrent_deltas_arrive_and_other_events_do_not)
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

    /// Closes the slot. Readers and senders no longer wait, and later events are discarded.
    pub fn close(&self) {
        let mut slot = self.lock();
        slot.is_closed = true;
        slot.senders.drain(..).for_each(Waker::wake);
        // FAULT the end of a detached run does not wake its reader: without the statement
        //     (agent::every_start_works_with_every_way_to_watch)
        if let Some(reader) = slot.reader.take() {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        // Ignore poisoning. A panic cannot leave the slot inconsistent.
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
            // With an empty `event`, an earlier poll filled the slot. The slot is empty again, so the reader has the
            // event.
            match event.take() {
                Some(event) => slot.event = Some(event),
                None => return Poll::Ready(()),
            }
            // FAULT a sender does not wake the reader: without the statement
            //     (agent::every_start_works_with_every_way_to_watch)
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

/// A [`DeltaSink`] that buffers the deltas of a response, so that a layer can first check the whole response.
///
/// All other events are passed on immediately. A [`StreamEvent::Reset`] also discards the buffered deltas.
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
    /// The sink that receives the deltas on release.
    sink: &'s dyn DeltaSink,
    /// The buffered deltas, in order.
    deltas: Mutex<Vec<StreamEvent>>,
}

impl<'s> BufferedDeltas<'s> {
    /// Creates an empty buffer in front of `sink`.
    #[must_use]
    pub fn new(sink: &'s dyn DeltaSink) -> Self {
        Self { sink, deltas: Mutex::default() }
    }

    /// Sends the buffered deltas to the sink and empties the buffer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the deltas that were not yet sent are lost.
    pub async fn release(&self) {
        // Do not hold the lock while a send waits for the reader.
        let deltas = std::mem::take(&mut *self.lock());
        for delta in deltas {
            // FAULT what was held back is never shown: without the line
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
            // FAULT nothing is held back: `delta.is_delta()` -> `false`
            Some(delta) if delta.is_delta() => {
                self.lock().push(delta);
                Poll::Ready(())
            }
            other => {
                if let Some(StreamEvent::Reset { .. }) = other {
                    // The model call is repeated, so the buffered deltas are from an abandoned attempt.
                    // FAULT what broke is shown with the next attempt: without the line
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
