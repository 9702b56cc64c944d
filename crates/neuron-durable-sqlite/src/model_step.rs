//! A call of the model as a step.

use neuron_runtime::{StepRecord, llm_digest};
use neuron_types::{
    ActivityOptions, CompletionResponse, DeltaSink, DurableContext, DurableError, Provider,
    RequestRef,
};

use crate::SqliteDurableContext;
use crate::journal::{Kind, differs};
use crate::step_row::{StepRow, time};
use crate::texts::text;

impl<P: Provider> SqliteDurableContext<P> {
    /// Calls the model, unless the journal has its answer. Deltas go to the sink, if there is one.
    pub(crate) async fn call_model(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: Option<&dyn DeltaSink>,
    ) -> Result<CompletionResponse, DurableError> {
        let journal = self.journal();
        let turn = journal.turn().await?;
        let (key, digest) = (turn.key(Kind::Model), llm_digest(request)?);
        if let Some(step) = turn.recorded(&key)? {
            check_digest(&step, &digest)?;
            let answer = read::<CompletionResponse>(&step)?.into_llm();
            // An answer that cannot be used is none.
            if !matches!(answer, Err(DurableError::Other(_))) {
                turn.done(Kind::Model, 1, step.ended_at.unwrap_or_default());
            }
            return answer;
        }
        let mut step = StepRow::new(turn.position(), key, journal.stamp());
        step.name = Some(request.model.to_owned()).filter(|model| !model.is_empty());
        step.digest = Some(digest);
        let called = match sink {
            Some(sink) => self.work().execute_llm_stream(request, options, sink).await,
            None => self.work().execute_llm_call_ref(request, options).await,
        };
        let result = match called {
            Ok(response) => Ok(response),
            Err(DurableError::Provider(error)) => Err(error),
            Err(error) => return Err(error),
        };
        let at = journal.stamp();
        let record = StepRecord::of_llm(result, time(at)).to_json_within(self.record_limit())?;
        // What the loop sees is what it would see on replay.
        let answer = StepRecord::<CompletionResponse>::from_json(&record)?;
        let step = step.ended(text(record)?, at);
        journal.write_step(move |transaction, place| step.insert(transaction, place.run)).await?;
        turn.done(Kind::Model, 1, at);
        answer.into_llm()
    }
}

/// Compares what a step was given with what it would be given now.
pub(crate) fn check_digest(step: &StepRow, digest: &str) -> Result<(), DurableError> {
    match step.digest.as_deref() {
        Some(recorded) if recorded == digest => Ok(()),
        recorded => {
            let expected = format!("{} with the input {}", step.key, recorded.unwrap_or("none"));
            Err(differs(&expected, &format!("{} with the input {digest}", step.key)))
        }
    }
}

/// Reads the record of a step that has ended.
pub(crate) fn read<T: serde::Serialize + serde::de::DeserializeOwned>(
    step: &StepRow,
) -> Result<StepRecord<T>, DurableError> {
    StepRecord::from_json(step.record.as_deref().unwrap_or_default().as_bytes())
}

#[cfg(test)]
mod tests;
