//! [`Inputs`], the state of the requests to the client in one call.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    self, CancelledNotification, CancelledNotificationParam, ClientCapabilities, RequestId,
    ServerNotification,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::form;
use super::question::{InputAnswer, InputRequest};
use crate::wire;
use crate::{ElicitationRequest, ElicitationResponse};

/// The requests to the client in one call, and the client's responses.
#[derive(Default)]
pub(crate) struct Inputs {
    known: Mutex<Known>,
    /// Cancelled when the call is over. After that, no further request can be sent to the client.
    pub(super) over: CancellationToken,
}

/// The part of [`Inputs`] that changes during a call. Contains the requests to the client and the client's responses.
#[derive(Default)]
pub(super) struct Known {
    /// Responses by request key, as the client sent them. They are not validated yet.
    pub(super) answers: BTreeMap<String, Value>,
    /// Requests to the client by key, which become part of the call's result. Empty before protocol version 2026-07-28.
    pub(super) open: BTreeMap<String, model::InputRequest>,
    /// Set if a request was refused because the client lacks a capability.
    pub(super) missing: Option<Missing>,
    /// Id of the task that the tool has started. The client receives this task instead of a result.
    pub(super) task: Option<String>,
    /// JSON-RPC ids of sent requests without a response. Empty since protocol version 2026-07-28.
    waiting: HashSet<RequestId>,
}

/// Data about an input request that was not sent, because the client lacks a required capability.
pub(crate) struct Missing {
    /// All client capabilities that the unsent request requires.
    pub(crate) capabilities: ClientCapabilities,
    /// The error text that the user code received.
    pub(crate) text: String,
}

impl Inputs {
    /// Creates the state for one run of a call. `answers` are the responses that the client has already sent. They are
    /// empty before protocol version 2026-07-28, because calls run only once.
    pub(crate) fn new(answers: BTreeMap<String, Value>) -> Self {
        let known = Mutex::new(Known { answers, ..Known::default() });
        Self { known, over: CancellationToken::new() }
    }

    /// Ends all requests to the client, because the call ends. Later requests are rejected.
    ///
    /// Returns a cancellation notification for each pending request. A request can still be pending because the call
    /// has spawned a task.
    pub(crate) fn end(&self) -> Vec<ServerNotification> {
        let waiting = {
            let mut known = self.lock();
            // Cancelled under the lock. Otherwise `wait_for` could register a request after `waiting` was taken.
            self.over.cancel();
            std::mem::take(&mut known.waiting)
        };
        waiting.into_iter().map(cancelled).collect()
    }

    /// Registers a sent request as pending. Returns `false` without registering the request if the call is over.
    pub(super) fn wait_for(&self, id: RequestId) -> bool {
        let mut known = self.lock();
        !self.over.is_cancelled() && known.waiting.insert(id)
    }

    /// Removes a request from the pending requests. Returns `false` if the request was not pending.
    pub(super) fn wait_no_more(&self, id: &RequestId) -> bool {
        self.lock().waiting.remove(id)
    }

    /// Returns a copy of all responses, which the next run of the call needs too.
    pub(crate) fn answers(&self) -> BTreeMap<String, Value> {
        self.lock().answers.clone()
    }

    /// Removes and returns the requests to the client that must be part of the call's result.
    pub(crate) fn take_open(&self) -> BTreeMap<String, model::InputRequest> {
        std::mem::take(&mut self.lock().open)
    }

    /// Removes and returns the capabilities that the client lacks. Returns `None` if no request was refused for a
    /// missing capability.
    pub(crate) fn take_missing(&self) -> Option<Missing> {
        self.lock().missing.take()
    }

    /// Returns the id of the task that the client must receive instead of a result, if any.
    pub(crate) fn task(&self) -> Option<String> {
        self.lock().task.clone()
    }

    /// Removes and returns the id of the task that the client must receive instead of a result, if any.
    pub(crate) fn take_task(&self) -> Option<String> {
        self.lock().task.take()
    }

    /// Returns the client's response to a request, or `None` if there is no valid response. Removes an invalid
    /// response, so that the request is sent again.
    pub(super) fn answer(&self, key: &str, request: &InputRequest) -> Option<InputAnswer> {
        let mut known = self.lock();
        let answer = known.answers.get(key).and_then(|answer| fitting_answer(request, answer));
        if answer.is_none() {
            known.answers.remove(key);
        }
        answer
    }

    /// Locks the state, even if the lock is poisoned.
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the notification that cancels the request with this id at the client.
pub(super) fn cancelled(id: RequestId) -> ServerNotification {
    let param = CancelledNotificationParam::new(Some(id), None);
    ServerNotification::CancelledNotification(CancelledNotification::new(param))
}

/// Parses and validates a client's response. Returns `None` if the response does not match the request.
pub(super) fn fitting_answer(request: &InputRequest, answer: &Value) -> Option<InputAnswer> {
    let answer = wire::input::answer_from_json(request, answer)?;
    match (request, answer) {
        (
            InputRequest::Elicitation(ElicitationRequest::Form { schema, .. }),
            InputAnswer::Elicitation(ElicitationResponse::Accept(content)),
        ) => form::fits(schema, &content).then(|| {
            // Clients omit the content if no field was filled in. User code always receives an object.
            let content =
                if content.is_null() { Value::Object(Default::default()) } else { content };
            InputAnswer::Elicitation(ElicitationResponse::Accept(content))
        }),
        (_, answer) => Some(answer),
    }
}
