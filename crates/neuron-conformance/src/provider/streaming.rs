//! Checks the events of a stream, when they arrive, and that a slow reader slows the server down.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use neuron_types::{Provider, StreamEvent};
use tokio::sync::oneshot;

use super::ProviderHarness;
use super::context::{TestContext, ask, text_answer};
use super::events::check_events;
use neuron_testing::vendor::Vendor;
use neuron_testing::{Reply, ServerReply};

/// Number of text deltas in the long stream.
const EVENTS: usize = 10_000;

/// Checks that a stream returns each event as soon as the event arrives. The provider must not read ahead of a slow
/// reader.
///
/// Dropping the future of [`recv`](neuron_types::StreamReceiver::recv) must lose no event. The provider must accept a
/// content type with parameters, in upper or lower case, and a missing content type.
///
/// The check needs a current-thread runtime with a running clock, which is the default of `#[tokio::test]`.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn streaming<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "streaming").await;
    first_text(&ctx).await;

    let case = ctx.case(format_args!("{EVENTS} events"));
    let text = "0123456789".repeat(EVENTS / 10);
    let reply = Reply::text(text.clone()).chunk_chars(1);
    let events = case.ok(ctx.streamed(&case, ask().view(), reply).await);
    let deltas = events.iter().filter(|event| matches!(event, StreamEvent::TextDelta(_)));
    case.equal("the number of pieces of text", deltas.count(), EVENTS);
    case.equal("the text", check_events(&case, events).message.text(), text);

    let bytes = ctx.stream_bytes(&ctx.case("the stream"), &text_answer("hello")).await;
    let plain = ctx.stream_type().split(';').next().unwrap_or_default();
    let forms = [plain.to_owned(), format!("{plain}; charset=utf-8"), plain.to_uppercase()];
    for content_type in forms.into_iter().map(Some).chain([None]) {
        let case = ctx.case(format_args!("the content type {content_type:?}"));
        let headers = content_type.map(|content_type| ("content-type", content_type));
        let reply = ServerReply::raw(200, headers, bytes.clone());
        let events = case.ok(ctx.streamed(&case, ask().view(), reply).await);
        case.equal("the text", check_events(&case, events).message.text(), "hello");
    }

    // A reader in a `select!` drops its wait if another branch is ready.
    let case = ctx.case("waits that are dropped");
    let text = "0123456789".repeat(10);
    ctx.server.push(Reply::text(text).chunk_chars(1));
    let mut handle = case.ok(case.soon(ctx.provider.complete_stream(ask())).await);
    let read = async {
        let mut events = Vec::new();
        loop {
            match handle.receiver.recv().now_or_never() {
                Some(Some(event)) => events.push(event),
                Some(None) => return events,
                None => tokio::task::yield_now().await,
            }
        }
    };
    check_events(&case, case.soon(read).await);

    slow_reader(&ctx).await;
}

/// Checks that the provider returns the first text before the server sends the remaining events.
async fn first_text<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    const FIRST: &str = "the first text, ";
    let case = ctx.case("the first text");
    let answer = text_answer(format!("{FIRST}and the others.."));
    let frames = ctx.frames(&case, ask().view(), &answer).await;
    let is_first = |frame: &Vec<u8>| String::from_utf8_lossy(frame).contains(FIRST);
    let at = case.some("the stream has no text", frames.iter().position(is_first));
    let (first, rest) = frames.split_at(at + 1);
    let (server, provider) = ctx.raw().await;
    let (seen, was_seen) = oneshot::channel();
    let serve = async {
        let (length, first) = (frames.concat().len(), first.concat());
        let mut connection = server.respond(200, ctx.stream_type(), length, first).await;
        case.ok(was_seen.await);
        connection.write(rest.concat()).await;
    };
    let read = async {
        let mut handle = case.ok(provider.complete_stream(ask()).await);
        super::events::first_text(&case, &mut handle).await;
        case.holds(seen.send(()).is_ok(), "the server is gone");
        case.ok(handle.into_response().await)
    };
    let (response, ()) = case.soon(join(read, serve)).await;
    case.equal("the text", response.message.text(), answer.message.text());
}

/// Checks that the provider does not buffer a whole stream of 48 MiB while its reader takes only one event.
async fn slow_reader<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    let case = ctx.case("a slow reader");
    // Larger than the buffers of client, server and kernel together.
    let answer = text_answer("x".repeat(48 * 1024 * 1024));
    ctx.stream_bytes(&case, &text_answer("hello")).await;
    let bytes = ctx.answering(&case, &answer, |vendor, mut answer| {
        answer.chunk_chars = 256 * 1024;
        vendor.frames(&answer).concat()
    });
    let (server, provider) = ctx.raw().await;
    let stream_type = ctx.stream_type();
    let mut writing =
        tokio::spawn(async move { server.respond(200, stream_type, bytes.len(), &bytes).await });
    let mut handle = case.ok(case.soon(provider.complete_stream(ask())).await);
    super::events::first_text(&case, &mut handle).await;

    // A paused clock advances only when every task waits, so a slow machine does not fail the test.
    tokio::time::pause();
    let written = tokio::time::timeout(Duration::from_secs(1), &mut writing).await;
    case.holds(written.is_err(), "everything was read, and the reader took one event");
    tokio::time::resume();

    let response = case.ok(case.soon(handle.into_response()).await);
    case.holds(response.message.text() == answer.message.text(), "the text is another");
    case.ok(case.soon(writing).await);
}
