//! The version of the agent to which a run is pinned ([`AgentVersion`]).

use neuron_durable::ChangedAgent;
use neuron_types::DurableError;
use serde::{Deserialize, Serialize};
use temporalio_common::MemoValues;
use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::common::v1::Memo;

use crate::TemporalOptions;

/// Key of the version in the memo of a run's workflow. The server copies the memo to the next execution.
const MEMO: &str = "neuron_agent_version";

/// Version of a worker's agent, or of the agent to which a run is pinned. `None` if there is no version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AgentVersion(Option<String>);

impl AgentVersion {
    pub(crate) fn new(version: Option<String>) -> Self {
        Self(version)
    }

    /// Reads the version from the memo of a run. The result is empty if the memo has no valid version.
    pub(crate) fn pinned(memo: Option<&Memo>) -> Self {
        let version = memo.and_then(|memo| memo.fields.get(MEMO));
        Self(version.and_then(|version| serde_json::from_slice(&version.data).ok()))
    }

    pub(crate) fn into_text(self) -> Option<String> {
        self.0
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the memo of a new run with this version. Returns `None` if `self` is empty.
    pub(crate) fn to_memo(&self) -> Option<MemoValues> {
        self.in_memo(&Memo::default())
    }

    /// Adds this version to a copy of `earlier`, the memo of an earlier execution. Returns `None` if `self` is empty.
    pub(crate) fn in_memo(&self, earlier: &Memo) -> Option<MemoValues> {
        let mut memo = MemoValues::new();
        for (key, value) in &earlier.fields {
            memo.insert(key, RawValue::new(vec![value.clone()]));
        }
        memo.insert(MEMO, self.0.clone()?);
        Some(memo)
    }

    /// Checks that a worker with these options may drive a run that is pinned to `self`. Returns the version to which
    /// the run is pinned from now on.
    ///
    /// - If the versions are equal or one of them is missing, this is `self`.
    /// - If they differ and the options allow a [changed agent](ChangedAgent::GoOn), this is the worker's version.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the versions differ, and the options do not allow a changed agent.
    pub(crate) fn check(self, options: &TemporalOptions) -> Result<Self, DurableError> {
        let (Some(pinned), Some(own)) = (&self.0, &options.durable.agent_version) else {
            return Ok(self);
        };
        if pinned == own {
            return Ok(self);
        }
        match options.durable.changed_agent {
            ChangedAgent::GoOn => {
                tracing::warn!(%pinned, %own, "the run goes on with another version of its agent");
                Ok(Self(Some(own.clone())))
            }
            _ => {
                let text = format!(
                    "the run is pinned to version {pinned:?} of its agent, and this worker has version {own:?}"
                );
                Err(DurableError::Other(text.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use neuron_durable::DurableOptions;

    use super::*;

    #[test]
    fn check_fails_only_if_both_versions_exist_and_differ() {
        let version = |text: &str| AgentVersion::new(Some(text.to_owned()));
        let options = TemporalOptions::new();
        assert_eq!(version("1").check(&options).unwrap(), version("1"));
        let options = TemporalOptions::from(DurableOptions::new().agent_version("2"));
        assert_eq!(version("2").check(&options).unwrap(), version("2"));
        assert_eq!(AgentVersion::default().check(&options).unwrap(), AgentVersion::default());
        let error = version("1").check(&options).unwrap_err().to_string();
        assert!(error.contains("\"1\"") && error.contains("\"2\""), "{error}");
        let durable = DurableOptions::new().agent_version("2").changed_agent(ChangedAgent::GoOn);
        let options = TemporalOptions::from(durable);
        assert_eq!(version("1").check(&options).unwrap(), version("2"));
    }
}
