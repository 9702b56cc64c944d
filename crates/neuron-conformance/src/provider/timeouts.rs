//! Checks the time limits for a whole response, for the beginning of a stream, and between two chunks of a stream.
//!
//! The limits are minutes long. The tests pause the clock instead of waiting, so they also pass on a slow machine.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join;
use neuron_types::{Provider, ProviderError};
use tokio::time::{Instant, sleep};

use super::context::{TestContext, Way, ask, key, text_answer};
use super::events::{check_broken, first_text};
use super::{ProviderHarness, Timeouts};
use crate::case::Case;
use neuron_testing::{RawServer, Reply};

const TIMEOUTS: Timeouts = Timeouts { connect: HOUR, whole: WHOLE, idle: IDLE };
const WHOLE: Duration = Duration::from_secs(600);
const IDLE: Duration = Duration::from_secs(300);
const HOUR: Duration = Duration::from_secs(3600);

/// Maximum time that a provider may wait for the body of an error response that the server does not complete.
const EXPLANATION: Duration = Duration::from_secs(10);

/// Time limit of a call while the clock is paused. Longer than every limit of the provider.
const HANGING: Duration = Duration::from_secs(24 * 3600);

/// Checks that a provider keeps the limits of [`ProviderHarness::provider_with_timeouts`].
///
/// [`Timeouts::whole`] applies to a whole response and to the beginning of a stream. [`Timeouts::idle`] applies between
/// two chunks of a stream. [`Timeouts::connect`] is not checked. The check does nothing if the harness returns `None`.
///
/// A complete stream whose body does not end must be a response at [`Timeouts::idle`] or earlier.
///
/// The check needs a current-thread runtime with a running clock, which is the default of `#[tokio::test]`.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn timeouts<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "timeouts").await;
    let provider =
        |url: String, timeouts| harness.provider_with_timeouts(&url, key(&ctx.can), timeouts);
    let Some(limited) = provider(ctx.server.url(), TIMEOUTS) else { return };
    for (number, name, way) in
        [(1, "no answer", Way::Whole), (2, "a stream that does not begin", Way::Streamed)]
    {
        let case = ctx.case(name);
        ctx.server.push(Reply::hang());
        let result = paused(&case, way.begin(&limited), ctx.server.wait_for_requests(number)).await;
        check_timeout(&case, &case.err(result), WHOLE);
    }
    streams(&ctx, &limited).await;

    let server = RawServer::bind().await;
    let Some(limited) = provider(server.url(), TIMEOUTS) else { return };
    half_answers(&ctx, &server, &limited).await;
    // This case is the last one of this server. Its connection is never accepted and would stay in the accept queue.
    let case = ctx.case("a server that only listens");
    let result = paused(&case, limited.complete(ask()), async {}).await;
    check_timeout(&case, &case.err(result), WHOLE);

    let case = ctx.case("the longest limits");
    let longest = Timeouts { whole: Duration::MAX, idle: Duration::MAX, ..TIMEOUTS };
    let Some(unlimited) = provider(ctx.server.url(), longest) else { return };
    for way in Way::BOTH {
        ctx.server.push("hello");
        case.ok(case.soon(way.answer(&unlimited)).await);
    }
}

/// A guard that pauses tokio's clock until it is dropped. A paused clock advances only when every task waits.
struct PausedClock {
    since: Instant,
}

impl PausedClock {
    /// Yields until the other tasks have received the sent bytes, then pauses the clock.
    async fn start() -> Self {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        Self { since: Instant::now() }
    }
}

impl Drop for PausedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

fn check_timeout(case: &Case, error: &ProviderError, limit: Duration) {
    let is_timeout = matches!(error, ProviderError::Timeout(after) if *after == limit);
    case.holds(is_timeout, format_args!("the error is {error:?} and not a timeout of {limit:?}"));
}

/// Runs the futures `call` and `ready` concurrently, and pauses the clock when `ready` completes. Returns the output of
/// `call`.
///
/// The output of `ready`, such as an open connection, is kept until `call` completes.
async fn paused<T, R>(
    case: &Case,
    call: impl Future<Output = T>,
    ready: impl Future<Output = R>,
) -> T {
    let ready = async {
        let kept = case.soon(ready).await;
        (PausedClock::start().await, kept)
    };
    let (result, _kept) = case.within(HANGING, join(call, ready)).await;
    result
}

/// Checks that a stream without further chunks fails after the idle limit. A slow stream may take longer than any limit
/// in total.
async fn streams<H: ProviderHarness>(ctx: &TestContext<'_, H>, provider: &H::Provider) {
    let case = ctx.case("a stream that stops");
    ctx.server.push(Reply::text("0123456789".repeat(10)).chunk_chars(1).hang_after(12));
    let mut handle = case.ok(case.soon(provider.complete_stream_ref(ask().view())).await);
    first_text(&case, &mut handle).await;
    let clock = PausedClock::start().await;
    let events = case.within(HANGING, handle.receiver.collect()).await;
    check_timeout(&case, &check_broken(&case, events).error, IDLE);
    drop(clock);

    // Each pause between events is shorter than the idle limit. Together they exceed the limit of a whole response.
    let case = ctx.case("a stream that takes longer than a whole answer may");
    ctx.server.push(Reply::text("hello").chunk_chars(1).event_delay(WHOLE / 3));
    let handle = case.ok(case.soon(provider.complete_stream_ref(ask().view())).await);
    let clock = PausedClock::start().await;
    let response = case.ok(case.within(HANGING, handle.into_response()).await);
    case.equal("the text", response.message.text(), "hello");
    drop(clock);
}

/// Checks the time limits for responses that the server begins and does not finish.
async fn half_answers<H: ProviderHarness>(
    ctx: &TestContext<'_, H>,
    server: &RawServer,
    provider: &H::Provider,
) {
    let case = ctx.case("half an answer");
    let half = server.respond(200, "application/json", 100, "{");
    let result = paused(&case, provider.complete(ask()), half).await;
    check_timeout(&case, &case.err(result), WHOLE);

    let case = ctx.case("an answer whose head and body are late");
    let late = async {
        let mut connection = server.request().await;
        let clock = PausedClock::start().await;
        sleep(WHOLE * 2 / 3).await;
        connection.head(200, "application/json", 2).await;
        sleep(WHOLE * 2 / 3).await;
        // The client must have closed the connection by now.
        connection.write_until_closed("{}").await;
        clock
    };
    let (result, clock) = case.within(HANGING, join(provider.complete(ask()), late)).await;
    drop(clock);
    check_timeout(&case, &case.err(result), WHOLE);

    let case = ctx.case("a stream whose body does not end");
    let bytes = ctx.stream_bytes(&case, &text_answer("hello")).await;
    let open = server.respond(200, ctx.stream_type(), bytes.len() + 1, &bytes);
    let response = paused(&case, Way::Streamed.answer(provider), open).await;
    case.equal("the text", case.ok(response).message.text(), "hello");

    let case = ctx.case("half a page in place of a stream");
    let half = server.respond(200, "text/html", 100, "<title>half");
    let result = paused(&case, provider.complete_stream(ask()), half).await;
    case.mentions(case.err(result), "<title>half");

    // The status of an error is known, so the provider waits only briefly for its body. A retry must not wait for a
    // server that has stopped.
    let case = ctx.case("an error whose body stops");
    let half = server.respond(401, "text/plain", 100, "who are");
    let error = case.err(paused(&case, provider.complete(ask()), half).await);
    case.equal("the error's kind", error.kind(), "Authentication");
    case.mentions(error, "who are");

    let case = ctx.case("an error without the body that it promises");
    let half = async {
        let connection = server.respond(429, "text/plain", 100, "").await;
        (PausedClock::start().await, connection)
    };
    let (result, (clock, _open)) = case.within(HANGING, join(provider.complete(ask()), half)).await;
    let waited = clock.since.elapsed();
    case.equal("the error's kind", case.err(result).kind(), "RateLimit");
    case.holds(waited <= EXPLANATION, format_args!("its body was waited for: {waited:?}"));
}
