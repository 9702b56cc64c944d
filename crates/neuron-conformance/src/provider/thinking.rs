//! Reasoning: it arrives, and goes back as it came.

use serde_json::json;

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::json::has_text;
use super::meaning;
use super::tools::{answer_calls, ask_with_tools};
use neuron_testing::Reply;
use neuron_types::Message;

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
    let signed = ctx.can.signatures;
    let text = || Reply::text("It is 4.");
    let call = Reply::tool_call("call_1", "look", json!({"a": 1}));
    for (name, reply, thought) in [
        ("before a text", text().chunk_chars(5), THOUGHT),
        ("before a tool call", call, THOUGHT),
        ("a signature without a text", text(), ""),
    ] {
        if thought.is_empty() && !signed {
            continue;
        }
        let case = ctx.case(name);
        let calls_tool = name == "before a tool call";
        let mut request = if calls_tool { ask_with_tools() } else { ask() };
        let reply = reply.thinking(thought, if signed { SIGNATURE } else { "" });
        let message = ctx.both(&case, &request, reply).await.message;
        case.equal("the reasoning", meaning::thinking(&message), thought);
        // A raw block may keep it where only its own provider looks.
        if let Some(signature) = meaning::signature(&message) {
            case.holds(signed, "a signature came from nowhere");
            case.equal("the signature", signature, SIGNATURE);
        }
        case.equal("the text", message.text().as_str(), if calls_tool { "" } else { "It is 4." });
        case.equal("the number of calls", message.tool_uses().count(), usize::from(calls_tool));
        request.messages.push(message);
        match calls_tool {
            true => answer_calls(&mut request, false),
            false => request.messages.push(Message::user("and then?")),
        }
        if !ctx.can.thinking_returns {
            continue;
        }
        for body in ctx.sent(&case, &request).await {
            case.holds(has_text(&body, thought), "the reasoning is not in the next request");
            let is_signed = !signed || has_text(&body, SIGNATURE);
            case.holds(is_signed, "the signature is not in the next request");
        }
    }
}
