//! Implements a small durable engine with a journal in memory, and continues a run after a crash.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::runtime::{LocalDurableContext, RequestLog, StepRecord, outcome_unknown};
use neuron::types::{ActivityOptions, DurableContext, DurableError, ToolEffect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

// ANCHOR: context
/// The steps of a run, each with its name and its record as JSON. Your engine stores them in a database.
type Journal = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A durable context with a journal. `work` makes the calls that the journal does not contain.
struct JournaledContext<P> {
    work: LocalDurableContext<P>,
    tools: Arc<ToolRegistry>,
    requests: RequestLog,
    journal: Journal,
    /// Number of steps of this execution so far, and the time at which the last step ended.
    progress: Mutex<(usize, DateTime<Utc>)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Provider> JournaledContext<P> {
    fn new(journal: Journal, provider: Arc<P>, tools: Arc<ToolRegistry>) -> Self {
        let work = LocalDurableContext::new(provider, tools.clone());
        let progress = Mutex::new((0, DateTime::UNIX_EPOCH));
        Self { work, tools, requests: RequestLog::default(), journal, progress }
    }

    /// Returns the record of a step from the journal. Otherwise makes the step and stores its record.
    async fn step<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        work: impl Future<Output = Result<StepRecord<T>, DurableError>>,
    ) -> Result<StepRecord<T>, DurableError> {
        let (position, _) = *locked(&self.progress);
        let recorded = locked(&self.journal).get(position).cloned();
        let json = match recorded {
            Some((recorded, json)) if recorded == name => json,
            Some((expected, _)) => {
                return Err(DurableError::NonDeterminism { expected, got: name.to_owned() });
            }
            None => {
                let json = work.await?.to_json()?;
                // Your engine waits here until the record is on a disk.
                locked(&self.journal).push((name.to_owned(), json.clone()));
                json
            }
        };
        // The first execution and each replay see the same record.
        let record = StepRecord::<T>::from_json(&json)?;
        *locked(&self.progress) = (position + 1, record.ended_at());
        Ok(record)
    }
}

impl<P: Provider> DurableContext for JournaledContext<P> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let asked = self.requests.ask(request.view())?;
        let work = async {
            let result = match self.work.execute_llm_call(request, options).await {
                Ok(response) => Ok(response),
                Err(DurableError::Provider(error)) => Err(error), // Stored, and returned on each replay.
                Err(error) => return Err(error),
            };
            Ok(StepRecord::of_llm(result, Utc::now()).with_asked(asked.clone()))
        };
        let record = self.step("model", work).await?;
        if let Some(recorded) = &record.asked {
            // An error if the prompt, the tools or the conversation changed since the call.
            self.requests.replay("model", &asked, recorded)?;
        }
        record.into_llm()
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        // The start is stored before the tool runs. A start without a result is a call that a crash interrupted.
        let was_started = self.is_replaying();
        let start = async { Ok(StepRecord::of_value(true, Utc::now())) };
        self.step(&format!("start {tool_name} {input}"), start).await?;
        let was_finished = self.is_replaying();
        let effect = self.tools.get(tool_name).map(|tool| tool.effect());
        let must_not_repeat = was_started && matches!(effect, None | Some(ToolEffect::AtMostOnce));

        let work = async {
            let result = match must_not_repeat {
                true => Ok(outcome_unknown(tool_name)),
                false => match self.work.execute_tool(tool_name, input, ctx, options).await {
                    Ok(output) => Ok(output),
                    Err(DurableError::Tool(error)) => Err(error),
                    Err(error) => return Err(error),
                },
            };
            Ok(StepRecord::of_tool(result, ctx.usage.total(), Utc::now()))
        };
        let record = self.step("result", work).await?;
        match was_finished {
            true => record.into_tool(&ctx.usage), // Adds the recorded tokens to the run's usage.
            false => record.into_tool_uncounted(), // The call has counted its tokens itself.
        }
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        let value = vec![value]; // A record may not be `null`.
        let work = async { Ok(StepRecord::of_value(value, Utc::now())) };
        let mut values = self.step(&format!("record {name}"), work).await?.into_value()?;
        Ok(values.pop().unwrap_or_default())
    }

    async fn sleep(&self, duration: Duration) {
        let work = async {
            self.work.sleep(duration).await;
            Ok(StepRecord::of_value(true, Utc::now()))
        };
        // This method cannot return an error. If your journal cannot be written, the next step returns the error.
        let _ = self.step("sleep", work).await;
    }

    fn now(&self) -> DateTime<Utc> {
        locked(&self.progress).1
    }

    fn is_replaying(&self) -> bool {
        locked(&self.progress).0 < locked(&self.journal).len()
    }

    async fn wait_for_signal<T: DeserializeOwned + Send>(
        &self,
        _signal_name: &str,
        _timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        Err(DurableError::Other("this engine has no signals".into()))
    }

    fn should_continue_as_new(&self) -> bool {
        false
    }

    async fn continue_as_new(&self, _state: Value) -> Result<(), DurableError> {
        Err(DurableError::Other("this engine does not shorten its journal".into()))
    }
}
// ANCHOR_END: context

// ANCHOR: main
/// Charges a card. Must not run twice, so it has the default effect `AtMostOnce`.
#[neuron_tool]
async fn charge_card(cents: u64) -> Result<String, ToolError> {
    println!("  the card is charged with {cents} cents");
    Ok("charged".into())
}

/// Starts the run, or continues it from its journal.
async fn run(journal: &Journal) -> Result<String, MainError> {
    let provider = Arc::new(Anthropic::from_env()?);
    let mut tools = ToolRegistry::new();
    tools.register(ChargeCardTool);
    let agent = Agent::builder(provider.clone()).tools(tools.clone()).build();
    let durable = JournaledContext::new(journal.clone(), provider, Arc::new(tools));
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Charge 42 euros").durable(durable).await?;
    Ok(result.response)
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let journal = Journal::default();
    println!("first execution: {}", run(&journal).await?);
    println!("replay: {}", run(&journal).await?);

    // A crash while the tool runs leaves the steps up to the start of the tool.
    locked(&journal).truncate(2);
    println!("steps before the crash: {}", locked(&journal).len());
    println!("after the crash: {}", run(&journal).await?);
    Ok(())
}
// ANCHOR_END: main
