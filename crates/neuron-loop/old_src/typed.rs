//! Runs that end with a value of a type.

use std::future::Future;

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, ContextStrategy, DurableContext, JsonMismatch, LoopError,
    Message, Provider, ResponseFormat, RunStart, SystemPrompt, ToolChoice, ToolContext,
    ToolDefinition, WasmCompatSend, read_json,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::builder::joined;
use crate::output::Output;
use crate::output_schema as schema;
use crate::sink::Quiet;
use crate::{AgentLoop, RequestSettings};

/// How a typed run asks for its output. Set by [`LoopConfig::output_mode`](crate::LoopConfig).
///
/// In every mode the value is checked by reading it as the type; one that does not fit goes back to
/// the model with the place and the reason, as often as
/// [`LoopConfig::output_retries`](crate::LoopConfig) says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// By a tool, `final_output`, whose arguments are the output. The default: it works with every
    /// provider that has tools, beside other tools and with all types.
    ///
    /// No provider is told to force the call, because some cannot, and others do not while the model
    /// thinks: an answer without it is sent back with the request to call it. To force it, set the
    /// request's tool choice.
    #[default]
    Tool,
    /// By the provider's own format for structured answers,
    /// [`ResponseFormat::JsonSchema`](neuron_types::ResponseFormat). It is asked to enforce the
    /// schema if that can be: all objects are closed then, and all fields required, so that an
    /// `Option` is `null` where it has no value. Types with maps, tuples, flattened enums or values of
    /// any kind have no such schema; some providers refuse them.
    Native,
    /// By instructions: the schema follows the system prompt. For models without tools; the answer
    /// may stand in one fenced block.
    Prompt,
}

/// What happens to other tool calls in the answer that gives a valid output by
/// [`OutputMode::Tool`]. Set by [`LoopConfig::end_strategy`](crate::LoopConfig).
///
/// Every call has a result in any case. Of several outputs the first that fits counts; one that does
/// not fit, in an answer without one that does, leaves the other calls to run as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndStrategy {
    /// They do not run.
    Early,
    /// They run, and the run ends after them. If one ends with an error that the model sees (a
    /// [`ModelRetry`](neuron_types::ToolError::ModelRetry), say), the output is not used and the
    /// model goes on: what it said may rest on that call. The default.
    #[default]
    Graceful,
    /// They run, and the run ends after them, whatever they gave. Further outputs are checked, and
    /// the model's history says what is wrong with them.
    Exhaustive,
}

/// The outcome of a typed run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TypedResult<T> {
    /// The output.
    pub value: T,
    /// The run's outcome. Its [`response`](AgentResult::response) is the text of the answer that gave
    /// the output: the JSON, or what stood beside the call of the output tool.
    pub result: AgentResult,
}

/// The name of the output tool, unless a registered tool has it.
const TOOL_NAME: &str = "final_output";

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Adds a message to the conversation and runs until the model gives a value of type `T`.
    ///
    /// [`LoopConfig::output_mode`](crate::LoopConfig) says how it is asked for. Everything else is as
    /// in [`run`](Self::run): tools, hooks, limits, compaction. What the value needs is in the
    /// agent's requests for this run only. The output is no tool call for hooks, limits and a durable
    /// context: it is checked here, and nothing happens before it fits.
    ///
    /// For a run that streams, ask for the form by the request's
    /// [`ResponseFormat`](neuron_types::ResponseFormat), and read [`AgentResult::response`] once
    /// [`StreamEvent::RunComplete`](neuron_types::StreamEvent) is there: before, there is no value.
    ///
    /// # Errors
    ///
    /// [`LoopError::InvalidOutput`] when the model gave no output that fits, refused or was cut off;
    /// else as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_loop::AgentLoop;
    /// use neuron_types::{Message, ToolContext};
    /// # use neuron_context::SlidingWindowStrategy;
    /// # use neuron_testing::{Reply, ScriptedProvider};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct City {
    ///     name: String,
    ///     /// How many people live there
    ///     inhabitants: u64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), neuron_types::LoopError> {
    /// # let output = serde_json::json!({"name": "Tokyo", "inhabitants": 14_000_000});
    /// # let provider = ScriptedProvider::new([Reply::tool_call("1", "final_output", output)]);
    /// # let context = SlidingWindowStrategy::new(20, 100_000);
    /// let mut agent = AgentLoop::builder(provider, context).build();
    /// let question = Message::user("What is the largest city of Japan?");
    /// let city = agent.run_typed::<City>(question, &ToolContext::default()).await?.value;
    /// assert_eq!(city.name, "Tokyo");
    /// # assert_eq!(city.inhabitants, 14_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_typed<T: DeserializeOwned + JsonSchema>(
        &mut self,
        message: Message,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + WasmCompatSend {
        self.begin(message, ctx);
        TypedRun::new(self).drive(ctx)
    }

    /// [`run_from`](Self::run_from) until the model gives a value of type `T`. The retries that an
    /// earlier execution left go on counting.
    ///
    /// # Errors
    ///
    /// As [`run_from`](Self::run_from) and [`run_typed`](Self::run_typed).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub fn run_typed_from<T: DeserializeOwned + JsonSchema>(
        &mut self,
        start: impl Into<RunStart>,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + WasmCompatSend {
        let begun = self.begin_from(start.into(), ctx);
        let run = TypedRun::new(self);
        async move {
            begun?;
            run.drive(ctx).await
        }
    }

    /// [`resume`](Self::resume) until the model gives a value of type `T`: goes on with a
    /// [`run_typed`](Self::run_typed) that waits for an approval. An output that stood beside the
    /// calls that wait was not used; the model gives it again.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume) and [`run_typed`](Self::run_typed).
    ///
    /// # Cancel safety
    ///
    /// As [`resume`](Self::resume).
    pub fn resume_typed<T: DeserializeOwned + JsonSchema>(
        &mut self,
        decisions: ApprovalDecisions,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + WasmCompatSend {
        let begun = self.begin_again(decisions, ctx);
        let run = TypedRun::new(self);
        async move {
            begun?;
            run.drive(ctx).await
        }
    }
}

/// A typed run. When it ends, or is dropped, the agent's settings are as before.
struct TypedRun<'a, P, C, D, T> {
    agent: &'a mut AgentLoop<P, C, D>,
    system_prompt: SystemPrompt,
    settings: RequestSettings,
    read: Read<T>,
}

type Read<T> = fn(Value) -> Result<T, JsonMismatch>;

impl<'a, P, C, D, T: DeserializeOwned + JsonSchema> TypedRun<'a, P, C, D, T> {
    fn new(agent: &'a mut AgentLoop<P, C, D>) -> Self {
        let (system_prompt, settings) =
            (agent.config.system_prompt.clone(), agent.config.request.clone());
        let request = &mut agent.config.request;
        let (mut tool, mut is_wrapped) = (None, false);
        match agent.config.output_mode {
            OutputMode::Tool => {
                let definition = output_tool::<T>(&agent.tools, &mut is_wrapped);
                if request.tool_choice == Some(ToolChoice::None) {
                    // No other tool may be called.
                    let name = definition.name.clone();
                    request.tool_choice = Some(ToolChoice::Specific { name });
                }
                tool = Some(definition);
            }
            OutputMode::Native => {
                request.response_format = Some(response_format_for::<T>(&mut is_wrapped));
            }
            OutputMode::Prompt => {
                let prompt = std::mem::take(&mut agent.config.system_prompt);
                agent.config.system_prompt = joined(prompt, instructions::<T>().into());
            }
        }
        let (check, read): (fn(Value) -> _, Read<T>) = match is_wrapped {
            true => (|value| read_wrapped::<T>(value).map(drop), read_wrapped),
            false => (|value| read_json::<T>(value).map(drop), read_json),
        };
        let (end, retries) = (agent.config.end_strategy, agent.config.output_retries);
        let attempts = agent.run.output_attempts;
        agent.run.output = Some(Output::new(tool, end, check, retries, attempts));
        agent.request_changed();
        Self { agent, system_prompt, settings, read }
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext, T> TypedRun<'_, P, C, D, T> {
    async fn drive(self, ctx: &ToolContext) -> Result<TypedResult<T>, LoopError> {
        let result = self.agent.drive(ctx, &Quiet).await?;
        let output = self.agent.run.output.as_ref();
        let Some(value) = output.and_then(|output| output.accepted.clone()) else {
            let raw = result.response.clone();
            return Err(self.failure(
                raw,
                "the run ended before the model gave its output",
                &result,
            ));
        };
        match (self.read)(value.clone()) {
            Ok(value) => Ok(TypedResult { value, result }),
            Err(mismatch) => Err(self.failure(value.to_string(), &mismatch.to_string(), &result)),
        }
    }
}

impl<P, C, D, T> TypedRun<'_, P, C, D, T> {
    fn failure(&self, raw: String, reason: &str, result: &AgentResult) -> LoopError {
        let attempts = self.agent.run.output.as_ref().map_or(0, |output| output.attempts);
        let stop_reason = result.stop_reason.clone();
        LoopError::InvalidOutput { raw, reason: reason.to_owned(), attempts, stop_reason }
    }
}

impl<P, C, D, T> Drop for TypedRun<'_, P, C, D, T> {
    fn drop(&mut self) {
        self.agent.run.output = None;
        self.agent.config.system_prompt = std::mem::take(&mut self.system_prompt);
        self.agent.config.request = std::mem::take(&mut self.settings);
        self.agent.request_changed();
    }
}

fn output_tool<T: JsonSchema>(tools: &ToolRegistry, is_wrapped: &mut bool) -> ToolDefinition {
    let (input_schema, wrapped) = schema::object_schema::<T>();
    *is_wrapped = wrapped;
    let mut name = TOOL_NAME.to_owned();
    for number in 2.. {
        if tools.definition(&name).is_none() {
            break;
        }
        name = format!("{TOOL_NAME}_{number}");
    }
    let about = input_schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let rule = "Gives the final output. Call it once, when everything else is done: it ends the task. \
                An answer as text does not count.";
    ToolDefinition {
        name,
        title: None,
        description: [about, rule].join("\n\n").trim_start().to_owned(),
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

fn response_format_for<T: JsonSchema>(is_wrapped: &mut bool) -> ResponseFormat {
    let (plain, wrapped) = schema::object_schema::<T>();
    *is_wrapped = wrapped;
    let form = schema::enforceable(&plain);
    let strict = form.is_some();
    ResponseFormat::JsonSchema { name: schema::name::<T>(), schema: form.unwrap_or(plain), strict }
}

fn instructions<T: JsonSchema>() -> String {
    let schema = schema::plain_schema::<T>();
    format!(
        "Give your final answer as one JSON value that fits the following JSON Schema, and write \
         nothing else in it:\n{schema}"
    )
}

/// What is no object, in the object around it.
#[derive(Deserialize)]
struct Wrapped<T> {
    value: T,
}

fn read_wrapped<T: DeserializeOwned>(value: Value) -> Result<T, JsonMismatch> {
    read_json::<Wrapped<T>>(value).map(|wrapped| wrapped.value)
}

#[cfg(test)]
mod tests {
    use neuron_context::SlidingWindowStrategy;
    use neuron_testing::{Reply, ScriptedProvider};
    use serde_json::json;

    use super::*;

    /// No tool may be called, so the output could not be given.
    #[tokio::test]
    async fn where_no_tool_may_be_called_the_output_tool_must_be() {
        for (choice, sent) in [
            (ToolChoice::None, ToolChoice::Specific { name: "final_output".into() }),
            (ToolChoice::Required, ToolChoice::Required),
        ] {
            let output = json!({ "value": 7 });
            let provider = ScriptedProvider::new([Reply::tool_call("1", "final_output", output)]);
            let context = SlidingWindowStrategy::new(20, 100_000);
            let mut agent = AgentLoop::builder(provider.clone(), context).build();
            agent.config_mut().request.tool_choice = Some(choice.clone());
            let ctx = ToolContext::default();
            let typed = agent.run_typed::<u8>(Message::user("go"), &ctx).await.unwrap();
            assert_eq!(typed.value, 7);
            assert_eq!(provider.requests()[0].tool_choice, Some(sent));
            assert_eq!(agent.config().request.tool_choice, Some(choice));
        }
    }
}
