//! Pins a run to a version of the agent ([`Pin`]).

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use neuron_durable::ChangedAgent;
use neuron_types::DurableError;
use serde_json::Value;

/// First bytes of a step's record if the record also pins the run to a new version of the agent.
///
/// Such a record is the JSON `{"agent_version_now":VERSION,"record":RESULT}`.
const CHANGE: &[u8] = br#"{"agent_version_now":"#;
/// Bytes between the version and the step's own record in a record that begins with [`CHANGE`].
const RECORD: &[u8] = br#","record":"#;

/// The version of the agent to which a run is pinned, and the version of this service's agent.
#[derive(Debug, Default)]
pub(crate) struct Pin {
    /// Version of this service's agent. `None` if no version is set.
    own: Option<String>,
    changed_agent: ChangedAgent,
    state: Mutex<State>,
}

/// The part of [`Pin`] that changes when a journal record with another version is read.
#[derive(Debug, Default)]
struct State {
    /// Version to which the run is pinned. `None` if the run is not pinned.
    pinned: Option<String>,
    /// Version that must still be written to the register of runs. `None` if there is nothing to write.
    news: Option<String>,
}

impl Pin {
    /// Creates the value for a run that is not pinned to a version yet. `own` is the version of this service's agent.
    pub(crate) fn new(own: Option<String>, changed_agent: ChangedAgent) -> Self {
        Self { own, changed_agent, state: Mutex::default() }
    }

    /// Returns the version of this service's agent. Returns `None` if no version is set.
    pub(crate) fn own(&self) -> Option<String> {
        self.own.clone()
    }

    fn pinned(&self) -> Option<String> {
        self.lock().pinned.clone()
    }

    /// Returns the version to which the next invocation of the run is pinned.
    pub(crate) fn for_next(&self) -> Option<String> {
        self.change().map(str::to_owned).or_else(|| self.pinned())
    }

    /// Pins the run to `version`, which was read from the journal. Returns an error if this service's agent has another
    /// version and may not continue the run.
    pub(crate) fn set(&self, version: Option<String>) -> Result<(), DurableError> {
        *self.lock() = State { pinned: version.clone(), news: version };
        self.check()
    }

    /// Returns the pinned version if it was not written to the register yet, and marks it as written. Returns `None`
    /// otherwise.
    pub(crate) fn take_news(&self) -> Option<String> {
        self.lock().news.take()
    }

    /// Checks that this service's agent may continue the run. A run that is not pinned always passes.
    fn check(&self) -> Result<(), DurableError> {
        match self.differs() && self.changed_agent == ChangedAgent::Refuse {
            false => Ok(()),
            true => Err(DurableError::NonDeterminism {
                expected: format!("agent version {}", text(self.pinned())),
                got: format!("agent version {}", text(self.own.clone())),
            }),
        }
    }

    /// Returns the version of this service's agent if the next step must pin the run to it. Returns `None` if the run
    /// is already pinned to this version, or if [`ChangedAgent`] does not allow the change.
    pub(crate) fn change(&self) -> Option<&str> {
        let may_change = self.changed_agent == ChangedAgent::GoOn;
        self.own.as_deref().filter(|_| may_change && self.differs())
    }

    /// Returns the step's result, without a version, from the stored record `json`. If the record contains a version,
    /// [pins](Self::set) the run to this version.
    pub(crate) fn read(&self, json: Bytes) -> Result<Bytes, DurableError> {
        let Some(rest) = json.strip_prefix(CHANGE) else {
            return Ok(json);
        };
        // Quotes in a version are escaped, so the first match ends the version.
        let Some(at) = rest.windows(RECORD.len()).position(|window| window == RECORD) else {
            return Ok(json);
        };
        let version = rest.get(..at).map(serde_json::from_slice);
        let begin = CHANGE.len() + at + RECORD.len();
        match (version, json.len().checked_sub(1)) {
            (Some(Ok(version)), Some(end)) if begin <= end => {
                self.set(Some(version))?;
                Ok(json.slice(begin..end))
            }
            _ => Ok(json),
        }
    }

    /// Returns `true` if the run is pinned to another version than the version of this service's agent.
    fn differs(&self) -> bool {
        let pinned = &self.lock().pinned;
        pinned.is_some() && *pinned != self.own
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a version to the JSON record of a step, so that a replay of the step pins the run to this version. Returns
/// `record` unchanged if `version` is `None`.
pub(crate) fn with_change(record: Vec<u8>, version: Option<&str>) -> Vec<u8> {
    let Some(version) = version else {
        return record;
    };
    let version = Value::from(version).to_string();
    [CHANGE, version.as_bytes(), RECORD, &record, b"}"].concat()
}

/// Formats a version for an error text.
fn text(version: Option<String>) -> String {
    version.map_or_else(|| "none".to_owned(), |version| format!("`{version}`"))
}

#[cfg(test)]
mod tests {
    use neuron_durable::ChangedAgent;
    use neuron_types::DurableError;

    use super::{Pin, with_change};

    /// Returns the pin of a run that is pinned to `pinned`, and the result of the version check.
    fn pin(own: &str, changed: ChangedAgent, pinned: &str) -> (Pin, Result<(), DurableError>) {
        let version = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let pin = Pin::new(version(own), changed);
        let result = pin.set(version(pinned));
        (pin, result)
    }

    #[test]
    fn record_with_a_version_change_pins_the_run() {
        for version in ["v2", r#"a","record":"b"#, "é\\"] {
            for record in ["12", r#"{"at":5,"record":1}"#] {
                let json = with_change(record.into(), Some(version));
                serde_json::from_slice::<serde_json::Value>(&json).unwrap();
                let (goes_on, _) = pin("v1", ChangedAgent::GoOn, "v1");
                assert_eq!(goes_on.read(json.clone().into()).unwrap(), record);
                assert_eq!(goes_on.take_news().as_deref(), Some(version));
                // The run began with another version than the version of its newest records.
                let (refuses, _) = pin("v1", ChangedAgent::Refuse, "v1");
                assert!(refuses.read(json.into()).unwrap_err().to_string().contains("`v1`"));
            }
        }
        let (pin, _) = pin("v1", ChangedAgent::Refuse, "");
        assert_eq!(pin.read("{}".into()).unwrap(), "{}");
        assert_eq!(pin.take_news(), None);
    }

    #[test]
    fn other_version_is_refused_unless_changes_are_allowed() {
        use ChangedAgent::{GoOn, Refuse};
        for (own, changed, pinned, is_fine, change) in [
            ("v1", Refuse, "v1", true, None),
            ("v2", Refuse, "v1", false, None),
            ("", Refuse, "v1", false, None),
            ("v2", Refuse, "", true, None),
            ("v2", GoOn, "v1", true, Some("v2")),
            ("", GoOn, "v1", true, None),
            ("v2", GoOn, "", true, None),
        ] {
            let (pin, result) = pin(own, changed, pinned);
            assert_eq!((result.is_ok(), pin.change()), (is_fine, change), "{own} {pinned}");
        }
        let error = pin("v2", Refuse, "v1").1.unwrap_err().to_string();
        assert!(error.contains("expected agent version `v1`, got agent version `v2`"), "{error}");
    }
}
