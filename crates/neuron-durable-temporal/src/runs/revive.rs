//! Starts a run again with late decisions, after the run ended because nobody decided on its calls in time.

use neuron_durable::{RunStatus, RunsError};
use neuron_types::{ApprovalDecisions, BoxError, Start};
use temporalio_client::NamespacedClient;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_common::data_converters::{SerializationContextData, WorkflowSerializationContext};
use temporalio_common::protos::temporal::api::common::v1::{Memo, Payloads, WorkflowType};
use temporalio_common::protos::temporal::api::enums::v1::{
    WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
};
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflow::v1::WorkflowExecutionInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::StartWorkflowExecutionRequest;

use super::TemporalRuns;
use super::end::End;
use super::operate::{TYPE, of_status};
use crate::json::Json;
use crate::workflow::RunInput;

impl TemporalRuns {
    /// Starts the run again with these decisions. The run keeps its id, its agent version and its task queue.
    ///
    /// # Errors
    ///
    /// - [`RunsError::NotRevivable`] if the run has not ended, or did not end with calls that need a decision.
    /// - [`RunsError::NotRevivable`] if the run was revived meanwhile, or its state was too long to be stored.
    /// - [`RunsError::Approval`] if the decisions do not fit the pending calls.
    pub(super) async fn start_again(
        &self,
        id: &str,
        decisions: ApprovalDecisions,
    ) -> Result<(), RunsError> {
        let not_revivable = |reason: String| RunsError::NotRevivable { id: id.to_owned(), reason };
        let info = self.describe(id).await?;
        let end = End::of(&self.client, &info).await.map_err(|status| of_status(id, status))?;
        let Some(end) = end else {
            return Err(not_revivable("it has not ended".into()));
        };
        let text = end.text(&info);
        let failure = end
            .failure
            .filter(|failure| end.status == RunStatus::Failed && failure.needs_decisions());
        let Some(failure) = failure else {
            return Err(not_revivable(text));
        };
        let signals = failure.signals;
        let Some(pending) = failure.pending else {
            let text = "its state was too long for the server, and is not kept: set \
                        `TemporalOptions::payload_store`";
            return Err(not_revivable(text.into()));
        };
        pending.check_whole()?;
        pending.check(&decisions)?;
        let input = RunInput::new(Start::Resume { pending, decisions }).with_signals(signals);
        let execution = info.execution.clone();
        let request = self.request(id, info, &input).await.map_err(RunsError::Engine)?;
        let revived = || not_revivable("it was revived meanwhile".into());
        // The server recognises a repeated request only while the execution that it started is the newest one. A slow
        // payload store may have left time for another revival, so the newest execution is checked again.
        if self.describe(id).await?.execution != execution {
            return Err(revived());
        }
        match self.client.clone().start_workflow_execution(request.into_request()).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::AlreadyExists => Err(revived()),
            Err(status) => Err(RunsError::Engine(status.into())),
        }
    }

    /// Creates the request that starts the run again.
    ///
    /// The request id is derived from the ended execution, so several processes that revive the run send the same
    /// request id. The server then starts only one execution. It recognises a repeated request only as long as the
    /// started execution is the newest one.
    async fn request(
        &self,
        id: &str,
        ended: WorkflowExecutionInfo,
        input: &RunInput,
    ) -> Result<StartWorkflowExecutionRequest, BoxError> {
        let data = SerializationContextData::Workflow(WorkflowSerializationContext::new());
        let converter = self.client.data_converter();
        let payloads = converter.to_payloads(&data, &Json::new(input)?).await?;
        let mut memo = Memo::default();
        for (key, value) in ended.memo.unwrap_or_default().fields {
            let encoded = converter.codec().encode(&data, vec![value]).await?;
            memo.fields.extend(encoded.into_iter().map(|value| (key.clone(), value)));
        }
        let run_id = ended.execution.unwrap_or_default().run_id;
        Ok(StartWorkflowExecutionRequest {
            namespace: self.client.namespace(),
            workflow_id: id.to_owned(),
            workflow_type: Some(WorkflowType { name: TYPE.to_owned() }),
            task_queue: Some(TaskQueue { name: ended.task_queue, ..Default::default() }),
            input: Some(Payloads { payloads }),
            identity: self.client.identity(),
            request_id: format!("neuron-revive-{run_id}"),
            workflow_id_reuse_policy: WorkflowIdReusePolicy::AllowDuplicateFailedOnly.into(),
            workflow_id_conflict_policy: WorkflowIdConflictPolicy::Fail.into(),
            workflow_task_timeout: self.task_timeout.try_into().ok(),
            memo: Some(memo),
            ..Default::default()
        })
    }
}
