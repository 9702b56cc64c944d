//! Recording a value from outside of the run as a step.

use neuron_durable::StepRecord;
use neuron_types::{DurableError, Provider};
use serde_json::Value;

use crate::SqliteDurableContext;
use crate::journal::{Kind, differs, other};
use crate::model_step::read;
use crate::step_row::StepRow;
use crate::waits::received;

impl<P: Provider> SqliteDurableContext<P> {
    /// Stores a value as a step and returns it. On replay, returns the recorded value and ignores `value`.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if the recorded step has another key or name. Also returns an error if the
    /// value is longer than the record limit.
    pub(crate) async fn record_as_step(
        &self,
        name: &str,
        value: Value,
    ) -> Result<Value, DurableError> {
        let journal = self.journal();
        let turn = journal.turn().await?;
        let key = turn.key(Kind::Value);
        let step = match turn.recorded(&key)? {
            Some(step) if step.name.as_deref() == Some(name) => step,
            Some(step) => {
                let named = |name: &str| format!("{key} of `{name}`");
                return Err(differs(
                    &named(step.name.as_deref().unwrap_or_default()),
                    &named(name),
                ));
            }
            None => {
                let at = journal.stamp();
                let mut step = StepRow::new(turn.position(), key, at);
                step.name = Some(name.to_owned());
                let record = received(Some(value), at)?;
                let (length, limit) = (record.len(), self.record_limit());
                if length > limit {
                    return Err(other(format!(
                        "the value `{name}` takes {length} bytes, where a record of the journal may have {limit}: \
                         record less, or open the run with a greater `record_limit`"
                    )));
                }
                let step = step.ended(record, at);
                let stored = step.clone();
                let write = journal
                    .write_step(move |transaction, place| stored.insert(transaction, place.run));
                write.await?;
                step
            }
        };
        let recorded: StepRecord<Vec<Value>> = read(&step)?;
        let value = recorded.into_value()?.pop().unwrap_or_default();
        turn.done(Kind::Value, 1, step.ended_at.unwrap_or_default());
        Ok(value)
    }
}
