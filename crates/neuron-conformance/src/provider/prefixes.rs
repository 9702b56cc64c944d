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
        let streamed = case.ok(ctx.streamed(&case, &request, reply.clone()).await);
        super::events::check_events(&case, streamed);
        let streamed = ctx.sent_fields(&case);
        let response = case.ok(ctx.whole(&case, &request, reply).await);
        let sent = ctx.sent_fields(&case);
        case.equal("what a streamed request sends", &streamed, &sent);
        if let Some(before) = &before {
            case.equal("the tools", &sent.tools, &before.tools);
            let (now, begins) = (&sent.conversation, &before.conversation);
            if !now.starts_with(open(begins)) {
                let (now, begins) = (shown(now), shown(begins));
                case.fail(format_args!("the conversation {now}\n  does not begin with {begins}"));
            }
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

impl<H: ProviderHarness> TestContext<H> {
    fn sent_fields(&self, case: &Case) -> Sent {
        let body = self.last_request(case).body;
        let field = self.can.conversation_field;
        let what = format!("the body has no field `{field}`");
        let conversation = case.some(&what, field_text(&body, field)).to_owned();
        let is_list = conversation.starts_with('[') && conversation.ends_with(']');
        case.holds(is_list, format_args!("`{field}` is no list"));
        Sent { conversation, tools: field_text(&body, "tools").map(str::to_owned) }
    }
}

/// A list without its end.
fn open(list: &str) -> &str {
    list.strip_suffix(']').unwrap_or(list).trim_end()
}
