//! A model call as a step of the journal.

use neuron_durable::StepRecord;
use neuron_types::{
    ActivityOptions, CompletionResponse, DeltaSink, DurableContext, DurableError, Provider,
    RequestRef,
};

use crate::SqliteDurableContext;
use crate::journal::Kind;
use crate::step_row::{StepRow, time};
use crate::texts::text;

impl<P: Provider> SqliteDurableContext<P> {
    /// Calls the model, or returns the recorded response without a call. Deltas are sent to `sink`, if there is one.
    pub(crate) async fn call_model(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: Option<&dyn DeltaSink>,
    ) -> Result<CompletionResponse, DurableError> {
        let journal = self.journal();
        let turn = journal.turn().await?;
        let (key, asked) = (turn.key(Kind::Model), self.requests().ask(request)?);
        if let Some(step) = turn.recorded(&key)? {
            let record = read::<CompletionResponse>(&step)?;
            let Some(recorded) = &record.asked else {
                return Err(DurableError::Other(
                    format!("the record of {key} has no request").into(),
                ));
            };
            self.requests().replay(&key, &asked, recorded)?;
            let answer = record.into_llm();
            // If the record cannot be converted to a response, the step stays the current step, so a retry reads it
            // again.
            if !matches!(answer, Err(DurableError::Other(_))) {
                turn.done(Kind::Model, 1, step.ended_at.unwrap_or_default());
            }
            return answer;
        }
        let mut step = StepRow::new(turn.position(), key, journal.stamp());
        step.name = Some(request.model.to_owned()).filter(|model| !model.is_empty());
        let call = async {
            match sink {
                Some(sink) => self.work().execute_llm_stream(request, options, sink).await,
                None => self.work().execute_llm_call_ref(request, options).await,
            }
        };
        let result = match journal.while_held(call).await {
            Ok(response) => Ok(response),
            Err(DurableError::Provider(error)) => Err(error),
            Err(error) => return Err(error),
        };
        let at = journal.stamp();
        let record = StepRecord::of_llm(result, time(at)).with_asked(asked.clone());
        let record = record.to_json_within(self.record_limit())?;
        // The first run returns the same response as a replay.
        let answer = StepRecord::<CompletionResponse>::from_json(&record)?;
        let step = step.ended(text(record)?, at);
        journal.write_step(move |transaction, place| step.insert(transaction, place.run)).await?;
        self.requests().keep(&asked);
        turn.done(Kind::Model, 1, at);
        answer.into_llm()
    }
}

/// Parses the record of a step that has ended.
pub(crate) fn read<T: serde::Serialize + serde::de::DeserializeOwned>(
    step: &StepRow,
) -> Result<StepRecord<T>, DurableError> {
    StepRecord::from_json(step.record.as_deref().unwrap_or_default().as_bytes())
}

#[cfg(test)]
mod tests;
