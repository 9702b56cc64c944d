//! Passes the requests of local model calls from a workflow to the local activity in the same process ([`LocalCalls`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use neuron_durable::Asked;
use neuron_types::{ActivityOptions, CacheControl, CompletionRequest};

/// The request of a local model call, with everything that its activity needs.
#[derive(Debug)]
pub(crate) struct LocalCall {
    pub(crate) request: CompletionRequest,
    /// Cache control of the request, which is not part of [`CompletionRequest`].
    pub(crate) cache: Option<CacheControl>,
    pub(crate) options: ActivityOptions,
    /// Summary of the request, which the history stores beside the response.
    pub(crate) asked: Asked,
    /// Names of the agents around the call, as in [`AgentPath`](neuron_types::AgentPath).
    pub(crate) agents: Vec<String>,
    /// Time at which the server started the workflow task that makes the call.
    pub(crate) task_started: Option<SystemTime>,
}

/// The requests of this process that wait for their local activities.
///
/// A local activity runs in the process of its workflow, so its request is passed in memory. Only the number of the
/// stored request is in the activity's input. The history and the payload store therefore do not contain the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalCalls(Arc<Mutex<Table>>);

/// The stored requests of model calls, by ticket number. The local activity that makes the call gets the ticket number
/// as its input.
#[derive(Debug, Default)]
struct Table {
    /// Number under which the next request is stored. A number is never used twice in the process, so a run can remove
    /// only its own requests.
    next: u64,
    waiting: HashMap<u64, Arc<LocalCall>>,
}

impl LocalCalls {
    /// Stores the request of a model call and returns its ticket. The local activity reads the request by the ticket's
    /// number. Dropping the ticket removes the request.
    pub(crate) fn leave(&self, call: LocalCall) -> Ticket {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = table.next;
        table.next += 1;
        table.waiting.insert(number, Arc::new(call));
        Ticket { calls: self.clone(), number }
    }

    /// Returns the request with this ticket number, which stays stored for another attempt. Returns `None` if the
    /// [`Ticket`] was dropped.
    pub(crate) fn get(&self, ticket: u64) -> Option<Arc<LocalCall>> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.waiting.get(&ticket).cloned()
    }
}

/// Guard of a stored request of a model call. Dropping the guard removes the request.
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
    use neuron_durable::RequestLog;
    use neuron_types::{ActivityOptions, CompletionRequest, RequestRef};

    use super::{LocalCall, LocalCalls};

    #[test]
    fn call_is_kept_until_its_ticket_is_dropped() {
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
