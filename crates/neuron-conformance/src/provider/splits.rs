//! Bytes that are split anywhere.

use neuron_types::{CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage};
use serde_json::json;

use super::context::TestContext;
use super::events::check_events;
use super::tools::ask_with_tools;
use super::{Capabilities, ProviderHarness};
use neuron_testing::{Reply, Wire};

/// Checks that an answer is the same however its bytes are split and written: streams at every
/// byte, and in single bytes.
///
/// # Panics
///
/// At the first violation.
pub async fn splits<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "splits").await;
    let (request, answer) = (ask_with_tools(), small_answer(&ctx.can));
    let case = ctx.case("the answer");
    let length = ctx.frames(&case, &request, &answer).await.concat().len();
    let expected = case.ok(ctx.whole(&case, &request, answer.clone()).await);
    let expected = ctx.meaning(&expected);

    let wire = Wire::default;
    let forms = [
        ("with CR LF", wire().crlf()),
        ("without spaces", wire().no_space()),
        ("with comments", wire().comments()),
        ("with padding", wire().padded()),
    ];
    let every = |(name, wire): (&str, Wire)| {
        [1, 2, 3, 7].map(|bytes| {
            (format!("split every {bytes} bytes, {name}"), wire.clone().split_every(bytes))
        })
    };
    let pieces = every(("as usual", wire()));
    let streams = positions(length)
        .map(|bytes| (format!("split after {bytes} of {length} bytes"), wire().split_at(bytes)))
        .chain(pieces.clone())
        .chain(forms.clone().map(|(name, wire)| (name.to_owned(), wire)))
        .chain(forms.into_iter().flat_map(every));
    for (how, wire) in streams {
        let case = ctx.case(format_args!("a stream {how}"));
        let reply = Reply::from(answer.clone()).over(wire);
        let events = case.ok(ctx.streamed(&case, &request, reply).await);
        let response = check_events(&case, events);
        case.equal("the answer", ctx.meaning(&response), expected.clone());
    }
    for (how, wire) in pieces {
        let case = ctx.case(format_args!("a whole answer {how}"));
        let reply = Reply::from(answer.clone()).over(wire);
        let response = case.ok(ctx.whole(&case, &request, reply).await);
        case.equal("the answer", ctx.meaning(&response), expected.clone());
    }
}

/// Where to split or cut so many bytes: everywhere, but for the middle of a long stream, which some
/// vendors make by repeating the request. A prime steps through it, so that no form is skipped.
pub(super) fn positions(length: usize) -> impl Iterator<Item = usize> {
    const EDGE: usize = 1000;
    const STEP: usize = 5;
    let is_edge = move |at: usize| at < EDGE || at + EDGE > length;
    (0..length).filter(move |at| length < 5 * EDGE || is_edge(*at) || at % STEP == 0)
}

/// An answer of everything, and small: every byte of it costs a call.
pub(super) fn small_answer(can: &Capabilities) -> CompletionResponse {
    let signature = if can.signatures { "c2ln" } else { "" };
    let thinking = ContentBlock::Thinking { thinking: "hm é".into(), signature: signature.into() };
    let content = can.thinking.then_some(thinking).into_iter().chain([
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse {
            id: "call_1".into(),
            name: "look".into(),
            input: json!({"é": ["\"\n"]}),
        },
    ]);
    CompletionResponse {
        id: "answer_1".into(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content: content.collect() },
        usage: TokenUsage { input_tokens: 50, output_tokens: 9, ..TokenUsage::default() },
        stop_reason: StopReason::ToolUse,
    }
}
