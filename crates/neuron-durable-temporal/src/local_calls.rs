//! Requests to the model on their way from a workflow to a local activity of the same worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use neuron_runtime::Asked;
use neuron_types::{ActivityOptions, CacheControl, CompletionRequest};

/// A request and how it is treated.
#[derive(Debug)]
pub(crate) struct LocalCall {
    pub(crate) request: CompletionRequest,
    /// The wish of the request for a cache, which is no part of it.
    pub(crate) cache: Option<CacheControl>,
    pub(crate) options: ActivityOptions,
    pub(crate) asked: Asked,
    /// The agents around the call, as in [`AgentPath`](neuron_types::AgentPath).
    pub(crate) agents: Vec<String>,
    /// Time at which the server started the workflow task that makes the call.
    pub(crate) task_started: Option<SystemTime>,
}

/// The requests that local activities of this process shall make.
///
/// A local activity runs where its workflow runs, and its input is in no history: so the request itself
/// goes from one to the other, and neither the SDK nor a payload store writes it down at every turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalCalls(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// No two calls of a process have the same ticket, so that an evicted run takes away its own only.
    next: u64,
    waiting: HashMap<u64, Arc<LocalCall>>,
}

impl LocalCalls {
    /// Leaves a call for the activity, as long as the ticket lives.
    pub(crate) fn leave(&self, call: LocalCall) -> Ticket {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = table.next;
        table.next += 1;
        table.waiting.insert(number, Arc::new(call));
        Ticket { calls: self.clone(), number }
    }

    /// Looks at a call. It stays, for another attempt.
    pub(crate) fn get(&self, ticket: u64) -> Option<Arc<LocalCall>> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.waiting.get(&ticket).cloned()
    }
}

/// The claim on a call that was left. Dropped, it takes the call away.
#[derive(Debug)]
pub(crate) struct Ticket {
    calls: LocalCalls,
    pub(crate) number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use neuron_runtime::RequestLog;
    use neuron_types::{ActivityOptions, CompletionRequest, RequestRef};

    use super::{LocalCall, LocalCalls};

    #[test]
    fn a_call_waits_as_long_as_its_ticket_lives() {
        let calls = LocalCalls::default();
        let asked = RequestLog::default().ask(RequestRef::default()).unwrap();
        let call = || LocalCall {
            asked: asked.clone(),
            request: CompletionRequest::default(),
            cache: None,
            options: ActivityOptions::default(),
            agents: Vec::new(),
            task_started: None,
        };
        let (first, second) = (calls.leave(call()), calls.clone().leave(call()));
        assert_ne!(first.number, second.number);
        let number = first.number;
        assert!(calls.get(number).is_some() && calls.get(number).is_some());
        drop(first);
        assert!(calls.get(number).is_none());
        assert!(calls.get(second.number).is_some());
    }
}
