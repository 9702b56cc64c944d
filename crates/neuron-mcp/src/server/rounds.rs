//! Calls that take several rounds, since version 2026-07-28: the state that the client carries from one to the
//! next, sealed so that it cannot change it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use neuron_types::McpError;
use rmcp::model::{ErrorData, InputResponses, RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest state that is sent or taken, in bytes.
const MAX_STATE_BYTES: usize = 1 << 20;

/// How many rounds a call may take.
const MAX_ROUNDS: u32 = 100;

/// What a client carries from one round of a call to the next. It can read it, and not change it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The call's id, the same in all rounds.
    pub(crate) call_id: String,
    /// Which round comes next.
    pub(crate) number: u32,
    /// The keys of the questions that were asked last.
    pub(crate) asked: BTreeSet<String>,
    /// The answers of the rounds before.
    pub(crate) answers: BTreeMap<String, Value>,
}

/// What a call is, as bytes that are the same for the same request: a state belongs to it alone.
///
/// The principal is in whose name it comes, if that is known.
pub(crate) fn origin(
    method: &str,
    name: &str,
    arguments: &Value,
    principal: Option<&str>,
) -> Vec<u8> {
    let mut arguments = arguments.clone();
    arguments.sort_all_objects();
    serde_json::json!([method, name, arguments, principal]).to_string().into_bytes()
}

/// Seals and opens states.
pub(crate) struct Rounds {
    codec: RequestStateCodec,
    /// How long a state can be used.
    ttl: Duration,
}

impl Rounds {
    /// # Errors
    ///
    /// [`McpError::Initialization`] for a key that is too short.
    pub(crate) fn new(key: Vec<u8>, ttl: Duration) -> Result<Self, McpError> {
        let codec = RequestStateCodec::try_new(key).map_err(|_| {
            let least = RequestStateCodec::MIN_KEY_LENGTH;
            McpError::Initialization(format!("the key for states has at least {least} bytes"))
        })?;
        Ok(Self { codec, ttl })
    }

    /// Seals a state; `None` if the client cannot be asked to carry that much, or that often.
    pub(crate) fn seal(&self, round: &Round, origin: &[u8]) -> Option<String> {
        let options = SealOptions::new().associated_data(origin).ttl(self.ttl);
        let state = self.codec.seal_json_with(round, &options).ok()?;
        (state.len() <= MAX_STATE_BYTES && round.number <= MAX_ROUNDS).then_some(state)
    }

    /// Opens a state, and adds the answers to the questions that were asked with it.
    ///
    /// # Errors
    ///
    /// Invalid parameters, if the state was changed, is too old, or belongs to another request: which of these
    /// is not told.
    pub(crate) fn open(
        &self,
        state: &str,
        origin: &[u8],
        responses: InputResponses,
    ) -> Result<Round, ErrorData> {
        let invalid = || {
            ErrorData::invalid_params(
                "requestState is not valid for this request: begin anew without it",
                None,
            )
        };
        if state.len() > MAX_STATE_BYTES {
            return Err(invalid());
        }
        let opened = self.codec.open_json_with::<Round>(state, origin);
        let mut round = opened.map_err(|error| {
            tracing::debug!(%error, "a state that a client sent is refused");
            invalid()
        })?;
        let answered = responses.into_iter().filter(|(key, _)| round.asked.contains(key));
        round.answers.extend(answered);
        Ok(round)
    }
}
