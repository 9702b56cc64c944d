//! Anthropic's own search for deferred tools.
//!
//! <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>

use neuron_model::{RequestRef, ToolDefinition};
use serde_json::Value;

/// Type of the search tool that this crate adds to a request. Its queries are words, as for
/// [`SEARCH_TOOLS`](neuron_model::SEARCH_TOOLS).
pub(crate) const SEARCH_TYPE: &str = "tool_search_tool_bm25_20251119";

/// Name of the search tool.
pub(crate) const SEARCH_NAME: &str = "tool_search_tool_bm25";

/// Beginning of the types and the names of all search tools.
const ANY_SEARCH: &str = "tool_search_tool_";

/// Returns `true` if Anthropic searches deferred tools for this model. The models of Claude 4 and later support the
/// search, and have the name of a family after `claude-`. Older models have a number or `instant` there.
fn supports_search(model: &str) -> bool {
    let family = model.strip_prefix("claude-").unwrap_or_default();
    family.starts_with(|c: char| c.is_ascii_lowercase())
        && !family.starts_with("instant")
        && !family.starts_with("v1")
}

/// The tools of a request, and the use of Anthropic's search in it.
pub(crate) struct Search<'a> {
    request: &'a RequestRef<'a>,
    /// The tools that Anthropic searches. Empty if the model does not support the search.
    deferred: Vec<ToolDefinition>,
}

impl<'a> Search<'a> {
    /// Returns the search in a request to the model `model`.
    pub(crate) fn of(request: &'a RequestRef<'a>, model: &str) -> Self {
        let deferred = if supports_search(model) { request.deferred_tools() } else { Vec::new() };
        Self { request, deferred }
    }

    /// Returns the tools whose definitions the model always sees.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &'a ToolDefinition> + use<'a> {
        self.request.tools_beside(&self.deferred)
    }

    /// Returns the tools that Anthropic searches.
    pub(crate) fn deferred(&self) -> &[ToolDefinition] {
        &self.deferred
    }

    /// Returns `true` if this crate adds the search tool, because the caller has not added one.
    pub(crate) fn adds_tool(&self) -> bool {
        !self.deferred.is_empty() && !self.request.extra_tools().any(is_search_tool)
    }

    /// Returns `true` if a block of an earlier response must not be sent, because it belongs to a search and the request
    /// has no search tool.
    pub(crate) fn omits(&self, block: &Value) -> bool {
        let is_search = match text(block, "type") {
            "server_tool_use" => text(block, "name").starts_with(ANY_SEARCH),
            kind => kind == "tool_search_tool_result",
        };
        is_search && self.deferred.is_empty() && !self.request.extra_tools().any(is_search_tool)
    }

    /// Returns `true` if a search result may refer to a tool with this name. The API rejects references to tools that are
    /// not in the request, for example after a tool was removed.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let is_named = |tool: &ToolDefinition| tool.name == name;
        // The request does not have the names of the tools of MCP servers.
        let may_be =
            |tool: &Value| text(tool, "name") == name || text(tool, "type") == "mcp_toolset";
        self.tools().chain(&self.deferred).any(is_named) || self.request.extra_tools().any(may_be)
    }
}

fn is_search_tool(tool: &Value) -> bool {
    text(tool, "type").starts_with(ANY_SEARCH)
}

/// Returns a string field, or an empty string if it is missing.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use neuron_model::{
        CALL_TOOL, CacheControl, CompletionRequest, ContentBlock, Message, Role, SEARCH_TOOLS,
        ToolChoice,
    };
    use neuron_testing::anthropic::check_request;
    use serde_json::json;

    use super::*;
    use crate::request::{PROVIDER, Settings, write};

    fn tool(name: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.into(),
            title: None,
            description: "d".into(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn raw(json: Value) -> ContentBlock {
        ContentBlock::Raw { provider: PROVIDER.into(), json, portable: None }
    }

    fn searched() -> Value {
        json!({
            "type": "server_tool_use", "id": "srvtoolu_1", "name": SEARCH_NAME,
            "input": { "query": "mail" },
        })
    }

    fn found(names: &[&str]) -> Value {
        let reference = |name: &&str| json!({ "type": "tool_reference", "tool_name": name });
        let references: Vec<Value> = names.iter().map(reference).collect();
        json!({
            "type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "tool_search_tool_search_result", "tool_references": references,
            },
        })
    }

    fn tools(deferred: &[ToolDefinition]) -> Vec<ToolDefinition> {
        vec![tool("look"), tool(SEARCH_TOOLS).with_deferred_tools(deferred), tool(CALL_TOOL)]
    }

    /// Returns a request after a search that found `send_mail` and `read_mail`. `deferred` are its deferred tools.
    fn request(deferred: &[&str]) -> CompletionRequest {
        let call =
            ContentBlock::ToolUse { id: "c".into(), name: "send_mail".into(), input: json!({}) };
        let content = vec![raw(searched()), raw(found(&["send_mail", "read_mail"])), call];
        let result = ContentBlock::ToolResult {
            tool_use_id: "c".into(),
            content: Vec::new(),
            is_error: false,
        };
        CompletionRequest {
            model: "claude-sonnet-4-6".into(),
            messages: vec![
                Message::user("hi"),
                Message { role: Role::Assistant, content },
                Message { role: Role::User, content: vec![result] },
            ],
            tools: tools(&deferred.iter().copied().map(tool).collect::<Vec<_>>()),
            ..Default::default()
        }
    }

    /// Returns the body of a request, which the API must accept.
    #[track_caller]
    fn body(request: &CompletionRequest) -> Value {
        let settings = Settings { max_tokens: 100, ..Settings::default() };
        let body = write(request.view(), settings, false).unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        assert_eq!(check_request(&body, &["mcp-client-2025-11-20"]), Ok(()));
        body
    }

    fn names(body: &Value) -> Vec<&str> {
        let tools = body["tools"].as_array().unwrap();
        tools.iter().map(|tool| text(tool, "name")).collect()
    }

    #[test]
    fn deferred_tools_come_after_the_search_of_the_api() {
        let mail = ["send_mail", "read_mail"].map(|name| ToolDefinition {
            cache_control: Some(CacheControl::default()),
            ..tool(name).with_vendor_field(PROVIDER, "defer_loading", false)
        });
        let request = CompletionRequest { tools: tools(&mail), ..request(&[]) };
        let body = body(&request);
        let deferred = |name: &str| json!({ "name": name, "description": "d", "input_schema": { "type": "object" }, "defer_loading": true });
        assert_eq!(
            body["tools"],
            json!([
                { "name": "look", "description": "d", "input_schema": { "type": "object" } },
                { "type": SEARCH_TYPE, "name": SEARCH_NAME },
                deferred("send_mail"),
                deferred("read_mail"),
            ])
        );
        let answer = &body["messages"][1]["content"];
        assert_eq!(answer[0], searched());
        assert_eq!(answer[1], found(&["send_mail", "read_mail"]));
        assert_eq!(answer[2]["name"], "send_mail");
    }

    #[test]
    fn references_to_tools_that_are_not_in_the_request_are_left_out() {
        let sent = body(&request(&["send_mail"]));
        assert_eq!(sent["messages"][1]["content"][1], found(&["send_mail"]));
        // A visible tool may be found too, for example after its settings changed.
        let mut visible = request(&["other"]);
        visible.tools.push(tool("read_mail"));
        assert_eq!(body(&visible)["messages"][1]["content"][1], found(&["read_mail"]));
        assert_eq!(body(&request(&["other"]))["messages"][1]["content"][1], found(&[]));
    }

    #[test]
    fn forced_search_of_the_agent_is_sent_with_its_definition() {
        for forced in [SEARCH_TOOLS, CALL_TOOL] {
            let tool_choice = Some(ToolChoice::Specific { name: forced.into() });
            let body = body(&CompletionRequest { tool_choice, ..request(&["send_mail"]) });
            assert_eq!(names(&body), ["look", SEARCH_TOOLS, CALL_TOOL]);
            assert_eq!(body["tool_choice"], json!({ "type": "tool", "name": forced }));
        }
    }

    #[test]
    fn request_without_a_search_has_no_search_of_earlier_responses() {
        let none = request(&[]);
        let old = CompletionRequest {
            model: "claude-3-5-haiku-latest".into(),
            ..request(&["send_mail"])
        };
        for request in [none, old] {
            let body = body(&request);
            assert_eq!(names(&body), ["look", SEARCH_TOOLS, CALL_TOOL]);
            let answer = body["messages"][1]["content"].as_array().unwrap();
            assert_eq!(answer.len(), 1, "{answer:?}");
            assert_eq!(answer[0]["type"], "tool_use");
        }
    }

    #[test]
    fn search_of_the_caller_is_not_repeated_and_other_searches_stay() {
        let own = "tool_search_tool_regex";
        let search = json!({ "type": "tool_search_tool_regex_20251119", "name": own });
        let mut request = request(&["send_mail"]);
        request.extra = Some(json!({ "tools": [search] }));
        assert_eq!(names(&body(&request)), ["look", "send_mail", own]);
        // Without deferred tools, the caller defers with vendor fields.
        request.tools = vec![tool("send_mail").with_vendor_field(PROVIDER, "defer_loading", true)];
        let sent = body(&request);
        assert_eq!(names(&sent), ["send_mail", own]);
        assert_eq!(sent["messages"][1]["content"][1], found(&["send_mail"]));
        // An MCP server may have any tool.
        let toolset = json!({ "type": "mcp_toolset", "mcp_server_name": "mail" });
        request.extra = Some(json!({ "tools": [search, toolset] }));
        let sent = body(&request);
        assert_eq!(sent["messages"][1]["content"][1], found(&["send_mail", "read_mail"]));
        // Blocks of other tools of the API are sent unchanged.
        let block = json!({ "type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {} });
        let view = CompletionRequest::default();
        assert!(!Search::of(&view.view(), "claude-3-5").omits(&block));
    }

    #[test]
    fn failed_search_is_sent_back_unchanged() {
        let failed = json!({
            "type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1",
            "content": { "type": "tool_search_tool_result_error", "error_code": "unavailable" },
        });
        let mut request = request(&["send_mail"]);
        request.messages[1].content[1] = raw(failed.clone());
        assert_eq!(body(&request)["messages"][1]["content"][1], failed);
    }

    #[test]
    fn only_claude_4_and_later_support_the_search() {
        let check = |model: &str, expected| assert_eq!(supports_search(model), expected, "{model}");
        for model in ["claude-opus-4-20250514", "claude-haiku-4-5", "claude-fable-5-2"] {
            check(model, true);
        }
        for model in ["claude-3-5-sonnet-latest", "claude-2.1", "claude-instant-1.2", "claude-v1"] {
            check(model, false);
        }
        for model in ["", "claude-", "kimi-k2", "anthropic/claude-opus-4.5"] {
            check(model, false);
        }
    }
}
