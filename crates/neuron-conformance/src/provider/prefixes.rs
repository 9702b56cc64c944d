//! A conversation that grows: vendors' caches need the bytes of the turn before at its beginning.

use neuron_types::{CompletionRequest, Message};
use serde_json::json;

use super::ProviderHarness;
use super::context::TestContext;
use super::json::field_text;
use super::tools::{answer_calls, ask_with_tools};
use crate::case::{Case, shown};
use neuron_testing::Reply;

/// Checks that the conversation of a turn begins with the bytes of the turn before, that the tools
/// stay as they are, and that a streamed request has the same bytes as a whole one.
///
/// # Panics
///
/// At the first violation.
pub async fn prefixes<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "prefixes").await;
    let signature = if ctx.can.signatures { "c2lnbmVk" } else { "" };
    let think = |reply: Reply| match ctx.can.thinking {
        true => reply.thinking("Hm, 日本.", signature),
        false => reply,
    };
    let replies = [
        think(Reply::tool_call("call_1", "look", json!({"z": 1, "a": [0.1, "é"]}))),
        think(Reply::tool_call("call_2", "find", json!({})).with_text("And now?")),
        think(Reply::text("Here you are: \"22 °C\".")),
        Reply::text("You are welcome."),
    ];
    let mut request = CompletionRequest { system: Some("be kind".into()), ..ask_with_tools() };
    let mut before: Option<Sent> = None;
    for (turn, reply) in replies.into_iter().enumerate() {
        let case = ctx.case(format_args!("turn {}", turn + 1));
        let response = ctx.both(&case, &request, reply).await;
        let [sent, streamed] = ctx
            .last_requests(&case)
            .map(|sent| Sent::of(&case, &sent.body, ctx.can.conversation_field));
        case.equal("what a streamed request sends", &streamed, &sent);
        if let Some(before) = &before {
            case.equal("the tools", &sent.tools, &before.tools);
            let (now, begins) = (&sent.conversation, &before.conversation);
            // Without the end of the list.
            let is_prefix = now.starts_with(begins.strip_suffix(']').unwrap_or(begins).trim_end());
            let (now, begins) = (shown(now), shown(begins));
            let what = format_args!("the conversation {now}\n  does not begin with {begins}");
            case.holds(is_prefix, what);
        }
        before = Some(sent);
        let calls_tools = response.message.tool_uses().next().is_some();
        request.messages.push(response.message);
        match calls_tools {
            true => answer_calls(&mut request, turn > 0),
            false => request.messages.push(Message::user("thanks")),
        }
    }
}

/// What caches look at.
#[derive(Debug, PartialEq)]
struct Sent {
    conversation: String,
    tools: Option<String>,
}

impl Sent {
    fn of(case: &Case, body: &[u8], field: &str) -> Self {
        let what = format!("the body has no field `{field}`");
        let conversation = case.some(&what, field_text(body, field)).to_owned();
        let is_list = conversation.starts_with('[') && conversation.ends_with(']');
        case.holds(is_list, format_args!("`{field}` is no list"));
        Self { conversation, tools: field_text(body, "tools").map(str::to_owned) }
    }
}
