//! Settings of deferred tools, and the two tools with which the model finds and calls them.

mod ranking;

use std::collections::HashSet;
use std::sync::Arc;

use neuron_types::{
    CALL_TOOL, SEARCH_TOOLS, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, ToolUseRef, WasmBoxedFuture, is_search_tool,
};
use serde_json::{Value, json};

use crate::builtin::OutputReader;
use crate::text;

/// Default for [`ToolSearch::max_results`].
const MAX_RESULTS: usize = 5;

/// Default for [`ToolSearch::max_names`].
const MAX_NAMES: usize = 20;

/// Maximum number of characters of the query that a result without matches repeats.
const SHOWN_QUERY: usize = 200;

/// Settings of [`ToolRegistry::defer_tools`](crate::ToolRegistry::defer_tools).
///
/// # Ranking
///
/// The search compares the words of the query with the words of the names and descriptions. A word is a sequence of
/// letters and digits. Case does not matter, and `createIssue` has the same words as `create_issue`. Arguments and
/// their descriptions are not searched.
///
/// 1. Tools whose whole name is in the query come first.
/// 2. All other tools are sorted by the sum of points over the different words of the query. A word earns four points
///    if it is a word of the name, and two points if it is a word of the description. If it only starts such a word,
///    or such a word starts it, it earns three points and one point. The shorter of the two words must then have at
///    least three characters. Only the best match of a word counts.
/// 3. The points of a word are multiplied by a weight, so that rare words count more. The weight is 1, plus 1 for each
///    time that the number of matching tools can double within the number of all deferred tools.
/// 4. Tools with the same sum keep their order of registration. Tools without a point are not found.
///
/// Only the first 32 different words of a query are compared.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolSearch;
///
/// let search = ToolSearch::new().visible(["read_file", "write_file"]).max_results(3);
/// ```
#[derive(Debug, Clone)]
#[must_use = "settings have no effect until they are passed to `defer_tools`"]
pub struct ToolSearch {
    visible: HashSet<String>,
    max_results: usize,
    max_names: usize,
    prefers_vendor: bool,
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self {
            // The notice in a stored output names this tool, so the model must not have to search for it.
            visible: HashSet::from([OutputReader::NAME.to_owned()]),
            max_results: MAX_RESULTS,
            max_names: MAX_NAMES,
            prefers_vendor: false,
        }
    }
}

impl ToolSearch {
    /// Creates settings that defer all tools. Only `read_output` stays visible, the
    /// [reader](crate::builtin::OutputSpiller::reader) of stored outputs. The model receives at most 5 definitions and 20
    /// further names from one search.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds names of tools that are in every request. A name may belong to a tool that is registered later.
    pub fn visible<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.visible.extend(names.into_iter().map(Into::into));
        self
    }

    /// Limits the definitions that one search returns. Zero counts as one. Default: 5.
    pub fn max_results(mut self, count: usize) -> Self {
        self.max_results = count.max(1);
        self
    }

    /// Limits the names of further matches that one search returns after the definitions. The model can search for
    /// these names. Default: 20.
    pub fn max_names(mut self, count: usize) -> Self {
        self.max_names = count;
        self
    }

    /// Lets the vendor search the deferred tools, if it has a search of its own. The model then calls a found tool by its
    /// own name. With any other vendor or model, the model searches with [`SEARCH_TOOLS`].
    ///
    /// | provider | search | models |
    /// |---|---|---|
    /// | Anthropic | `tool_search_tool_bm25_20251119` | Claude 4 and later |
    /// | OpenAI with the Responses API | `tool_search` | gpt-5.4 and later except `nano`, up to 128 tools |
    ///
    /// The definition of [`SEARCH_TOOLS`] then contains the definitions of all deferred tools, see
    /// [`RequestRef::deferred_tools`](neuron_types::RequestRef::deferred_tools). The vendor receives them with each request.
    /// With hundreds of tools these are hundreds of kilobytes, which a durable engine may store with each request.
    ///
    /// Anthropic keeps the deferred tools out of the model's context. OpenAI keeps only their schemas out of it. The model
    /// always sees their names and descriptions at the start of the prompt, so a registered or removed tool discards the
    /// prompt cache. Estimates of tokens do not count them.
    ///
    /// The settings for results and names apply only to [`SEARCH_TOOLS`].
    ///
    /// Sources: [Anthropic](https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool),
    /// [OpenAI](https://developers.openai.com/api/docs/guides/tools-tool-search).
    pub fn prefer_vendor(mut self) -> Self {
        self.prefers_vendor = true;
        self
    }

    /// Returns `true` if the vendor searches where it can.
    pub(crate) fn prefers_vendor(&self) -> bool {
        self.prefers_vendor
    }

    /// Returns `true` if a tool with this name is not in the requests.
    pub(crate) fn defers(&self, name: &str) -> bool {
        !is_search_tool(name) && !self.visible.contains(name)
    }

    /// Creates the tool that searches `tools`.
    pub(crate) fn search_tool(&self, tools: Vec<Arc<ToolDefinition>>) -> Arc<dyn ToolDyn> {
        let Self { max_results, max_names, .. } = *self;
        Arc::new(SearchTools { tools, max_results, max_names })
    }
}

/// Creates the tool with which the model calls a tool that it found.
pub(crate) fn call_tool() -> Arc<dyn ToolDyn> {
    Arc::new(CallTool)
}

/// Returns the names of the tools whose definitions are in a result of the search tool.
pub(crate) fn names_in(text: &str) -> impl Iterator<Item = String> {
    // Each definition is one line. A shortened result therefore loses only its last definitions.
    text.lines().filter(|line| line.starts_with('{')).filter_map(|line| {
        let definition: Value = serde_json::from_str(line).ok()?;
        Some(definition.get("name")?.as_str()?.to_owned())
    })
}

/// Returns `true` if a result of the search tool has the definition of a tool.
pub(crate) fn has_definition(text: &str, name: &str) -> bool {
    // Lines without the name are not parsed.
    let quoted = Value::from(name).to_string();
    let lines = text.lines().filter(|line| line.contains(&quoted));
    lines.flat_map(names_in).any(|found| found == name)
}

/// The tool that searches the deferred tools.
struct SearchTools {
    tools: Vec<Arc<ToolDefinition>>,
    max_results: usize,
    max_names: usize,
}

impl SearchTools {
    fn search(&self, query: &str) -> ToolOutput {
        let hits = ranking::rank(query, &self.tools);
        if hits.is_empty() {
            let (query, count) = (text::first(query, SHOWN_QUERY), self.tools.len());
            return ToolOutput::text(format!(
                "none of the {count} tools matches `{query}`; search for other words of a tool's name or description"
            ));
        }
        let (shown, rest) = hits.split_at(hits.len().min(self.max_results));
        let mut lines: Vec<String> = shown.iter().map(|tool| line(tool)).collect();
        let (named, others) = rest.split_at(rest.len().min(self.max_names));
        if !named.is_empty() {
            let names: Vec<&str> = named.iter().map(|tool| &*tool.name).collect();
            let more = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let names = names.join(", ");
            lines.push(format!(
                "also matching: {names}{more}; search for a name to get its definition"
            ));
        }
        ToolOutput::text(lines.join("\n"))
    }
}

/// Returns the definition of a tool as one line of JSON.
fn line(tool: &ToolDefinition) -> String {
    let ToolDefinition { name, description, .. } = tool;
    json!({ "name": name, "description": description, "input_schema": tool.plain_schema() })
        .to_string()
}

impl ToolDyn for SearchTools {
    fn name(&self) -> &str {
        SEARCH_TOOLS
    }

    fn definition(&self) -> ToolDefinition {
        // The text must not depend on the registered tools, because the definition is at the start of each request.
        let description = "Searches the tools that are not listed here, by words of their names and descriptions. Each \
             line of the result is the definition of a tool as JSON. After the result, call such a tool with \
             `call_tool`.";
        definition(
            SEARCH_TOOLS,
            description,
            json!({
                "query": {
                    "type": "string",
                    "description": "Words of names and descriptions, or whole names of tools",
                },
            }),
        )
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { Ok(self.search(query_of(&input)?)) })
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        query_of(input).map(drop)
    }
}

/// Returns the query in the arguments of the search tool.
fn query_of(input: &Value) -> Result<&str, ToolError> {
    let text = "`search_tools` needs the string `query`";
    let query = input.get("query").and_then(Value::as_str);
    query.ok_or_else(|| ToolError::InvalidInput(text.into()))
}

/// The tool in whose arguments the model names another tool. An agent runs the named tool in its place, so this tool
/// receives only incomplete calls, calls that name this tool, and calls outside of an agent.
struct CallTool;

impl ToolDyn for CallTool {
    fn name(&self) -> &str {
        CALL_TOOL
    }

    fn definition(&self) -> ToolDefinition {
        definition(
            CALL_TOOL,
            "Calls a tool whose definition `search_tools` returned.",
            json!({
                "name": { "type": "string", "description": "The name of the tool" },
                "arguments": {
                    "type": "object",
                    "description": "The arguments of the tool, by its `input_schema`",
                },
            }),
        )
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.check_input(&input).map(|()| ToolOutput::default()) })
    }

    // The effect of a call is that of the named tool.
    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        let call = ToolUseRef { id: "", name: CALL_TOOL, input };
        let text = match call.target() == call {
            true => {
                "`call_tool` needs the string `name`, which names another tool, and the object `arguments`, which has \
                 the arguments of that tool"
            }
            false => {
                "`call_tool` does not run a tool by itself. An agent runs the tool that `name` names, which must be \
                 another tool than `call_tool`. Other callers run `ToolUseRef::target` of the call"
            }
        };
        Err(ToolError::InvalidInput(text.into()))
    }
}

/// Creates a definition whose arguments are all required.
fn definition(name: &str, description: &str, properties: Value) -> ToolDefinition {
    let required: Vec<&String> =
        properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
    let input_schema = json!({ "type": "object", "properties": properties, "required": required });
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}
