//! A run that goes on as a new execution of a durable engine: its state.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DurableError, Message, TokenUsage, ToolOutput};

/// The state of a run between two turns: what a new execution of it starts from.
///
/// The loop hands it, as JSON, to [`DurableContext::continue_as_new`](crate::DurableContext), and an
/// agent that is built alike goes on from it: limits count on, and the usage is that of the whole run.
/// Its size is that of the conversation, and it is as secret. `Debug` does not show the conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSnapshot {
    /// The version of this form: [`RunSnapshot::VERSION`] where it was written.
    pub version: u32,
    /// The run's id.
    #[serde(default)]
    pub run_id: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tokens of the run so far, to look at: the loop goes on with those of `loop_state`.
    #[serde(default)]
    pub usage: TokenUsage,
    /// Answered calls of the model, to look at too.
    #[serde(default)]
    pub turns: usize,
    /// Whether the conversation ends with an answer that the model goes on with: a turn that the provider paused, or the
    /// beginning of an answer that the user gave.
    #[serde(default)]
    pub is_paused: bool,
    /// The effects of the run whose tools gave them keys, in the form of the durable context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<KnownEffect>,
    /// The rest of the state, in the form of the loop. `null` if there is nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub loop_state: Value,
    /// Number of the run in its conversation, from zero. Only in version 1, as all fields after it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_number: usize,
    /// The part of the tokens that tools took.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool_usage: TokenUsage,
    /// The part of the tokens that the provider did not report.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimated_usage: TokenUsage,
    /// Calls of the model that were made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: usize,
    /// Tool calls that were started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool_calls: usize,
    /// How often in a row the provider paused its turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pauses: usize,
    /// Number of turns in a row in which the calls of a tool failed, by its name. Names that no tool has count under the
    /// empty name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failing_turns: BTreeMap<String, usize>,
}

/// An effect of a run whose tool gave it a [key](crate::Tool::effect_key).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownEffect {
    /// The name of the tool.
    pub tool: String,
    /// The key.
    pub key: String,
    /// The result. `None` if nobody knows it: the process ended before the tool returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl RunSnapshot {
    /// The version of the stored form that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 2;

    /// Creates the state of a run that has not had a turn; set its fields.
    pub fn new(run_id: impl Into<String>, messages: Vec<Message>) -> Self {
        Self {
            version: Self::VERSION,
            run_id: run_id.into(),
            run_number: 0,
            messages,
            usage: TokenUsage::default(),
            tool_usage: TokenUsage::default(),
            estimated_usage: TokenUsage::default(),
            turns: 0,
            requests: 0,
            tool_calls: 0,
            pauses: 0,
            is_paused: false,
            failing_turns: BTreeMap::new(),
            effects: Vec::new(),
            loop_state: Value::Null,
        }
    }

    /// Checks that this release can read the state.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] for one that a newer release wrote.
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
    fn the_stored_form_reads_back_and_what_is_missing_or_unknown_does_no_harm() {
        let mut snapshot = RunSnapshot::new("r", vec![Message::user("hi")]);
        snapshot.turns = 3;
        snapshot.failing_turns.insert("search".into(), 2);
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
    fn a_newer_version_is_refused_and_debug_is_silent() {
        let mut snapshot = RunSnapshot::new("r", vec![Message::user("secret")]);
        snapshot.check_version().unwrap();
        assert!(!format!("{snapshot:?}").contains("secret"));
        snapshot.version = 3;
        let error = snapshot.check_version().unwrap_err().to_string();
        assert!(error.contains("version 3") && error.contains("up to 2"), "{error}");
    }
}
