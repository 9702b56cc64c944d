//! [`Rounds`], which encodes the state of calls that request input from the client (protocol version 2026-07-28 and
//! later).
//!
//! The result of such a call contains the requests for input and the encoded state. The client repeats the call with
//! its responses and the state. Each of these calls is a round. The state contains an authentication code, so that the
//! client cannot change it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use neuron_types::McpError;
use rmcp::model::{ErrorData, InputResponses, RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum length of an encoded state that the server sends or accepts, in bytes.
const MAX_STATE_BYTES: usize = 1 << 20;

/// Maximum number of times that a client may repeat a call with the requested input.
pub(crate) const MAX_ROUNDS: u32 = 100;

/// The state of a call between two rounds. A round ends when the call requests input, and the next begins when the
/// client repeats the call. Meanwhile the client stores the state. It can read the state but not change it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Id of the call, which stays the same when the client repeats the call with the requested input.
    pub(crate) call_id: String,
    /// Number of times that the client has repeated the call when it sends this state back. At least 1.
    pub(crate) number: u32,
    /// Keys of the input requests that the server returned to the client together with this state.
    pub(crate) asked: BTreeSet<String>,
    /// The client's responses to all requests of this call so far, by request key.
    pub(crate) answers: BTreeMap<String, Value>,
}

/// Returns bytes that identify a request. A client's `requestState` is valid only for the request for which the server
/// created it. The authentication code of the state therefore covers these bytes.
///
/// `principal` is the authenticated caller. It is `None` if the server does not authenticate.
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

/// Encodes and decodes the state of calls that request input (`requestState`). A client stores the state until it
/// repeats the call.
pub(crate) struct Rounds {
    /// The SDK's codec, which holds the key.
    codec: RequestStateCodec,
    /// Time for which an encoded state is accepted.
    ttl: Duration,
}

impl Rounds {
    /// Creates the codec. `key` authenticates the states. `ttl` is the time for which a state is valid.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if the key is too short.
    pub(crate) fn new(key: Vec<u8>, ttl: Duration) -> Result<Self, McpError> {
        let codec = RequestStateCodec::try_new(key).map_err(|_| {
            let least = RequestStateCodec::MIN_KEY_LENGTH;
            McpError::Initialization(format!(
                "the key of `with_state_key` is too short: use at least {least} bytes"
            ))
        })?;
        Ok(Self { codec, ttl })
    }

    /// Encodes a state that is valid only for the request with the bytes `origin`. Returns `None` if the encoded state
    /// is too long, or if the call was repeated [`MAX_ROUNDS`] times.
    pub(crate) fn seal(&self, round: &Round, origin: &[u8]) -> Option<String> {
        let options = SealOptions::new().associated_data(origin).ttl(self.ttl);
        let state = self.codec.seal_json_with(round, &options).ok()?;
        (state.len() <= MAX_STATE_BYTES && round.number <= MAX_ROUNDS).then_some(state)
    }

    /// Decodes the `requestState` that a client sends back when it repeats a call. Adds `responses` to the earlier
    /// responses in the state, except responses to requests that the server did not send. `origin` identifies the
    /// repeated request.
    ///
    /// # Errors
    ///
    /// Returns an "invalid parameters" error if the state was changed, has expired, or was created for another request.
    /// The error text is the same in all cases, so that the client learns nothing about the reason.
    pub(crate) fn open(
        &self,
        state: &str,
        origin: &[u8],
        responses: InputResponses,
    ) -> Result<Round, ErrorData> {
        let invalid = || {
            ErrorData::invalid_params(
                "requestState is not valid for this request: repeat the request without it",
                None,
            )
        };
        if state.len() > MAX_STATE_BYTES {
            return Err(invalid());
        }
        let opened = self.codec.open_json_with::<Round>(state, origin);
        let mut round = opened.map_err(|error| {
            tracing::debug!(%error, "refused the requestState of a client");
            invalid()
        })?;
        let answered = responses.into_iter().filter(|(key, _)| round.asked.contains(key));
        round.answers.extend(answered);
        Ok(round)
    }
}
