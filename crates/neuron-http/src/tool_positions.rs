//! Names of tools in the errors of vendors.
//!
//! Vendors name a rejected tool by its position in the request, which says little to a caller whose tools come from
//! several places. [`with_tool_names`] adds the name.

use neuron_model::ProviderError;
use serde::Deserialize;
use serde_json::Value;

use crate::OriginalNames;

/// Adds the names of tools to the text of an error about the request `body`: after the position of a tool, and after a
/// name that the tool has only in the request.
///
/// | vendor | position |
/// |---|---|
/// | Anthropic | `tools.0.custom.input_schema` |
/// | OpenAI | `tools[0].function.parameters` |
/// | Gemini | `tools[0].function_declarations[3].parameters` |
/// | Bedrock | `toolConfig.tools.1.member.toolSpec`, counted from 1, and `toolConfig.tools.0.toolSpec` |
///
/// A position that belongs to no tool of the body stays as it is.
pub(crate) fn with_tool_names(
    error: ProviderError,
    body: &[u8],
    names: &OriginalNames,
) -> ProviderError {
    match error {
        ProviderError::InvalidRequest(text) => {
            let text = names.beside_sent(text);
            ProviderError::InvalidRequest(named(text, body, names))
        }
        other => other,
    }
}

/// Adds a name after each position in a text.
fn named(text: String, body: &[u8], names: &OriginalNames) -> String {
    if !text.contains(LIST) {
        return text;
    }
    let Ok(lists) = serde_json::from_slice::<Lists>(body) else {
        return text;
    };
    let (mut with_names, mut rest) = (String::new(), text.as_str());
    while let Some(start) = rest.find(LIST) {
        let end = match lists.tool_at(rest, start) {
            Some((end, name)) => {
                let before = rest.get(..end).unwrap_or_default();
                with_names.push_str(&format!("{before} (`{}`)", names.of(name)));
                end
            }
            None => {
                with_names.push_str(rest.get(..start + LIST.len()).unwrap_or_default());
                start + LIST.len()
            }
        };
        rest = rest.get(end..).unwrap_or_default();
    }
    with_names + rest
}

/// Name of the list of tools, with which a position begins.
const LIST: &str = "tools";

/// The lists of tools in a body. The conversation is not parsed into values.
#[derive(Debug, Default, Deserialize)]
struct Lists {
    #[serde(default)]
    tools: Vec<Value>,
    /// The tools of a request to Bedrock.
    #[serde(default, rename = "toolConfig")]
    config: Config,
}

#[derive(Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    tools: Vec<Value>,
}

impl Lists {
    /// Returns the end of the position that begins with [`LIST`] at `start`, and the name of its tool.
    fn tool_at<'l>(&'l self, text: &str, start: usize) -> Option<(usize, &'l str)> {
        let list = self.list_after(text.get(..start)?)?;
        let (index, mut end) = index_at(text, start + LIST.len())?;
        let mut tool = list.get(index)?;
        // The functions of one entry, of Gemini, and the tools of a namespace, of OpenAI.
        for key in ["functionDeclarations", "function_declarations", LIST] {
            for written in [".function_declarations", ".functionDeclarations", ".tools"] {
                let Some(functions) = tool.get(key).and_then(Value::as_array) else { break };
                if text.get(end..)?.starts_with(written) {
                    let (index, after) = index_at(text, end + written.len())?;
                    (tool, end) = (functions.get(index)?, after);
                }
            }
        }
        Some((end, name_of(tool)?))
    }

    /// Returns the list that a position after this text refers to. Returns `None` if the text is the beginning of another
    /// path, such as `messages.0.`.
    fn list_after(&self, before: &str) -> Option<&[Value]> {
        let mut of_config = ["toolConfig.", "toolConfig/"].into_iter();
        if let Some(before) = of_config.find_map(|key| before.strip_suffix(key)) {
            return is_start(before).then_some(self.config.tools.as_slice());
        }
        if !is_start(before) {
            return None;
        }
        match self.tools.as_slice() {
            // The model behind Bedrock has its own list, which has no cache points.
            [] if self.config.tools.iter().all(|tool| tool.get("toolSpec").is_some()) => {
                Some(self.config.tools.as_slice())
            }
            tools => Some(tools),
        }
    }
}

/// Returns `true` if a path may begin after this text.
fn is_start(before: &str) -> bool {
    let roots = ["GenerateContentRequest.", "body.", "#/"];
    let before = roots.into_iter().find_map(|root| before.strip_suffix(root)).unwrap_or(before);
    !before.ends_with(|c: char| c.is_alphanumeric() || "_-.]/".contains(c))
}

/// Parses an index such as `.3`, `/3`, `[3]` or `.4.member` at `start`. Returns the index, counted from 0, and its end.
fn index_at(text: &str, start: usize) -> Option<(usize, usize)> {
    const MEMBER: &str = ".member";
    let mut rest = text.get(start..)?.chars();
    let opening = rest.next().filter(|c| "./[".contains(*c))?;
    let rest = rest.as_str();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let index: usize = rest.get(..digits)?.parse().ok()?;
    let (after, end) = (rest.get(digits..)?, start + 1 + digits);
    match opening {
        '[' => after.starts_with(']').then_some((index, end + 1)),
        // AWS counts the members of a list from 1.
        '.' if after.starts_with(MEMBER) => Some((index.checked_sub(1)?, end + MEMBER.len())),
        _ => Some((index, end)),
    }
}

/// Returns the name of a tool in the format of any vendor. Returns `None` for a tool without a name, such as a search of
/// OpenAI.
fn name_of(tool: &Value) -> Option<&str> {
    let mut places = ["/name", "/function/name", "/custom/name", "/toolSpec/name"].into_iter();
    places.find_map(|place| tool.pointer(place)?.as_str()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, ToolDefinition};
    use serde_json::json;

    use super::*;
    use crate::{ToolNames, ascii_name};

    #[track_caller]
    fn check(body: &Value, text: &str, expected: &str) {
        let error = ProviderError::InvalidRequest(text.into());
        let names = OriginalNames::default();
        let found = with_tool_names(error, body.to_string().as_bytes(), &names);
        assert_eq!(found.to_string(), format!("invalid request: {expected}"));
    }

    #[test]
    fn position_of_each_vendor_gets_the_name() {
        let body = json!({"model": "m", "tools": [
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "look", "input_schema": {}},
        ], "messages": []});
        check(
            &body,
            "tools.1.custom.input_schema: JSON schema is invalid",
            "tools.1 (`look`).custom.input_schema: JSON schema is invalid",
        );
        check(&body, "tools.0.max_uses: why", "tools.0 (`web_search`).max_uses: why");
        check(
            &body,
            "400: 'tools.1' and tools.0.",
            "400: 'tools.1 (`look`)' and tools.0 (`web_search`).",
        );

        let body = json!({"tools": [
            {"type": "web_search"},
            {"type": "function", "function": {"name": "look"}},
            {"type": "custom", "custom": {"name": "run"}},
            {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find"}]},
        ]});
        check(
            &body,
            "Invalid 'tools[1].function.parameters': why",
            "Invalid 'tools[1] (`look`).function.parameters': why",
        );
        check(&body, "tools[2]: why", "tools[2] (`run`): why");
        check(&body, "tools[3].tools[0].name: why", "tools[3].tools[0] (`find`).name: why");
        check(&body, "tools[3].description: why", "tools[3] (`crm`).description: why");

        let body = json!({"tools": [
            {"functionDeclarations": [{"name": "look"}, {"name": "find"}]},
            {"function_declarations": [{"name": "run"}]},
        ]});
        check(
            &body,
            "* GenerateContentRequest.tools[0].function_declarations[1].parameters: why",
            "* GenerateContentRequest.tools[0].function_declarations[1] (`find`).parameters: why",
        );
        check(
            &body,
            "Unknown name \"x\" at 'tools[1].function_declarations[0]': why",
            "Unknown name \"x\" at 'tools[1].function_declarations[0] (`run`)': why",
        );

        let body = json!({"toolConfig": {"tools": [
            {"toolSpec": {"name": "look"}},
            {"toolSpec": {"name": "find"}},
        ]}});
        check(
            &body,
            "Value at 'toolConfig.tools.1.member.toolSpec.name' failed",
            "Value at 'toolConfig.tools.1.member (`look`).toolSpec.name' failed",
        );
        check(
            &body,
            "The value at toolConfig.tools.1.toolSpec.inputSchema.json.type must be",
            "The value at toolConfig.tools.1 (`find`).toolSpec.inputSchema.json.type must be",
        );
        check(
            &body,
            "#/toolConfig/tools/0/toolSpec: why",
            "#/toolConfig/tools/0 (`look`)/toolSpec: why",
        );
        // The error of the model behind Bedrock.
        check(
            &body,
            "errors: tools.1.custom.name: why",
            "errors: tools.1 (`find`).custom.name: why",
        );
    }

    #[test]
    fn position_without_a_known_tool_is_kept() {
        let body = json!({"tools": [{"type": "web_search"}, {"functionDeclarations": [{}]}]});
        for text in [
            "tools[0].filters: why",
            "tools[1].function_declarations[0].name: why",
            "tools[1].function_declarations[7]: why",
            "tools[2]: why",
            "tools.99999999999999999999: why",
            "toolConfig.tools.0.member: why",
            "toolConfig.tools.1.toolSpec: why",
            "tools: Tool names must be unique",
            "tools[",
            "tools.",
            "tools",
        ] {
            check(&body, text, text);
        }
        let body = json!({"tools": [{"name": "look"}]});
        for text in ["my_tools.0: why", "messages.0.tools.0: why", "some tools 0", "tools[0: why"] {
            check(&body, text, text);
        }
        // The list of the model behind Bedrock has no cache points, so its positions may differ.
        let tools = json!([{"cachePoint": {"type": "default"}}, {"toolSpec": {"name": "look"}}]);
        let body = json!({"toolConfig": {"tools": tools}});
        check(&body, "tools.1.custom: why", "tools.1.custom: why");
        check(&body, "toolConfig.tools.2.member: why", "toolConfig.tools.2.member (`look`): why");
        check(&body, "toolConfig.tools.0: why", "toolConfig.tools.0: why");
        for body in [json!([]), json!({"tools": {}}), json!("tools.0")] {
            check(&body, "tools.0: why", "tools.0: why");
        }
    }

    #[test]
    fn error_has_the_original_name_of_a_renamed_tool() {
        let tool = json!({"name": "fs.read", "description": "", "input_schema": {}});
        let tool: ToolDefinition = serde_json::from_value(tool).unwrap();
        let request = CompletionRequest { tools: vec![tool], ..CompletionRequest::default() };
        let rule = ToolNames::new(|name| ascii_name(name, 64), 64);
        let names = rule.rename(request.view()).into_originals();
        let body = json!({"tools": [{"name": "fs_read"}]}).to_string();
        for (text, expected) in [
            ("tools.0: why", "tools.0 (`fs.read`): why"),
            (
                "Invalid schema for function 'fs_read'",
                "Invalid schema for function 'fs_read' (`fs.read`)",
            ),
            (
                "Tool `fs_read` and \"fs_read\"",
                "Tool `fs_read` (`fs.read`) and \"fs_read\" (`fs.read`)",
            ),
            ("my_fs_read", "my_fs_read"),
        ] {
            let error = ProviderError::InvalidRequest(text.into());
            let found = with_tool_names(error, body.as_bytes(), &names);
            assert_eq!(found.to_string(), format!("invalid request: {expected}"));
        }
        let other = || ProviderError::StreamError("tools.0".into());
        let found = with_tool_names(other(), body.as_bytes(), &names);
        assert_eq!(found.to_string(), other().to_string());
    }
}
