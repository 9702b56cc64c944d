//! OpenAI's own search for deferred tools.
//!
//! <https://developers.openai.com/api/docs/guides/tools-tool-search>

use std::collections::HashSet;

use neuron_model::{ContentBlock, RequestRef, ToolDefinition};
use serde_json::Value;

use super::response::text_of;

/// Type of the search tool.
pub(crate) const SEARCH_TYPE: &str = "tool_search";

/// Maximum number of tools in a request. The API rejects longer lists, which is known from its errors.
const MOST_TOOLS: usize = 128;

/// Returns `true` if OpenAI searches deferred tools for this model, which is gpt-5.4 or later, except `nano`. The API
/// rejects the search for `gpt-5.4-nano`. <https://developers.openai.com/api/docs/models/gpt-5.4-nano>
fn supports_search(model: &str) -> bool {
    let mut parts = model.strip_prefix("gpt-").unwrap_or_default().split('-');
    let version = parts.next();
    if parts.any(|part| part == "nano") {
        return false;
    }
    let (major, minor) = version.map_or(("", "0"), |it| it.split_once('.').unwrap_or((it, "0")));
    match (major.parse::<u32>(), minor.parse::<u32>()) {
        (Ok(major), Ok(minor)) => (major, minor) >= (5, 4),
        _ => false,
    }
}

/// The tools of a request, and the use of OpenAI's search in it.
///
/// A deferred tool is in a namespace with the tool's name. The response calls it with this `namespace`, and the API
/// rejects the call in a later request without the namespace. The namespace exists in a request if the result of a search
/// in its input has the tool.
///
/// Calls without a namespace come from other vendors, from other models, or from before the tool was deferred. The API
/// accepts such a call only if the tool is not deferred. The tool is then sent without `defer_loading`.
///
/// Sources: <https://github.com/vercel/ai/pull/15193>, <https://github.com/dust-tt/dust/pull/31323>
pub(crate) struct Search<'a> {
    request: &'a RequestRef<'a>,
    /// The tools that OpenAI may search. Empty if OpenAI does not search.
    tools: Vec<ToolDefinition>,
    /// Set if the caller added OpenAI's search tool.
    has_own: bool,
    /// Names of the tools in `tools` that are not deferred, because an earlier call has no namespace.
    loaded: HashSet<String>,
    /// Names of the tools in the results of earlier searches.
    found: HashSet<&'a str>,
}

impl<'a> Search<'a> {
    /// Returns the search in a request to the model `model`. `vendor` is the provider name of items that are sent back.
    pub(crate) fn of(request: &'a RequestRef<'a>, model: &str, vendor: &str) -> Self {
        let mut search = Self {
            request,
            tools: if supports_search(model) { request.deferred_tools() } else { Vec::new() },
            has_own: request.extra_tools().any(|tool| text_of(tool, "type") == SEARCH_TYPE),
            loaded: HashSet::new(),
            found: HashSet::new(),
        };
        let own = search.tools().count() + request.extra_tools().count();
        let all = own + usize::from(search.adds_tool()) + search.tools.len();
        if all > MOST_TOOLS {
            search.tools.clear();
        }
        if search.tools.is_empty() {
            return search;
        }
        let blocks = || request.messages.iter().flat_map(|message| &message.content);
        search.found = blocks().flat_map(|block| found_in(block, vendor)).collect();
        let bare = blocks().filter(|block| !search.keeps_namespace(block, vendor));
        let called: HashSet<&str> =
            bare.filter_map(ContentBlock::as_tool_use).map(|call| call.name).collect();
        let names = search.tools.iter().map(|tool| &tool.name);
        search.loaded = names.filter(|name| called.contains(name.as_str())).cloned().collect();
        search
    }

    /// Returns `true` if the model can find a tool with a search. The API rejects a search without deferred tools, and
    /// accepts loaded tools without a search.
    fn is_offered(&self) -> bool {
        self.loaded.len() < self.tools.len()
    }

    /// Returns the tools that are not searched.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &'a ToolDefinition> + use<'a> {
        self.request.tools_beside(&self.tools)
    }

    /// Returns the tools that are searched. The flag is `false` for a tool that the model sees without a search.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (&ToolDefinition, bool)> {
        self.tools.iter().map(|tool| (tool, !self.loaded.contains(&tool.name)))
    }

    /// Returns `true` if this crate adds the search tool, because the caller has not added one.
    pub(crate) fn adds_tool(&self) -> bool {
        self.is_offered() && !self.has_own
    }

    /// Returns `true` if an item of an earlier response must not be sent, because it belongs to a search on OpenAI's
    /// server and the request has no search tool.
    pub(crate) fn omits(&self, item: &Value) -> bool {
        let is_search = matches!(text_of(item, "type"), "tool_search_call" | "tool_search_output");
        let is_offered = self.has_own || self.is_offered();
        is_search && !is_offered && text_of(item, "execution") != "client"
    }

    /// Returns `true` if a call of an earlier response must be sent without its namespace, because the namespace does not
    /// exist in this request. Namespaces that the caller defines are kept.
    pub(crate) fn strips_namespace(&self, call: &Value) -> bool {
        let (name, namespace) = (text_of(call, "name"), text_of(call, "namespace"));
        let exists = self.has_own || self.is_offered() && self.found.contains(name);
        !namespace.is_empty() && namespace == name && !exists
    }

    /// Returns `true` if a block is a call that is sent with a namespace.
    fn keeps_namespace(&self, block: &ContentBlock, vendor: &str) -> bool {
        let json = own_json(block, vendor);
        json.is_some_and(|json| {
            !text_of(json, "namespace").is_empty() && !self.strips_namespace(json)
        })
    }
}

/// Returns the JSON of a block that is sent back as an item.
fn own_json<'b>(block: &'b ContentBlock, vendor: &str) -> Option<&'b Value> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == vendor => Some(json),
        _ => None,
    }
}

/// Returns the names of the tools in the result of a search.
fn found_in<'b>(block: &'b ContentBlock, vendor: &str) -> impl Iterator<Item = &'b str> + use<'b> {
    let result = own_json(block, vendor);
    let result = result.filter(|item| text_of(item, "type") == "tool_search_output");
    let tools = result.and_then(|item| item.get("tools")?.as_array());
    tools.into_iter().flatten().map(|tool| text_of(tool, "name"))
}

#[cfg(test)]
mod tests {
    use neuron_model::{CALL_TOOL, CompletionRequest, Message, Role, SEARCH_TOOLS, ToolChoice};
    use neuron_testing::openai::check_responses_request;
    use serde_json::json;

    use super::super::response::item;
    use super::*;
    use crate::request::{PROVIDER, Settings};
    use crate::request_checks::tool;
    use crate::responses::request::write;

    const TOOL: &str = "send_mail";

    fn searched() -> Value {
        json!({ "type": "tool_search_call", "id": "tsc_1", "execution": "server", "call_id": null, "status": "completed", "arguments": { "paths": [TOOL] } })
    }

    fn found() -> Value {
        let function = json!({ "type": "function", "name": TOOL, "defer_loading": true, "parameters": {}, "strict": false });
        json!({ "type": "tool_search_output", "id": "tso_1", "execution": "server", "call_id": null, "status": "completed", "tools": [function] })
    }

    fn call(namespace: Option<&str>) -> Value {
        let mut call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c", "name": TOOL, "arguments": "{}", "status": "completed" });
        if let Some(namespace) = namespace {
            call["namespace"] = namespace.into();
        }
        call
    }

    fn tools(deferred: &[ToolDefinition]) -> Vec<ToolDefinition> {
        vec![tool("look"), tool(SEARCH_TOOLS).with_deferred_tools(deferred), tool(CALL_TOOL)]
    }

    /// Returns a request after a response with these blocks and the result of its call.
    fn request(content: Vec<ContentBlock>, deferred: &[&str]) -> CompletionRequest {
        let result = ContentBlock::ToolResult {
            tool_use_id: "c".into(),
            content: Vec::new(),
            is_error: false,
        };
        CompletionRequest {
            model: "gpt-5.4".into(),
            messages: vec![
                Message { role: Role::Assistant, content },
                Message { role: Role::User, content: vec![result] },
            ],
            tools: tools(&deferred.iter().copied().map(tool).collect::<Vec<_>>()),
            ..Default::default()
        }
    }

    fn items(items: &[Value]) -> Vec<ContentBlock> {
        items.iter().cloned().map(item).collect()
    }

    /// Returns the body of a request, which the API must accept.
    #[track_caller]
    fn body(request: &CompletionRequest) -> Value {
        let body = write(request.view(), &request.model, Settings::default(), false).unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        assert_eq!(check_responses_request(&body), Ok(()), "{body:#}");
        body
    }

    /// Returns the names of the tools in a body. The name of a deferred tool ends with `*`.
    fn names(body: &Value) -> Vec<String> {
        let name = |tool: &Value| match text_of(tool, "name") {
            "" => text_of(tool, "type").to_owned(),
            name if tool["defer_loading"] == true => format!("{name}*"),
            name => name.to_owned(),
        };
        body["tools"].as_array().unwrap().iter().map(name).collect()
    }

    #[test]
    fn deferred_tools_come_after_the_search_of_the_api() {
        let history = [searched(), found(), call(Some(TOOL))];
        let read = tool("read_mail").with_vendor_field(PROVIDER, "defer_loading", false);
        let tools = tools(&[tool(TOOL), read]);
        let request = CompletionRequest { tools, ..request(items(&history), &[]) };
        let body = body(&request);
        assert_eq!(names(&body), ["look", "tool_search", "send_mail*", "read_mail*"]);
        assert_eq!(body["input"].as_array().unwrap()[..3], history);
    }

    #[test]
    fn tool_that_a_call_without_namespace_names_is_not_deferred() {
        // The call of another vendor, of a model without the search, and with a result that a compaction removed.
        let foreign = ContentBlock::ToolUse { id: "c".into(), name: TOOL.into(), input: json!({}) };
        for content in [vec![foreign], items(&[call(None)]), items(&[call(Some(TOOL))])] {
            let sent = body(&request(content.clone(), &["read_mail", TOOL]));
            assert_eq!(names(&sent), ["look", "tool_search", "read_mail*", TOOL]);
            assert_eq!(sent["input"][0].get("namespace"), None);
            // A search without deferred tools is rejected, and there is nothing to search.
            let sent = body(&request(content, &[TOOL]));
            assert_eq!(names(&sent), ["look", TOOL]);
            assert_eq!(sent["input"][0].get("namespace"), None);
        }
        // A later search finds the tool again.
        let foreign = ContentBlock::ToolUse { id: "c".into(), name: TOOL.into(), input: json!({}) };
        let mut mixed = request(vec![foreign], &["read_mail", TOOL]);
        let later = request(items(&[searched(), found(), call(Some(TOOL))]), &[]);
        mixed.messages.extend(later.messages);
        let sent = body(&mixed);
        assert_eq!(names(&sent), ["look", "tool_search", "read_mail*", TOOL]);
        assert_eq!(sent["input"][4], call(Some(TOOL)));
    }

    #[test]
    fn request_without_a_search_has_no_search_of_earlier_responses() {
        let history = || items(&[searched(), found(), call(Some(TOOL))]);
        let none = request(history(), &[]);
        let old = CompletionRequest { model: "gpt-4.1".into(), ..request(history(), &[TOOL]) };
        let many: Vec<String> = (0..126).map(|number| format!("tool_{number}")).collect();
        let many: Vec<&str> = [TOOL].into_iter().chain(many.iter().map(String::as_str)).collect();
        for request in [none, old, request(history(), &many)] {
            let body = body(&request);
            assert_eq!(names(&body), ["look", SEARCH_TOOLS, CALL_TOOL]);
            assert_eq!(body["input"][0], call(None));
            assert_eq!(body["input"].as_array().unwrap().len(), 2);
        }
        // One tool less, so that all of them and the search fit.
        let fits = request(history(), &many[..126]);
        assert_eq!(names(&body(&fits)).len(), 128);
    }

    #[test]
    fn forced_search_of_the_agent_is_sent_with_its_definition() {
        for forced in [SEARCH_TOOLS, CALL_TOOL] {
            let tool_choice = Some(ToolChoice::Specific { name: forced.into() });
            let history = items(&[searched(), found(), call(Some(TOOL))]);
            let body = body(&CompletionRequest { tool_choice, ..request(history, &[TOOL]) });
            assert_eq!(names(&body), ["look", SEARCH_TOOLS, CALL_TOOL]);
            assert_eq!(body["tool_choice"]["name"], forced);
            assert_eq!(body["input"][0], call(None));
        }
    }

    #[test]
    fn searches_and_namespaces_of_the_caller_are_sent_unchanged() {
        let mut client = searched();
        (client["execution"], client["call_id"]) = ("client".into(), "c".into());
        let history = [client, call(Some("mail"))];
        let body_of = |request: &CompletionRequest| body(request)["input"].clone();
        let sent = body_of(&request(items(&history), &[]));
        assert_eq!(sent.as_array().unwrap()[..2], history);
        // The caller added the search, and deferred the tool with a vendor field.
        let history = [searched(), found(), call(Some(TOOL))];
        let mut request = request(items(&history), &[]);
        request.tools = vec![tool(TOOL).with_vendor_field(PROVIDER, "defer_loading", true)];
        request.extra = Some(json!({ "tools": [{ "type": "tool_search" }] }));
        assert_eq!(body_of(&request).as_array().unwrap()[..3], history);
        request.tools.extend(tools(&[tool("read_mail")]).into_iter().skip(1));
        let body = body(&request);
        assert_eq!(names(&body), ["send_mail*", "read_mail*", "tool_search"]);
    }

    #[test]
    fn only_gpt_5_4_and_later_without_nano_support_the_search() {
        let check = |model: &str, expected| assert_eq!(supports_search(model), expected, "{model}");
        for model in ["gpt-5.4", "gpt-5.4-mini", "gpt-5.10", "gpt-6-astra", "gpt-6.1-sol"] {
            check(model, true);
        }
        for model in [
            "gpt-5.4-nano",
            "gpt-5.4-nano-2026-03-17",
            "gpt-5",
            "gpt-5-mini",
            "gpt-5.3-codex",
            "gpt-4.1",
            "gpt-4o",
            "o3",
        ] {
            check(model, false);
        }
        for model in ["", "gpt-", "gpt-oss-120b", "openai/gpt-5.4", "my-deployment"] {
            check(model, false);
        }
    }
}
