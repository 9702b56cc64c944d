//! The reader of a run: nobody, the results of a step, or a stream.

use std::sync::{Mutex, MutexGuard, PoisonError};

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
