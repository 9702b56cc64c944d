//! The snapshot of a run that continues as a new execution of a durable engine.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DurableError, KnownEffect, Message, TokenUsage};

/// The state of a run between two turns, from which a new execution of a durable engine continues the run.
///
/// The loop passes the snapshot as JSON to [`DurableContext::continue_as_new`](crate::DurableContext). An agent with
/// the same configuration continues from the snapshot. Limits and usage then still cover the whole run.
///
/// A snapshot contains the conversation, so it may be large and confidential. `Debug` omits the conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSnapshot {
    /// Format version of the snapshot, which is [`RunSnapshot::VERSION`] of the release that wrote the snapshot.
    pub version: u32,
    /// Id of the run.
    #[serde(default)]
    pub run_id: String,
    /// The whole conversation.
    pub messages: Vec<Message>,
    /// Tokens that the run has used so far. For display only if there is a `loop_state`, which has all counters.
    #[serde(default)]
    pub usage: TokenUsage,
    /// Number of model calls that returned a response. For display only if there is a `loop_state`, which has all
    /// counters.
    #[serde(default)]
    pub turns: usize,
    /// Set if the conversation ends with an incomplete response that the model must continue. Either the provider
    /// paused the response, or the caller supplied its beginning.
    #[serde(default)]
    pub is_paused: bool,
    /// The keys and results of the run's tool calls that have an [effect key](crate::Tool::effect_key), from
    /// [`DurableContext::known_effects`](crate::DurableContext::known_effects).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<KnownEffect>,
    /// All other state of the loop, in a private format of the loop. `null` in a snapshot that the loop did not write.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub loop_state: Value,
}

impl RunSnapshot {
    /// The format version that this release writes. It is also the newest version that this release reads.
    pub const VERSION: u32 = 2;

    /// Creates the snapshot of a run that has made no calls. Set the other fields directly.
    pub fn new(run_id: impl Into<String>, messages: Vec<Message>) -> Self {
        Self {
            version: Self::VERSION,
            run_id: run_id.into(),
            messages,
            usage: TokenUsage::default(),
            turns: 0,
            is_paused: false,
            effects: Vec::new(),
            loop_state: Value::Null,
        }
    }

    /// Checks that this release supports the snapshot's version.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the snapshot was written by a newer release.
    pub fn check_version(&self) -> Result<(), DurableError> {
        let (found, supported) = (self.version, Self::VERSION);
        match found > supported {
            true => {
                let text = format!(
                    "the state of the run has version {found}, and this release reads up to \
                     {supported}: use the release that wrote it, or a newer one"
                );
                Err(DurableError::Other(text.into()))
            }
            false => Ok(()),
        }
    }
}

impl fmt::Debug for RunSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunSnapshot")
            .field("version", &self.version)
            .field("run_id", &self.run_id)
            .field("messages", &self.messages.len())
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::RunSnapshot;
    use crate::Message;

    #[test]
    fn stored_form_round_trips_and_tolerates_missing_and_unknown_fields() {
        let mut snapshot = RunSnapshot::new("r", vec![Message::user("hi")]);
        snapshot.turns = 3;
        snapshot.loop_state = json!({ "size": 2 });
        let stored = serde_json::to_value(&snapshot).unwrap();
        assert_eq!(serde_json::from_value::<RunSnapshot>(stored).unwrap(), snapshot);

        let old = json!({"version": 1, "messages": [], "turns": 2, "something": "new"});
        let read: RunSnapshot = serde_json::from_value(old).unwrap();
        assert_eq!((read.turns, read.run_id.as_str()), (2, ""));
        for wrong in [json!({}), json!({"version": 1}), Value::Null] {
            assert!(serde_json::from_value::<RunSnapshot>(wrong).is_err());
        }
    }

    #[test]
    fn newer_version_is_refused_and_debug_omits_messages() {
        let mut snapshot = RunSnapshot::new("r", vec![Message::user("secret")]);
        snapshot.check_version().unwrap();
        assert!(!format!("{snapshot:?}").contains("secret"));
        snapshot.version = 3;
        let error = snapshot.check_version().unwrap_err().to_string();
        assert!(error.contains("version 3") && error.contains("up to 2"), "{error}");
    }
}
