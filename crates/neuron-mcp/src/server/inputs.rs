//! State of the requests to the client in one call.

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

/// The state of the requests to the client in one call.
#[derive(Default)]
pub(crate) struct Inputs {
    known: Mutex<Known>,
    /// Cancelled when the call is over.
    pub(super) over: CancellationToken,
}

#[derive(Default)]
pub(super) struct Known {
    /// Responses so far, as sent by the client.
    pub(super) answers: BTreeMap<String, Value>,
    /// Requests to send with the result of this round.
    pub(super) open: BTreeMap<String, model::InputRequest>,
    /// Capabilities that the client lacks for a request.
    pub(super) missing: Option<Missing>,
    /// Ids of pending requests to a client of an older version.
    waiting: HashSet<RequestId>,
}

/// Capabilities that a client lacks.
pub(crate) struct Missing {
    pub(crate) capabilities: ClientCapabilities,
    /// The error text that the calling code received.
    pub(crate) text: String,
}

impl Inputs {
    /// Starts with the responses of earlier rounds.
    pub(crate) fn new(answers: BTreeMap<String, Value>) -> Self {
        let known = Mutex::new(Known { answers, ..Known::default() });
        Self { known, over: CancellationToken::new() }
    }

    /// Rejects further requests. Returns the cancellations of pending requests, because tasks of the call may still
    /// wait for them.
    pub(crate) fn end(&self) -> Vec<ServerNotification> {
        let waiting = {
            let mut known = self.lock();
            // Cancelled under the lock, so that no later request becomes pending.
            self.over.cancel();
            std::mem::take(&mut known.waiting)
        };
        waiting.into_iter().map(cancelled).collect()
    }

    /// Registers a pending request. Returns `false` if the call is over.
    pub(super) fn wait_for(&self, id: RequestId) -> bool {
        let mut known = self.lock();
        !self.over.is_cancelled() && known.waiting.insert(id)
    }

    /// Removes a pending request. Returns `true` if it was pending.
    pub(super) fn wait_no_more(&self, id: &RequestId) -> bool {
        self.lock().waiting.remove(id)
    }

    /// Returns the responses so far.
    pub(crate) fn answers(&self) -> BTreeMap<String, Value> {
        self.lock().answers.clone()
    }

    /// Takes the requests to send with the result of this round.
    pub(crate) fn take_open(&self) -> BTreeMap<String, model::InputRequest> {
        std::mem::take(&mut self.lock().open)
    }

    /// Takes the capabilities that the client lacks.
    pub(crate) fn take_missing(&self) -> Option<Missing> {
        self.lock().missing.take()
    }

    /// Returns the valid response to a request, if there is one. Discards an invalid response.
    pub(super) fn answer(&self, key: &str, request: &InputRequest) -> Option<InputAnswer> {
        let mut known = self.lock();
        let answer = known.answers.get(key).and_then(|answer| fitting_answer(request, answer));
        if answer.is_none() {
            known.answers.remove(key);
        }
        answer
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn cancelled(id: RequestId) -> ServerNotification {
    let param = CancelledNotificationParam::new(Some(id), None);
    ServerNotification::CancelledNotification(CancelledNotification::new(param))
}

/// Parses a client's response. Returns `None` if it does not match the request.
pub(super) fn fitting_answer(request: &InputRequest, answer: &Value) -> Option<InputAnswer> {
    let answer = wire::input::answer_from_json(request, answer)?;
    match (request, answer) {
        (
            InputRequest::Elicitation(ElicitationRequest::Form { schema, .. }),
            InputAnswer::Elicitation(ElicitationResponse::Accept(content)),
        ) => form::fits(schema, &content).then(|| {
            // An empty form with optional fields only.
            let content =
                if content.is_null() { Value::Object(Default::default()) } else { content };
            InputAnswer::Elicitation(ElicitationResponse::Accept(content))
        }),
        (_, answer) => Some(answer),
    }
}
