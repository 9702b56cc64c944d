//! Answers that are cut: each is an error, and never a shorter answer.

use neuron_types::CompletionResponse;

use super::ProviderHarness;
use super::bench::Bench;
use super::events::{check_broken, check_events};
use super::splits::{positions, small_answer};
use super::tools::ask_with_tools;
use crate::conformance::case::Case;
use crate::{Reply, Wire};

/// Checks that an answer that is cut at any byte is an error, whole and streamed, whether the
/// connection breaks there or the answer ends as if that were all.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn cuts<H: ProviderHarness>(harness: &H) {
    let bench = Bench::start(harness, "cuts").await;
    let answer = small_answer(&bench.can);
    whole_answers(&bench, &answer).await;
    streams(&bench, &answer).await;
}

/// Both ways to cut at a byte, and what to call them.
fn cuts_at(bytes: usize) -> [(&'static str, Wire); 2] {
    [("broken off", Wire::default().cut_at(bytes)), ("ended", Wire::default().end_at(bytes))]
}

async fn whole_answers<H: ProviderHarness>(bench: &Bench<H>, answer: &CompletionResponse) {
    let request = ask_with_tools();
    let case = bench.case("the whole answer");
    let body = bench.body(&case, &request, answer).await;
    // White space at the end means nothing.
    let needed = body.trim_ascii_end().len();
    for bytes in 0..needed {
        for (how, wire) in cuts_at(bytes) {
            let case =
                bench.case(format_args!("a whole answer {how} after {bytes} of {needed} bytes"));
            let reply = Reply::from(answer.clone()).over(wire);
            case.err(bench.whole(&case, &request, reply).await);
        }
    }
    let case = bench.case("a whole answer that is not cut");
    let reply = Reply::from(answer.clone()).over(Wire::default().end_at(body.len()));
    let response = case.ok(bench.whole(&case, &request, reply).await);
    let expected = case.ok(bench.whole(&case, &request, answer.clone()).await);
    case.equal("the answer", bench.meaning(&response), bench.meaning(&expected));
}

async fn streams<H: ProviderHarness>(bench: &Bench<H>, answer: &CompletionResponse) {
    let request = ask_with_tools();
    let case = bench.case("the stream");
    let mut frames = bench.frames(&case, &request, answer).await;
    let length = frames.concat().len();
    frames.truncate(frames.len().saturating_sub(bench.can.optional_frames));
    let needed = frames.concat().trim_ascii_end().len();
    let expected = case.ok(bench.whole(&case, &request, answer.clone()).await);
    let expected = bench.meaning(&expected);
    for bytes in positions(length) {
        for (how, wire) in cuts_at(bytes) {
            let case = bench.case(format_args!("a stream {how} after {bytes} of {length} bytes"));
            let reply = Reply::from(answer.clone()).over(wire);
            let events = match bench.streamed(&case, &request, reply).await {
                Ok(events) => events,
                // The provider waits for the first event before it says that there is a stream.
                Err(_) => continue,
            };
            let is_error = matches!(events.last(), Some(neuron_types::StreamEvent::Error(_)));
            if bytes >= needed && !is_error {
                let response = check_events(&case, events);
                let meaning = bench.meaning(&response);
                case.equal("the message", meaning.message, expected.message.clone());
            } else {
                let broken = check_broken(&case, events);
                check_kind(&case, broken);
            }
        }
    }
    let case = bench.case("a stream that is not cut");
    let reply = Reply::from(answer.clone()).over(Wire::default().end_at(length));
    let events = case.ok(bench.streamed(&case, &request, reply).await);
    let response = check_events(&case, events);
    case.equal("the answer", bench.meaning(&response), expected);
}

/// What was shown cannot be taken back: the call must not look as if it could be repeated.
fn check_kind(case: &Case, broken: super::events::Broken) {
    if broken.was_shown {
        case.equal("the error's kind", broken.error.kind(), "StreamError");
    }
}
