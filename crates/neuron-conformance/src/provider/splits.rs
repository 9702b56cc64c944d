//! Checks responses whose bytes are split at every position, and responses that are cut at every position.

use neuron_types::{
    CompletionResponse, ContentBlock, Message, Role, StopReason, StreamEvent, TokenUsage,
};
use serde_json::json;

use super::context::TestContext;
use super::events::{check_broken, check_events};
use super::tools::ask_with_tools;
use super::{Capabilities, ProviderHarness};
use neuron_testing::{Reply, Wire};

/// Checks that the decoded response does not depend on how its bytes are formatted and split into chunks.
///
/// Streams are split in two at every byte, and are also sent in chunks of 1, 2, 3 and 7 bytes. Other streams have
/// unusual line ends, spaces, comments and padding.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn splits<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "splits").await;
    let (request, answer) = (ask_with_tools(), small_answer(&ctx.can));
    let case = ctx.case("the answer");
    let length = ctx.frames(&case, request.view(), &answer).await.concat().len();
    let expected = case.ok(ctx.whole(&case, request.view(), answer.clone()).await);
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
    let reply = |wire| Reply::from(answer.clone()).over(wire);
    for (how, wire) in streams {
        let case = ctx.case(format_args!("a stream {how}"));
        let events = case.ok(ctx.streamed(&case, request.view(), reply(wire)).await);
        let response = check_events(&case, events);
        case.equal("the answer", &ctx.meaning(&response), &expected);
    }
    for (how, wire) in pieces {
        let case = ctx.case(format_args!("a whole answer {how}"));
        let response = case.ok(ctx.whole(&case, request.view(), reply(wire)).await);
        case.equal("the answer", &ctx.meaning(&response), &expected);
    }
}

/// Checks that a response that is cut at any byte is an error, for whole responses and for streams.
///
/// At the cut, either the connection breaks or the body ends normally. The error may be retryable only for a whole
/// response whose connection broke.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn cuts<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "cuts").await;
    let (request, answer) = (ask_with_tools(), small_answer(&ctx.can));
    let reply = |wire| Reply::from(answer.clone()).over(wire);
    let case = ctx.case("the answer");
    let expected = case.ok(ctx.whole(&case, request.view(), answer.clone()).await);
    let expected = ctx.meaning(&expected);

    let body = ctx.body(&case, request.view(), &answer).await;
    // A body without its trailing white space is complete.
    let needed = body.trim_ascii_end().len();
    for bytes in 0..needed {
        for ((how, wire), kind) in cuts_at(bytes).into_iter().zip(["Network", "Other"]) {
            let case =
                ctx.case(format_args!("a whole answer {how} after {bytes} of {needed} bytes"));
            let error = case.err(ctx.whole(&case, request.view(), reply(wire)).await);
            case.equal("the error's kind", error.kind(), kind);
        }
    }
    let case = ctx.case("a whole answer that is not cut");
    let whole = reply(Wire::default().end_at(body.len()));
    let response = case.ok(ctx.whole(&case, request.view(), whole).await);
    case.equal("the answer", &ctx.meaning(&response), &expected);

    let mut frames = ctx.frames(&case, request.view(), &answer).await;
    let length = frames.concat().len();
    frames.truncate(frames.len().saturating_sub(ctx.can.optional_frames));
    let needed = frames.concat().trim_ascii_end().len();
    for bytes in positions(length) {
        for (how, wire) in cuts_at(bytes) {
            let case = ctx.case(format_args!("a stream {how} after {bytes} of {length} bytes"));
            // A provider may wait for the first event before it returns a stream, and then returns the error itself.
            let Ok(events) = ctx.streamed(&case, request.view(), reply(wire)).await else {
                continue;
            };
            let is_error = matches!(events.last(), Some(StreamEvent::Error(_)));
            if bytes >= needed && !is_error {
                let meaning = ctx.meaning(&check_events(&case, events));
                case.equal("the message", &meaning.message, &expected.message);
            } else {
                // A stream error is not retryable, because the user may have seen text already.
                let error = check_broken(&case, events).error;
                case.equal("the error's kind", error.kind(), "StreamError");
            }
        }
    }
    let case = ctx.case("a stream that is not cut");
    let whole = reply(Wire::default().end_at(length));
    let events = case.ok(ctx.streamed(&case, request.view(), whole).await);
    case.equal("the answer", ctx.meaning(&check_events(&case, events)), expected);
}

/// Returns two ways to cut a body after `bytes` bytes. Either the connection breaks or the body ends normally. Each way
/// has a name for the panic message.
fn cuts_at(bytes: usize) -> [(&'static str, Wire); 2] {
    [("broken off", Wire::default().cut_at(bytes)), ("ended", Wire::default().end_at(bytes))]
}

/// Returns the positions at which to split or cut a body of `length` bytes.
///
/// In the middle of a body of 5000 bytes or more, only every fifth position is used to save time.
fn positions(length: usize) -> impl Iterator<Item = usize> {
    const EDGE: usize = 1000;
    const STEP: usize = 5;
    let is_edge = move |at: usize| at < EDGE || at + EDGE > length;
    (0..length).filter(move |at| length < 5 * EDGE || is_edge(*at) || at % STEP == 0)
}

/// Returns a response with reasoning, a text and a tool call. The response is small because every byte costs several
/// calls.
fn small_answer(can: &Capabilities) -> CompletionResponse {
    let signature = if can.signatures { "c2ln" } else { "" };
    let thinking = ContentBlock::Thinking { thinking: "hm é".into(), signature: signature.into() };
    let content = can.thinking.then_some(thinking).into_iter().chain([
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse {
            id: "callNum01".into(),
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
