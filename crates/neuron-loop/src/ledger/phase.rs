//! The place in a run at which a conversation stands.

use neuron_types::StopReason;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Batch, Limit};

/// The place in a run at which a conversation stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// No run is under way.
    #[default]
    Idle,
    /// The next turn has not begun.
    TurnStart,
    /// The turn was announced, and the call of the model follows.
    Calling,
    /// The last answer calls tools. Their results stand in the message after it.
    Batch(Batch),
    /// A limit was reached, and one last call follows.
    Landing {
        limit: Limit,
        /// Whether the turn of the last call was announced.
        is_open: bool,
    },
    /// The answer of the run is known.
    Ended(Ending),
}

/// The answer of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub(crate) response: String,
    pub(crate) stop_reason: StopReason,
    /// The output of a typed run.
    pub(crate) output: Option<Value>,
    /// The limit on which the run landed.
    pub(crate) limit: Option<String>,
}

/// The next thing to do in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    OpenTurn,
    CallModel,
    RunTools,
    /// Wait until a person has decided on calls.
    Wait,
    /// Make the last call.
    Land,
    Finish,
}
