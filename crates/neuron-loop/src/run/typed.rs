//! The output tool, the schema and the request changes of typed runs.

use neuron_types::{OutputMode, OutputSchema, ToolChoice};

use crate::ledger::OutputRules;
use crate::parts::{FrameChanges, Parts};

/// Default name of the output tool.
const TOOL_NAME: &str = "final_output";

/// Description of the output tool for the model.
const TOOL_RULE: &str = "Gives the final output. Call it once, when everything else is done: it ends the task. An answer as text does not \
                         count.";

/// The functions that create the schemas of an output type. `object` wraps a type that is not an object, because tools
/// and response formats require an object.
#[derive(Clone, Copy)]
pub(crate) struct OutputType {
    pub(crate) object: fn() -> OutputSchema,
    pub(crate) plain: fn() -> OutputSchema,
}

/// Returns the rules for the output of a typed run, and the changes that each of its requests needs.
pub(crate) fn typed_output(output: OutputType, parts: Parts<'_>) -> (OutputRules, FrameChanges) {
    let config = parts.config();
    let mut changes = FrameChanges::default();
    let mut tool = None;
    let schema = match config.output_mode {
        OutputMode::Tool => {
            let schema = (output.object)();
            let definition = schema.tool(tool_name(parts), TOOL_RULE);
            if config.request.tool_choice == Some(ToolChoice::None) {
                // The agent forbids tool calls, so only the output tool may be called.
                let name = definition.name.clone();
                let settings = changes.settings.insert(config.request.clone());
                // FAULT an agent that may call no tool gives no output: without the line
                //     (typed::output_tool_may_be_called_although_the_agent_forbids_tools)
                settings.tool_choice = Some(ToolChoice::Specific { name });
            }
            let mut tools = parts.definition.derived().tools.clone();
            tools.push(definition.clone());
            changes.tools = Some(tools);
            tool = Some(definition);
            schema
        }
        OutputMode::Native => {
            let schema = (output.object)();
            let settings = changes.settings.insert(config.request.clone());
            settings.response_format = Some(schema.response_format());
            schema
        }
        // `OutputMode::Prompt`, which works with each model.
        _ => {
            let schema = (output.plain)();
            changes.system = Some(config.system_prompt.clone().and(schema.instructions()));
            schema
        }
    };
    let (end, retries) = (config.end_strategy, config.output_retries);
    (OutputRules { tool, end, schema, retries }, changes)
}

/// Returns a name for the output tool that no registered tool has. Tries `final_output`, `final_output_2` and so on.
fn tool_name(parts: Parts<'_>) -> String {
    let numbered = (2..).map(|number| format!("{TOOL_NAME}_{number}"));
    let mut names = std::iter::once(TOOL_NAME.to_owned()).chain(numbered);
    // FAULT the output tool takes the name of another tool: `.is_none()` -> `.is_none() || true`
    //     (typed::output_tool_has_a_unique_name)
    let is_free = |name: &String| parts.definition.tools.definition(name).is_none();
    names.find(is_free).unwrap_or_default()
}
