//! The reader of a run.

use std::sync::Mutex;

use neuron_types::{DeltaSink, StreamEvent, ToolOutput};

use crate::lock::lock;

/// The reader of a run.
#[derive(Clone, Copy)]
pub(crate) enum Reader<'a> {
    /// Gets only the outcome.
    Nobody,
    /// Gets the next step. Tool results are stored with the ids of their calls.
    Step(&'a Mutex<Vec<(String, ToolOutput)>>),
    /// Gets every event.
    Stream(&'a dyn DeltaSink),
}

impl<'a> Reader<'a> {
    /// Returns the receiver of deltas if the model's answer is streamed.
    pub(crate) fn deltas(self) -> Option<&'a dyn DeltaSink> {
        match self {
            Self::Stream(sink) => Some(sink),
            Self::Nobody | Self::Step(_) => None,
        }
    }

    /// Removes and returns the result of a call.
    pub(crate) fn take(self, call_id: &str) -> Option<ToolOutput> {
        let Self::Step(results) = self else {
            return None;
        };
        let mut results = lock(results);
        let index = results.iter().position(|(id, _)| id == call_id)?;
        Some(results.swap_remove(index).1)
    }

    /// Sends an event. Waits while the reader is slow.
    pub(crate) async fn tell(self, event: impl FnOnce() -> StreamEvent) {
        if let Self::Stream(sink) = self {
            sink.send(event()).await;
        }
    }

    /// Sends the result of a tool call.
    pub(crate) async fn tell_result(self, id: &str, name: &str, output: &ToolOutput) {
        match self {
            Self::Nobody => {}
            Self::Step(results) => {
                let mut results = lock(results);
                results.push((id.to_owned(), output.clone()));
            }
            Self::Stream(sink) => {
                let (id, name) = (id.to_owned(), name.to_owned());
                sink.send(StreamEvent::ToolResult { id, name, output: output.clone() }).await;
            }
        }
    }
}
