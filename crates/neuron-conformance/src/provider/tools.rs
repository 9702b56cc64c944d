//! Tool calls, their arguments, and their results.

use neuron_types::{
    CompletionRequest, ContentBlock, ContentItem, Message, Role, StopReason, ToolCall,
    ToolDefinition,
};
use serde_json::{Value, json};

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::json::{has_text, has_value};
use crate::case::Case;
use neuron_testing::Reply;

/// Checks tool calls: one and several, arguments of every kind, and the way back with results.
///
/// # Panics
///
/// At the first violation.
pub async fn tools<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "tools").await;
    for (name, input) in arguments() {
        let case = ctx.case(name);
        one_call(&ctx, &case, &input).await;
    }
    if ctx.can.parallel_tools {
        several_calls(&ctx).await;
    }
    if ctx.can.invalid_arguments {
        for raw in ["{\"city\": \"Par", "not JSON", "{\"a\": 1} {\"b\": 2}", "\"\u{1f980}"] {
            invalid_arguments(&ctx, raw).await;
        }
    }
}

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

/// A request with tools that may be called.
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

async fn one_call<H: ProviderHarness>(ctx: &TestContext<H>, case: &Case, input: &Value) {
    let mut request = ask_with_tools();
    for chunk_chars in [1, 1000] {
        let case = case.step(format_args!("{chunk_chars} characters a delta"));
        let reply = Reply::tool_call("call_1", "look", input.clone())
            .with_text("Let me look.")
            .chunk_chars(chunk_chars);
        let response = ctx.both(&case, &request, reply).await;
        check_calls(ctx, &case, &response.message, &[("call_1", "look", input)]);
        case.equal("the text", response.message.text(), "Let me look.");
        case.equal("the reason to stop", response.stop_reason, StopReason::ToolUse);
        if chunk_chars > 1 {
            request.messages.push(response.message);
        }
    }
    let case = case.step("the way back");
    answer_calls(&mut request, false);
    for body in ctx.sent(&case, &request).await {
        check_returned(ctx, &case, &body, &request);
        case.holds(has_text(&body, "look"), "the name of the call is not in the body");
        case.holds(has_value(&body, input), "the arguments, in their order, are not in the body");
    }
}

async fn several_calls<H: ProviderHarness>(ctx: &TestContext<H>) {
    let case = ctx.case("several calls at once");
    let (paris, oslo, none) = (json!({"city": "Paris"}), json!({"city": "Oslo"}), json!({}));
    let calls = [("call_1", "look", &paris), ("call_2", "look", &oslo), ("call_3", "find", &none)];
    let reply = Reply::tool_calls(calls.map(|(id, name, input)| (id, name, input.clone())));
    let mut request = ask_with_tools();
    let response = ctx.both(&case, &request, reply.chunk_chars(4)).await;
    check_calls(ctx, &case, &response.message, &calls);
    request.messages.push(response.message);
    answer_calls(&mut request, false);
    let case = case.step("the way back");
    for body in ctx.sent(&case, &request).await {
        check_returned(ctx, &case, &body, &request);
        for (_, _, input) in calls {
            case.holds(has_value(&body, input), "the arguments of a call are not in the body");
        }
    }
}

async fn invalid_arguments<H: ProviderHarness>(ctx: &TestContext<H>, raw: &str) {
    let case = ctx.case(format_args!("the arguments {raw:?}"));
    let input = ToolCall::invalid_json_input(raw);
    for stop_reason in [StopReason::ToolUse, StopReason::MaxTokens] {
        if !ctx.can.stop_reasons.contains(&stop_reason) {
            continue;
        }
        let reply = Reply::tool_call("call_1", "look", input.clone()).stop_reason(stop_reason);
        let mut request = ask_with_tools();
        let response = ctx.both(&case, &request, reply.chunk_chars(3)).await;
        check_calls(ctx, &case, &response.message, &[("call_1", "look", &input)]);
        request.messages.push(response.message);
        answer_calls(&mut request, true);
        for body in ctx.sent(&case.step("the way back"), &request).await {
            check_returned(ctx, &case, &body, &request);
        }
    }
}

fn check_calls<H: ProviderHarness>(
    ctx: &TestContext<H>,
    case: &Case,
    message: &Message,
    expected: &[(&str, &str, &Value)],
) {
    let calls: Vec<_> = message.tool_uses().collect();
    case.equal("the number of tool calls", calls.len(), expected.len());
    for (call, (id, name, input)) in calls.iter().zip(expected) {
        case.equal("the tool's name", call.name, *name);
        // As text, so that the order counts.
        case.equal("the arguments", call.input.to_string(), input.to_string());
        match ctx.can.tool_call_ids {
            true => case.equal("the call's id", call.id, *id),
            false => {
                let count = calls.iter().filter(|other| other.id == call.id).count();
                case.equal("the number of calls with one id", count, 1);
            }
        }
    }
}

/// Appends a result for every call of the last message.
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

/// Checks that all results are in the body, and that they name their calls.
fn check_returned<H: ProviderHarness>(
    ctx: &TestContext<H>,
    case: &Case,
    body: &Value,
    request: &CompletionRequest,
) {
    let results = request.messages.last().into_iter().flat_map(|message| &message.content);
    for (index, result) in results.enumerate() {
        let text = result_text(index);
        case.holds(has_text(body, &text), format_args!("`{text}` is not in the body"));
        if ctx.can.tool_call_ids {
            let id = result.as_tool_result_id().unwrap_or_default();
            case.holds(has_text(body, id), format_args!("the id `{id}` is not in the body"));
        }
    }
}
