//! Answers that are cut: each is an error, and never a shorter answer.

use neuron_types::CompletionResponse;

use super::ProviderHarness;
use super::context::TestContext;
use super::events::{check_broken, check_events};
use super::splits::{positions, small_answer};
use super::tools::ask_with_tools;
use neuron_testing::{Reply, Wire};

/// Checks that an answer that is cut at any byte is an error, whole and streamed, whether the
/// connection breaks there or the answer ends as if that were all. Only a connection that broke
/// within a whole answer may be retried.
///
/// # Panics
///
/// At the first violation.
pub async fn cuts<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "cuts").await;
    let answer = small_answer(&ctx.can);
    whole_answers(&ctx, &answer).await;
    streams(&ctx, &answer).await;
}

/// Both ways to cut at a byte, and what to call them.
fn cuts_at(bytes: usize) -> [(&'static str, Wire); 2] {
    [("broken off", Wire::default().cut_at(bytes)), ("ended", Wire::default().end_at(bytes))]
}

async fn whole_answers<H: ProviderHarness>(ctx: &TestContext<H>, answer: &CompletionResponse) {
    let request = ask_with_tools();
    let case = ctx.case("the whole answer");
    let body = ctx.body(&case, &request, answer).await;
    // White space at the end means nothing.
    let needed = body.trim_ascii_end().len();
    for bytes in 0..needed {
        for ((how, wire), kind) in cuts_at(bytes).into_iter().zip(["Network", "Other"]) {
            let case =
                ctx.case(format_args!("a whole answer {how} after {bytes} of {needed} bytes"));
            let reply = Reply::from(answer.clone()).over(wire);
            let error = case.err(ctx.whole(&case, &request, reply).await);
            case.equal("the error's kind", error.kind(), kind);
        }
    }
    let case = ctx.case("a whole answer that is not cut");
    let reply = Reply::from(answer.clone()).over(Wire::default().end_at(body.len()));
    let response = case.ok(ctx.whole(&case, &request, reply).await);
    let expected = case.ok(ctx.whole(&case, &request, answer.clone()).await);
    case.equal("the answer", ctx.meaning(&response), ctx.meaning(&expected));
}

async fn streams<H: ProviderHarness>(ctx: &TestContext<H>, answer: &CompletionResponse) {
    let request = ask_with_tools();
    let case = ctx.case("the stream");
    let mut frames = ctx.frames(&case, &request, answer).await;
    let length = frames.concat().len();
    frames.truncate(frames.len().saturating_sub(ctx.can.optional_frames));
    let needed = frames.concat().trim_ascii_end().len();
    let expected = case.ok(ctx.whole(&case, &request, answer.clone()).await);
    let expected = ctx.meaning(&expected);
    for bytes in positions(length) {
        for (how, wire) in cuts_at(bytes) {
            let case = ctx.case(format_args!("a stream {how} after {bytes} of {length} bytes"));
            let reply = Reply::from(answer.clone()).over(wire);
            let events = match ctx.streamed(&case, &request, reply).await {
                Ok(events) => events,
                // The provider waits for the first event before it says that there is a stream.
                Err(_) => continue,
            };
            let is_error = matches!(events.last(), Some(neuron_types::StreamEvent::Error(_)));
            if bytes >= needed && !is_error {
                let response = check_events(&case, events);
                let meaning = ctx.meaning(&response);
                case.equal("the message", meaning.message, expected.message.clone());
            } else {
                // Not retryable: text may have been shown.
                let error = check_broken(&case, events).error;
                case.equal("the error's kind", error.kind(), "StreamError");
            }
        }
    }
    let case = ctx.case("a stream that is not cut");
    let reply = Reply::from(answer.clone()).over(Wire::default().end_at(length));
    let events = case.ok(ctx.streamed(&case, &request, reply).await);
    let response = check_events(&case, events);
    case.equal("the answer", ctx.meaning(&response), expected);
}
