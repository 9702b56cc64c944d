//! Implements [`DurableRuns`], the common interface of all durable engines, for [`SqliteRuns`].

use neuron_durable::{DurableRuns, RunsError};
use neuron_types::ApprovalDecisions;
use serde_json::Value;

use crate::{RunSummary, SqliteRuns};

impl DurableRuns for SqliteRuns {
    async fn list(&self) -> Result<Vec<RunSummary>, RunsError> {
        Ok(SqliteRuns::list(self).await?)
    }

    /// Returns the summary of a run. [`SqliteRuns::inspect`] also returns the steps.
    async fn inspect(&self, id: &str) -> Result<RunSummary, RunsError> {
        Ok(SqliteRuns::inspect(self, id).await?.summary)
    }

    async fn signal(&self, id: &str, name: &str, value: Value) -> Result<(), RunsError> {
        Ok(SqliteRuns::signal(self, id, name, value).await?)
    }

    async fn cancel(&self, id: &str) -> Result<(), RunsError> {
        Ok(SqliteRuns::cancel(self, id).await?)
    }

    /// Continues a run with decisions that arrive after the deadline of its wait. The run keeps its id, which is
    /// returned.
    async fn revive(&self, id: &str, decisions: ApprovalDecisions) -> Result<String, RunsError> {
        SqliteRuns::revive(self, id, decisions).await?;
        Ok(id.to_owned())
    }
}
