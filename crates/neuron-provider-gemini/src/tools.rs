//! The tools of a request and the choice between them.
//!
//! <https://ai.google.dev/gemini-api/docs/function-calling>

use neuron_http::{VendorFields, tool_schema};
use neuron_model::{RequestRef, ToolChoice, ToolDefinition};
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
    name: &'a str,
    description: &'a str,
    parameters_json_schema: Value,
    #[serde(flatten)]
    vendor: VendorFields<'a>,
}

impl<'a> Tools<'a> {
    /// Converts tools. `provider` is the name of the platform, for the fields that the caller added to a tool. Returns
    /// `None` if there are no tools.
    ///
    /// # Errors
    ///
    /// An error that names the tool if its arguments are no object.
    pub(crate) fn new(
        tools: &'a [ToolDefinition],
        provider: &'static str,
    ) -> serde_json::Result<Option<[Self; 1]>> {
        const WRITTEN: [&str; 3] = ["name", "description", "parametersJsonSchema"];
        let declaration = |tool: &'a ToolDefinition| {
            Ok(Declaration {
                name: &tool.name,
                description: &tool.description,
                parameters_json_schema: schema::accepted(&*tool_schema(tool, false)?),
                vendor: VendorFields { tool, provider, written: &WRITTEN },
            })
        };
        let function_declarations: Vec<_> =
            tools.iter().map(declaration).collect::<serde_json::Result<_>>()?;
        Ok((!tools.is_empty()).then_some([Self { function_declarations }]))
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
    allowed_function_names: Option<[&'a str; 1]>,
}

/// Returns the constraint on tool calls. Returns `None` for the default.
pub(crate) fn tool_config(request: RequestRef<'_>) -> Option<ToolConfig<'_>> {
    let (mode, name) = match request.tool_choice? {
        // The API rejects a mode without function declarations. Without them, these modes have no effect.
        ToolChoice::Auto | ToolChoice::None if !has_declarations(request) => return None,
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Specific { name } => ("ANY", Some([name.as_str()])),
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
