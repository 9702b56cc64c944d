//! The deltas of an answer, held back from the reader until the hooks have seen the whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_types::StreamEvent;

use crate::sink::Sink;

/// A sink before the run's own, for one call of the model. Without a hook that wants it, nothing is
/// held back.
pub(crate) struct HeldBack<'s, S> {
    sink: &'s S,
    /// The deltas so far, if they wait.
    deltas: Option<Mutex<Vec<StreamEvent>>>,
}

impl<'s, S: Sink> HeldBack<'s, S> {
    pub(crate) fn new(sink: &'s S, holds_back: bool) -> Self {
        Self { sink, deltas: holds_back.then(Mutex::default) }
    }

    /// Forgets an answer that broke off.
    pub(crate) fn forget(&self) {
        self.take();
    }

    /// Lets the reader have the answer.
    pub(crate) async fn release(&self) {
        for delta in self.take() {
            self.sink.emit(delta).await;
        }
    }

    fn take(&self) -> Vec<StreamEvent> {
        let deltas = self.deltas.as_ref();
        deltas.map(|deltas| std::mem::take(&mut *lock(deltas))).unwrap_or_default()
    }
}

impl<S: Sink> Sink for HeldBack<'_, S> {
    const DELTAS: bool = S::DELTAS;
    const RESULTS: bool = S::RESULTS;

    async fn emit(&self, event: StreamEvent) {
        match &self.deltas {
            Some(deltas) if event.is_delta() => lock(deltas).push(event),
            _ => {
                if let StreamEvent::Reset { .. } = event {
                    // A durable context tries again.
                    self.forget();
                }
                self.sink.emit(event).await;
            }
        }
    }
}

fn lock(deltas: &Mutex<Vec<StreamEvent>>) -> MutexGuard<'_, Vec<StreamEvent>> {
    deltas.lock().unwrap_or_else(PoisonError::into_inner)
}
