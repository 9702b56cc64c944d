//! Checks the reasoning, the token counts and the stop reason of responses.

use neuron_types::{Message, StopReason, TokenUsage};
use serde_json::json;

use super::ProviderHarness;
use super::context::{TestContext, ask, steady};
use super::json::has_text;
use super::meaning;
use super::tools::{answer_calls, ask_with_tools};
use neuron_testing::Reply;

const THOUGHT: &str = "Let me think: 日本 🦀, then \"answer\".";
const SIGNATURE: &str = "c2lnbmF0dXJlKz0vMQ==";

/// Checks that reasoning arrives, before a text and before a tool call. Covers whole responses and streams.
///
/// The next request must contain the unchanged reasoning.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn thinking<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "thinking").await;
    if !ctx.can.thinking {
        return;
    }
    let signed = ctx.can.signatures;
    let text = || Reply::text("It is 4.");
    let call = Reply::tool_call("callNum01", "look", json!({"a": 1}));
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
        let message = ctx.both(&case, request.view(), reply).await.message;
        case.equal("the reasoning", meaning::thinking(&message), thought);
        // A provider may store the signature in a raw block that has no portable signature.
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
        for body in ctx.sent(&case, request.view()).await {
            case.holds(has_text(&body, thought), "the reasoning is not in the next request");
            let is_signed = !signed || has_text(&body, SIGNATURE);
            case.holds(is_signed, "the signature is not in the next request");
        }
    }
}

/// Checks the token counts of whole responses and of streams. The count `input_tokens` must include cached tokens.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn usage<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "usage").await;
    let can = &ctx.can;
    for (name, input_tokens, output_tokens, [read, created, reasoning]) in [
        ("input and output", 21, 9, [None, None, None]),
        ("a large call", 3_000_000, 128_000, [None, None, None]),
        ("read from a cache", 21, 9, [Some(20), None, None]),
        ("written to a cache", 21, 9, [None, Some(21), None]),
        ("reasoning", 21, 9, [None, None, Some(7)]),
        ("all counts", 21, 9, [Some(12), Some(5), Some(8)]),
    ] {
        let case = ctx.case(name);
        let usage = TokenUsage {
            input_tokens,
            output_tokens,
            cache_read_tokens: read.filter(|_| can.cache_read_tokens),
            cache_creation_tokens: created.filter(|_| can.cache_creation_tokens),
            reasoning_tokens: reasoning.filter(|_| can.reasoning_tokens),
            ..TokenUsage::default()
        };
        let reply = steady(Reply::text("Hello.")).usage(usage);
        let usage = ctx.both_of(&case, ask().view(), reply.into()).await.usage;
        case.equal("input_tokens", usage.input_tokens, input_tokens);
        case.equal("output_tokens", usage.output_tokens, output_tokens);
        for (can, name, actual, expected) in [
            (can.cache_read_tokens, "cache_read_tokens", usage.cache_read_tokens, read),
            (
                can.cache_creation_tokens,
                "cache_creation_tokens",
                usage.cache_creation_tokens,
                created,
            ),
            (can.reasoning_tokens, "reasoning_tokens", usage.reasoning_tokens, reasoning),
        ] {
            // A provider may report a count of 0 as `None`.
            if can {
                case.equal(name, actual.unwrap_or(0), expected.unwrap_or(0));
            }
        }
    }
}

/// Checks every stop reason in [`Capabilities::stop_reasons`](super::Capabilities::stop_reasons), in whole responses
/// and in streams.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn stop_reasons<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "stop reasons").await;
    for reason in &ctx.can.stop_reasons {
        let case = ctx.case(format_args!("{reason:?}"));
        let (request, reply) = match reason {
            StopReason::ToolUse => {
                (ask_with_tools(), Reply::tool_call("callNum01", "look", json!({"a": 1})))
            }
            _ => (ask(), Reply::text("As far as it goes.")),
        };
        let reply = reply.stop_reason(reason.clone());
        let response = ctx.both(&case, request.view(), reply).await;
        case.equal("the reason", &response.stop_reason, reason);
    }
}
