//! Reasoning: it arrives, and goes back as it came.

use serde_json::json;

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::json::has_text;
use super::meaning;
use super::tools::{answer_calls, ask_with_tools};
use crate::case::Case;
use neuron_testing::Reply;
use neuron_types::{CompletionResponse, Message};

const THOUGHT: &str = "Let me think: 日本 🦀, then \"answer\".";
const SIGNATURE: &str = "c2lnbmF0dXJlKz0vMQ==";

/// Checks reasoning before a text and before a tool call, on both ways.
///
/// # Panics
///
/// At the first violation.
pub async fn thinking<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "thinking").await;
    if !ctx.can.thinking {
        return;
    }
    let signature = if ctx.can.signatures { SIGNATURE } else { "" };

    let case = ctx.case("before a text");
    let mut request = ask();
    let reply = Reply::text("It is 4.").thinking(THOUGHT, signature).chunk_chars(5);
    let response = ctx.both(&case, &request, reply).await;
    check(&ctx, &case, &response, THOUGHT);
    case.equal("the text", response.message.text(), "It is 4.");
    request.messages.extend([response.message, Message::user("and then?")]);
    for body in ctx.sent(&case, &request).await {
        check_returned(&ctx, &case, &body, THOUGHT);
    }

    let case = ctx.case("before a tool call");
    let mut request = ask_with_tools();
    let reply = Reply::tool_call("call_1", "look", json!({"a": 1})).thinking(THOUGHT, signature);
    let response = ctx.both(&case, &request, reply).await;
    check(&ctx, &case, &response, THOUGHT);
    case.equal("the number of tool calls", response.message.tool_uses().count(), 1);
    request.messages.push(response.message);
    answer_calls(&mut request, false);
    for body in ctx.sent(&case, &request).await {
        check_returned(&ctx, &case, &body, THOUGHT);
    }

    if ctx.can.signatures {
        let case = ctx.case("a signature without a text");
        let mut request = ask();
        let reply = Reply::text("It is 4.").thinking("", signature);
        let response = ctx.both(&case, &request, reply).await;
        check(&ctx, &case, &response, "");
        request.messages.extend([response.message, Message::user("and then?")]);
        for body in ctx.sent(&case, &request).await {
            check_returned(&ctx, &case, &body, "");
        }
    }
}

fn check<H: ProviderHarness>(
    ctx: &TestContext<H>,
    case: &Case,
    response: &CompletionResponse,
    thought: &str,
) {
    case.equal("the reasoning", meaning::thinking(&response.message), thought);
    // A raw block may keep it where only its own provider looks.
    if let Some(signature) = meaning::signature(&response.message) {
        case.holds(ctx.can.signatures, "a signature came from nowhere");
        case.equal("the signature", signature, SIGNATURE);
    }
}

fn check_returned<H: ProviderHarness>(
    ctx: &TestContext<H>,
    case: &Case,
    body: &serde_json::Value,
    thought: &str,
) {
    if ctx.can.thinking_returns {
        case.holds(has_text(body, thought), "the reasoning is not in the next request");
        let signed = !ctx.can.signatures || has_text(body, SIGNATURE);
        case.holds(signed, "the signature is not in the next request");
    }
}
