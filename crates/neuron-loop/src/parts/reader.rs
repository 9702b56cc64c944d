//! The receiver of a run's events and results.

use std::sync::Mutex;

use neuron_types::{DeltaSink, StreamEvent, ToolOutput};

use crate::lock::lock;

/// The receiver of a run's events and results.
#[derive(Clone, Copy)]
pub(crate) enum Reader<'a> {
    /// Receives only the outcome of the run.
    Nobody,
    /// Receives the run step by step. The mutex contains the tool results of the current step, each with its call id.
    Step(&'a Mutex<Vec<(String, ToolOutput)>>),
    /// Receives every event.
    Stream(&'a dyn DeltaSink),
}

impl<'a> Reader<'a> {
    /// Returns the receiver of text deltas, or `None` if the model's response is not streamed.
    pub(crate) fn deltas(self) -> Option<&'a dyn DeltaSink> {
        match self {
            Self::Stream(sink) => Some(sink),
            Self::Nobody | Self::Step(_) => None,
        }
    }

    /// Removes and returns the stored result of a tool call. Returns `None` if there is no such result, or if the
    /// reader does not receive steps.
    pub(crate) fn take(self, call_id: &str) -> Option<ToolOutput> {
        let Self::Step(results) = self else {
            return None;
        };
        let mut results = lock(results);
        let index = results.iter().position(|(id, _)| id == call_id)?;
        Some(results.swap_remove(index).1)
    }

    /// Sends an event if the reader streams. Waits while the reader is slow. `event` is not called for other readers.
    pub(crate) async fn send(self, event: impl FnOnce() -> StreamEvent) {
        if let Self::Stream(sink) = self {
            sink.send(event()).await;
        }
    }

    /// Sends or stores the result of a tool call.
    pub(crate) async fn send_result(self, id: &str, name: &str, output: &ToolOutput) {
        match self {
            Self::Nobody => {}
            Self::Step(results) => {
                let mut results = lock(results);
                results.push((id.to_owned(), output.clone()));
            }
            Self::Stream(sink) => {
                let (id, name) = (id.to_owned(), name.to_owned());
                // FAULT the reader of a stream misses results: without the line
                sink.send(StreamEvent::ToolResult { id, name, output: output.clone() }).await;
            }
        }
    }
}
