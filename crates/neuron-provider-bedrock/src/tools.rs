//! The tools of a request and the choice between them.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolConfiguration.html>

use std::borrow::Cow;
use std::ops::Not;

use neuron_http::{VendorFields, tool_schema};
use neuron_model::{ProviderError, RequestRef, ToolChoice, ToolDefinition};
use serde::Serialize;
use serde_json::{Value, json};

use crate::PROVIDER;
use crate::allowed;
use crate::cache::{CachePoint, CachePoints};
use crate::messages::Conversation;
use crate::model::{Family, Model};

/// The field `toolConfig`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolConfig<'a> {
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    /// Set if the request must forbid calls, and the model has a setting for this.
    ///
    /// No other model than Claude has such a setting. A request to another model contains no tools, unless the
    /// conversation has calls. Then the model may still call a tool.
    #[serde(skip)]
    pub(crate) forbids_calls: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Tool<'a> {
    ToolSpec(ToolSpec<'a>),
    CachePoint(CachePoint),
    /// A tool of `extra`.
    #[serde(untagged)]
    Own(&'a Value),
    /// The tool of an earlier call, which the request no longer has.
    #[serde(untagged)]
    Called(Value),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: InputSchema<'a>,
    #[serde(skip_serializing_if = "Not::not")]
    strict: bool,
    #[serde(flatten)]
    vendor: VendorFields<'a>,
}

#[derive(Debug, Serialize)]
struct InputSchema<'a> {
    json: Cow<'a, Value>,
}

impl<'a> ToolConfig<'a> {
    /// Returns the tools of a request and the choice between them. `more` has the tools of `extra`. Returns `None` if
    /// the request needs no tools.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the request forces a call, and the model does not support this or the
    /// request has no tools.
    pub(crate) fn new(
        request: RequestRef<'a>,
        more: &'a [Value],
        model: Model<'_>,
        conversation: &Conversation<'a>,
        points: &mut CachePoints,
    ) -> Result<Option<Self>, ProviderError> {
        let has_tools = !request.tools.is_empty() || !more.is_empty() || has_own_tools(request);
        let tool_choice = choice(request.tool_choice, model, has_tools)?;
        // A prompt has its own tools.
        let is_needed = conversation.has_tool_blocks() && !model.is_prompt();
        // A model without tools calls none.
        let may_call = has_tools && request.tool_choice != Some(&ToolChoice::None);
        if !may_call && !is_needed {
            return Ok(None);
        }
        let mut tools = Vec::new();
        for tool in request.tools {
            tools.push(Tool::ToolSpec(ToolSpec::new(tool)?));
            tools.extend(points.after_tool(tool.cache_control).map(Tool::CachePoint));
        }
        tools.extend(more.iter().map(Tool::Own));
        if !has_tools {
            // The API rejects calls and results in a conversation without tools.
            tools.extend(conversation.called.iter().map(|name| Tool::called(name)));
            if tools.is_empty() {
                tools.push(Tool::called("unnamed"));
            }
        }
        let forbids_calls = model.family == Family::Claude && !may_call;
        Ok(Some(Self { tools, tool_choice, forbids_calls }))
    }
}

/// Returns `true` if `toolConfig` in `extra` has tools. They replace the tools of the request.
fn has_own_tools(request: RequestRef<'_>) -> bool {
    request.extra.and_then(|extra| extra.get("toolConfig")?.get("tools")).is_some()
}

/// Returns the field `toolChoice`.
fn choice(
    choice: Option<&ToolChoice>,
    model: Model<'_>,
    has_tools: bool,
) -> Result<Option<Value>, ProviderError> {
    let forced = match choice {
        // Calls are forbidden without this field.
        None | Some(ToolChoice::None) => return Ok(None),
        Some(ToolChoice::Auto) => {
            // The choice is the default, and few families have the field.
            let is_sent = has_tools && model.can_force_calls();
            return Ok(is_sent.then(|| json!({"auto": {}})));
        }
        Some(ToolChoice::Required) => None,
        Some(ToolChoice::Specific { name }) => Some(name),
    };
    let is_supported = match model.family {
        Family::Mistral => forced.is_none(),
        // The server decides, because the id does not tell the family.
        Family::Unknown => true,
        _ => model.can_force_calls(),
    };
    match forced {
        Some(name) if is_supported => Ok(Some(json!({"tool": {"name": name}}))),
        None if is_supported => Ok(Some(json!({"any": {}}))),
        Some(_) => Err(ProviderError::InvalidRequest(format!(
            "`{}` cannot be forced to call one of its tools: use ToolChoice::Auto and give it no other tool",
            model.id
        ))),
        None => Err(ProviderError::InvalidRequest(format!(
            "`{}` cannot be forced to call a tool: use ToolChoice::Auto and ask for it in the prompt",
            model.id
        ))),
    }
}

impl<'a> ToolSpec<'a> {
    fn new(tool: &'a ToolDefinition) -> Result<Self, ProviderError> {
        const WRITTEN: [&str; 4] = ["name", "description", "inputSchema", "strict"];
        // The API rejects an empty description.
        let description = match tool.description.trim() {
            "" => tool.title.as_deref().filter(|title| !title.trim().is_empty()),
            _ => Some(tool.description.as_str()),
        };
        let schema: serde_json::Result<_> = tool_schema(tool, true);
        let json = schema.map_err(|error| ProviderError::InvalidRequest(error.to_string()))?;
        Ok(Self {
            description: description.unwrap_or(if tool.name.is_empty() { "-" } else { &tool.name }),
            name: &tool.name,
            input_schema: InputSchema { json },
            strict: tool.is_strict(),
            vendor: VendorFields { tool, provider: PROVIDER, written: &WRITTEN },
        })
    }
}

impl Tool<'_> {
    /// Creates a definition for the tool of an earlier call, whose schema is not known.
    fn called(name: &str) -> Self {
        Self::Called(json!({"toolSpec": {
            "name": allowed::name(name),
            "description": "A tool of an earlier turn, which is no longer available.",
            "inputSchema": {"json": {"type": "object"}},
        }}))
    }
}
