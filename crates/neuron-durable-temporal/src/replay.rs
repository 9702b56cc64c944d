//! Replays the history of a run without a server ([`replay_history`]).

use std::sync::Arc;
use std::time::Duration;

use neuron_types::DurableAgent;
use temporalio_client::WorkflowHistory;
use temporalio_common::data_converters::DataConverter;
use temporalio_sdk::workflow_replayer::{
    WorkflowReplayError, WorkflowReplayFailure, WorkflowReplayer, WorkflowReplayerOptions,
};

use crate::payload_store::converter;
use crate::{AgentWorkflow, TemporalError, TemporalOptions};

/// Checks that `agent` can continue a run that older code started. Replays a history of the run, which
/// [`TemporalRun::history`](crate::TemporalRun::history) returned, without a server, a model or tools.
///
/// Keep histories of your agent in its repository, and replay them in its tests before each deployment.
///
/// # Errors
///
/// - [`TemporalError::NonDeterminism`] if the steps of the agent differ from the history.
/// - [`TemporalError::Other`] if the history cannot be parsed or has no events.
/// - [`TemporalError::Worker`] if the replay worker cannot be created.
///
/// # Example
///
/// ```no_run
/// use neuron_durable_temporal::{TemporalOptions, replay_history};
///
/// # async fn check(my_agent: impl neuron_types::DurableAgent + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let history = std::fs::read("tests/histories/ticket-17.json")?;
/// replay_history(my_agent, TemporalOptions::new(), &history).await?;
/// # Ok(())
/// # }
/// ```
pub async fn replay_history(
    agent: impl DurableAgent + 'static,
    options: impl Into<TemporalOptions>,
    history: &[u8],
) -> Result<(), TemporalError> {
    let options = options.into();
    // The SDK waits forever for the first event of a history without events.
    let parts: Events =
        serde_json::from_slice(history).map_err(|error| TemporalError::Other(error.into()))?;
    if parts.events.is_empty() {
        return Err(TemporalError::Other("the history has no events".into()));
    }
    let history =
        WorkflowHistory::from_json(history).map_err(|error| TemporalError::Other(error.into()))?;
    let agent: Arc<dyn DurableAgent> = Arc::new(agent);
    let data_converter = match &options.payload_store {
        Some(store) => converter(DataConverter::default(), store.clone(), Duration::ZERO),
        None => DataConverter::default(),
    };
    let replayer = WorkflowReplayerOptions::new()
        .register_workflow_with_factory(move || AgentWorkflow::new(agent.clone(), options.clone()))
        .map_err(|error| TemporalError::Worker(error.into()))?
        .data_converter(data_converter)
        .build();
    let replayer =
        WorkflowReplayer::new(replayer).map_err(|error| TemporalError::Worker(error.into()))?;
    let replayed = replayer.replay_workflow(history).await;
    replayed.map_err(|error| match error {
        WorkflowReplayError::Replay(WorkflowReplayFailure::InvalidHistory { .. })
        | WorkflowReplayError::History(_) => TemporalError::Other(error.into()),
        WorkflowReplayError::Worker(_) => TemporalError::Worker(error.into()),
        error => TemporalError::NonDeterminism(error.to_string()),
    })
}

/// The only field of a history that is parsed to check that the history has events.
#[derive(serde::Deserialize)]
struct Events {
    events: Vec<serde::de::IgnoredAny>,
}
