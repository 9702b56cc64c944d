//! The tools of a request and the choice between them.
//!
//! <https://ai.google.dev/gemini-api/docs/function-calling>

use neuron_http::VendorFields;
use neuron_types::{RequestRef, ToolChoice, ToolDefinition};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::schema;

/// The tools of a request, serialised as a list with one entry, because the API has one kind of tool per entry.
pub(crate) struct Tools<'a> {
    pub(crate) tools: &'a [ToolDefinition],
    /// Name of the platform, for the fields that the caller added to a tool.
    pub(crate) vendor: &'static str,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool<'a> {
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
        const WRITTEN: [&str; 3] = ["name", "description", "parametersJsonSchema"];
        let declarations = self.tools.iter().map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: schema::of_arguments(&tool.plain_schema()),
            vendor: VendorFields { tool, provider: self.vendor, written: &WRITTEN },
        });
        [Tool { function_declarations: declarations.collect() }].serialize(serializer)
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
