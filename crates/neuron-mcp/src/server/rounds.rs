//! State of multi-round calls, since version 2026-07-28. The client carries the state between rounds. The state is
//! authenticated, so the client cannot change it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use neuron_types::McpError;
use rmcp::model::{ErrorData, InputResponses, RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length of a sent or received state, in bytes.
const MAX_STATE_BYTES: usize = 1 << 20;

/// Maximum number of rounds of a call.
const MAX_ROUNDS: u32 = 100;

/// The state that a client carries to the next round of a call. The client can read it but not change it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Id of the call, the same in all rounds.
    pub(crate) call_id: String,
    /// Number of the next round.
    pub(crate) number: u32,
    /// Keys of the requests in the last round.
    pub(crate) asked: BTreeSet<String>,
    /// Responses of the earlier rounds.
    pub(crate) answers: BTreeMap<String, Value>,
}

/// Returns bytes that identify a request, so that a state is valid only for this request.
///
/// `principal` is the authenticated caller, if known.
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
    /// Lifetime of a state.
    ttl: Duration,
}

impl Rounds {
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if the key is too short.
    pub(crate) fn new(key: Vec<u8>, ttl: Duration) -> Result<Self, McpError> {
        let codec = RequestStateCodec::try_new(key).map_err(|_| {
            let least = RequestStateCodec::MIN_KEY_LENGTH;
            McpError::Initialization(format!("the key for states has at least {least} bytes"))
        })?;
        Ok(Self { codec, ttl })
    }

    /// Seals a state. Returns `None` if the state is too long or the call has too many rounds.
    pub(crate) fn seal(&self, round: &Round, origin: &[u8]) -> Option<String> {
        let options = SealOptions::new().associated_data(origin).ttl(self.ttl);
        let state = self.codec.seal_json_with(round, &options).ok()?;
        (state.len() <= MAX_STATE_BYTES && round.number <= MAX_ROUNDS).then_some(state)
    }

    /// Opens a state, and adds the responses to its requests.
    ///
    /// # Errors
    ///
    /// Returns invalid parameters if the state was changed, has expired, or belongs to another request. The error does
    /// not reveal which.
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
