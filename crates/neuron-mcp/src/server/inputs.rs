//! What is known of the questions of one call.

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

/// What is known of the questions of one call.
#[derive(Default)]
pub(crate) struct Inputs {
    known: Mutex<Known>,
    /// Cancelled when the call is over.
    pub(super) over: CancellationToken,
}

#[derive(Default)]
pub(super) struct Known {
    /// The answers so far, as the client sent them.
    pub(super) answers: BTreeMap<String, Value>,
    /// What the client is to be asked with the result of this round.
    pub(super) open: BTreeMap<String, model::InputRequest>,
    /// What the client would have to be able to do for a question that was asked.
    pub(super) missing: Option<Missing>,
    /// The requests to a client of an older version that it has not answered.
    waiting: HashSet<RequestId>,
}

/// What a client would have to be able to do.
pub(crate) struct Missing {
    pub(crate) capabilities: ClientCapabilities,
    /// What the code that asked was told.
    pub(crate) text: String,
}

impl Inputs {
    /// With the answers of earlier rounds.
    pub(crate) fn new(answers: BTreeMap<String, Value>) -> Self {
        let known = Mutex::new(Known { answers, ..Known::default() });
        Self { known, over: CancellationToken::new() }
    }

    /// Asks nothing any more. Returns what is to be told to the client of questions that are open, because the
    /// call has tasks of its own that still wait.
    pub(crate) fn end(&self) -> Vec<ServerNotification> {
        let waiting = {
            let mut known = self.lock();
            // While locked: what is asked then sees it.
            self.over.cancel();
            std::mem::take(&mut known.waiting)
        };
        waiting.into_iter().map(cancelled).collect()
    }

    /// Remembers that a request waits for an answer; `false` if the call is over.
    pub(super) fn wait_for(&self, id: RequestId) -> bool {
        let mut known = self.lock();
        !self.over.is_cancelled() && known.waiting.insert(id)
    }

    /// Forgets a request; whether it was waiting.
    pub(super) fn wait_no_more(&self, id: &RequestId) -> bool {
        self.lock().waiting.remove(id)
    }

    /// The answers so far.
    pub(crate) fn answers(&self) -> BTreeMap<String, Value> {
        self.lock().answers.clone()
    }

    /// What the client is to be asked with the result of this round.
    pub(crate) fn take_open(&self) -> BTreeMap<String, model::InputRequest> {
        std::mem::take(&mut self.lock().open)
    }

    /// What the client would have to be able to do for a question that was asked.
    pub(crate) fn take_missing(&self) -> Option<Missing> {
        self.lock().missing.take()
    }

    /// The answer to a question, if there is one that fits. One that does not is forgotten.
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

/// A client's answer, if it is one to this question.
pub(super) fn fitting_answer(request: &InputRequest, answer: &Value) -> Option<InputAnswer> {
    let answer = wire::input::answer_from_json(request, answer)?;
    match (request, answer) {
        (
            InputRequest::Elicitation(ElicitationRequest::Form { schema, .. }),
            InputAnswer::Elicitation(ElicitationResponse::Accept(content)),
        ) => form::fits(schema, &content).then(|| {
            // A form of optional fields that was sent empty.
            let content =
                if content.is_null() { Value::Object(Default::default()) } else { content };
            InputAnswer::Elicitation(ElicitationResponse::Accept(content))
        }),
        (_, answer) => Some(answer),
    }
}
