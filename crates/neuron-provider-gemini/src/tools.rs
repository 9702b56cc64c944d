//! The tools of a request and the choice between them.
//!
//! <https://ai.google.dev/gemini-api/docs/function-calling>

use std::borrow::Cow;

use neuron_http::{ToolNames, VendorFields};
use neuron_types::{RequestRef, ToolChoice, ToolDefinition};
use serde::Serialize;
use serde_json::Value;

use crate::schema;

/// The tools of a request. The API has one kind of tool per entry of the list `tools`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters_json_schema: Value,
    #[serde(flatten)]
    vendor: VendorFields<'a>,
}

impl<'a> Tools<'a> {
    /// Converts tools. `provider` is the name of the platform, for the fields that the caller added to a tool. Returns
    /// `None` if there are no tools.
    pub(crate) fn new(
        tools: &'a [ToolDefinition],
        provider: &'static str,
        names: &mut ToolNames<'a>,
    ) -> Option<[Self; 1]> {
        const WRITTEN: [&str; 3] = ["name", "description", "parametersJsonSchema"];
        let declarations = tools.iter().map(|tool| Declaration {
            name: names.send(&tool.name),
            description: &tool.description,
            parameters_json_schema: schema::of_arguments(&tool.plain_schema()),
            vendor: VendorFields { tool, provider, written: &WRITTEN },
        });
        (!tools.is_empty()).then(|| [Self { function_declarations: declarations.collect() }])
    }
}

/// The field `toolConfig`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolConfig<'a> {
    function_calling_config: CallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[Cow<'a, str>; 1]>,
}

/// Returns the constraint on tool calls. Returns `None` for the default.
pub(crate) fn tool_config<'a>(
    request: RequestRef<'a>,
    names: &mut ToolNames<'a>,
) -> Option<ToolConfig<'a>> {
    let (mode, name) = match request.tool_choice? {
        // The API rejects a mode without function declarations. Without them, these modes have no effect.
        ToolChoice::Auto | ToolChoice::None if !has_declarations(request) => return None,
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Specific { name } => ("ANY", Some([names.send(name)])),
    };
    Some(ToolConfig {
        function_calling_config: CallingConfig { mode, allowed_function_names: name },
    })
}

/// Returns `true` if the request or its `extra` declares a function.
fn has_declarations(request: RequestRef<'_>) -> bool {
    let more = request.extra_tools();
    let mut more = more.filter_map(|tool| tool.get("functionDeclarations"));
    !request.tools.is_empty() || more.next().is_some()
}
