//! Checks tool calls, their arguments, and their results.

use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, ContentItem, Message, Role, StopReason,
    ToolCall, ToolDefinition,
};
use serde_json::{Value, json};

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::json::{has_text, has_value};
use crate::case::Case;
use neuron_testing::Reply;

/// Checks that tool calls and their arguments arrive unchanged, and that the next request contains the tool results.
/// Covers responses with one call and with several calls.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn tools<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "tools").await;
    for (name, input) in arguments() {
        for chunk_chars in [1, 1000] {
            let case = ctx.case(format_args!("{name}, {chunk_chars} characters a delta"));
            let reply = Reply::tool_call("callNum01", "look", input.clone())
                .with_text("Let me look.")
                .chunk_chars(chunk_chars);
            let response = ctx.there_and_back(&case, reply, &[("callNum01", "look", &input)]).await;
            case.equal("the text", response.message.text(), "Let me look.");
            case.equal("the reason to stop", response.stop_reason, StopReason::ToolUse);
        }
    }
    if ctx.can.parallel_tools {
        let (paris, oslo, none) = (json!({"city": "Paris"}), json!({"city": "Oslo"}), json!({}));
        let calls = [
            ("callNum01", "look", &paris),
            ("callNum02", "look", &oslo),
            ("callNum03", "find", &none),
        ];
        let reply = Reply::tool_calls(calls.map(|(id, name, input)| (id, name, input.clone())));
        let case = ctx.case("several calls at once");
        ctx.there_and_back(&case, reply.chunk_chars(4), &calls).await;
    }
    if ctx.can.invalid_arguments {
        for raw in ["{\"city\": \"Par", "not JSON", "{\"a\": 1} {\"b\": 2}", "\"\u{1f980}"] {
            let case = ctx.case(format_args!("the arguments {raw:?}"));
            let input = ToolCall::invalid_json_input(raw);
            for stop_reason in [StopReason::ToolUse, StopReason::MaxTokens] {
                if ctx.can.stop_reasons.contains(&stop_reason) {
                    let reply = Reply::tool_call("callNum01", "look", input.clone());
                    let reply = reply.stop_reason(stop_reason).chunk_chars(3);
                    ctx.there_and_back(&case, reply, &[("callNum01", "look", &input)]).await;
                }
            }
        }
    }
}

/// Returns arguments of every kind, each with a name for the case.
fn arguments() -> [(&'static str, Value); 6] {
    [
        ("one argument", json!({"city": "Paris"})),
        ("no arguments", json!({})),
        (
            "arguments in an order of their own",
            json!({"zebra": 1, "apple": {"y": 1, "b": [2]}, "m": 0}),
        ),
        (
            "arguments of every type",
            json!({"a": [null, true, "x", [], {}], "b": {"c": {"d": [[1]]}}}),
        ),
        ("numbers", json!({"large": 9_007_199_254_740_993_i64, "negative": -1, "small": 0.1})),
        ("characters of every length", json!({"città": "日本 🦀 \" \\ \n \u{0}", "": ""})),
    ]
}

/// Returns a minimal request that defines the tools `look` and `find`.
pub(super) fn ask_with_tools() -> CompletionRequest {
    CompletionRequest { tools: vec![tool("look"), tool("find")], ..ask() }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: format!("What `{name}` does"),
        input_schema: json!({
            "type": "object",
            "properties": {format!("{name}_for"): {"type": "string"}},
        }),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

impl<H: ProviderHarness> TestContext<'_, H> {
    /// Requests a response with tool calls, checks the calls, and sends their results in the next request.
    ///
    /// `expected` has the id, the name and the arguments of each call. Returns the response with the calls.
    async fn there_and_back(
        &self,
        case: &Case,
        reply: Reply,
        expected: &[(&str, &str, &Value)],
    ) -> CompletionResponse {
        let mut request = ask_with_tools();
        let response = self.both(case, request.view(), reply).await;
        let calls: Vec<_> = response.message.tool_uses().collect();
        case.equal("the number of tool calls", calls.len(), expected.len());
        for (call, (id, name, input)) in calls.iter().zip(expected) {
            case.equal("the tool's name", call.name, *name);
            // The text is compared, because equal JSON values may have different orders of fields.
            case.equal("the arguments", call.input.to_string(), input.to_string());
            match self.can.tool_call_ids {
                true => case.equal("the call's id", call.id, *id),
                false => {
                    let count = calls.iter().filter(|other| other.id == call.id).count();
                    case.equal("the number of calls with one id", count, 1);
                }
            }
        }
        let is_invalid = expected.iter().any(|(.., input)| ToolCall::invalid_json(input).is_some());
        request.messages.push(response.message.clone());
        answer_calls(&mut request, is_invalid);
        let case = case.step("the way back");
        for body in self.sent(&case, request.view()).await {
            let is_there = |text: &str| {
                case.holds(has_text(&body, text), format_args!("`{text}` is not in the body"));
            };
            for (index, (call, (_, name, input))) in calls.iter().zip(expected).enumerate() {
                is_there(&result_text(index));
                is_there(name);
                // The result refers to its call by id.
                is_there(if self.can.tool_call_ids { call.id } else { "" });
                let is_there = is_invalid || has_value(&body, input);
                case.holds(is_there, "the arguments, in their order, are not in the body");
            }
        }
        response
    }
}

/// Appends a message with a result for every tool call in the last message of `request`. `is_error` is the error flag
/// of each result.
pub(super) fn answer_calls(request: &mut CompletionRequest, is_error: bool) {
    let calls = request.messages.last().into_iter().flat_map(Message::tool_uses).enumerate();
    let results = calls.map(|(index, call)| ContentBlock::ToolResult {
        tool_use_id: call.id.to_owned(),
        content: vec![ContentItem::Text(result_text(index))],
        is_error,
    });
    let content = results.collect();
    request.messages.push(Message { role: Role::User, content });
}

fn result_text(index: usize) -> String {
    format!("result {index}: 22 °C \"sunny\"")
}
