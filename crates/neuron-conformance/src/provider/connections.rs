//! Checks that a provider reuses connections, replaces closed connections, and closes the connection of a dropped call.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, join, join_all, select};
use neuron_types::Provider;

use super::ProviderHarness;
use super::context::{TestContext, Way, ask, steady, text_answer};
use super::events::first_text;
use neuron_testing::Reply;
use neuron_testing::vendor::VendorServerBuilder;

/// Number of concurrent calls in [`concurrency`].
const CALLS: usize = 12;

/// Number of concurrent tasks in [`reused_by_tasks`].
const TASKS: usize = 100;

/// Checks that a connection is reused after a whole response, a stream or an error. A connection that the server closed
/// must be replaced.
///
/// A stream must be complete after its last event, even if the server does not end the body. [`timeouts`](super::timeouts)
/// checks a vendor without a [last event](super::Capabilities::last_event).
///
/// # Panics
///
/// Panics at the first violation.
pub async fn connections<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "connections").await;
    for round in 1..=3 {
        let case = ctx.case(format_args!("round {round}"));
        let step = case.step("a whole answer");
        step.ok(ctx.whole(&step, ask().view(), "hello").await);
        step.equal("the number of connections", ctx.server.connections(), 1);
        let step = case.step("a stream");
        step.ok(ctx.streamed(&step, ask().view(), "hello").await);
        step.equal("the number of connections", ctx.server.connections(), 1);
        ctx.failed(&case, neuron_types::ProviderError::InvalidRequest("no".into())).await;
        case.equal("the number of connections after errors", ctx.server.connections(), 1);
    }
    for way in Way::BOTH {
        reused_by_tasks(harness, way).await;
    }

    let answer = text_answer("hello");
    let body = ctx.body(&ctx.case("the answer"), ask().view(), &answer).await;
    let (server, provider) = ctx.raw().await;
    for round in 1..=10 {
        let case = ctx.case(format_args!("a connection that the server closed, round {round}"));
        let serve =
            async { drop(server.respond(200, "application/json", body.len(), &body).await) };
        let (response, ()) = case.soon(join(Way::Whole.answer(&provider), serve)).await;
        case.equal("the text", case.ok(response).message.text(), "hello");
    }

    if !ctx.can.last_event {
        return;
    }
    let case = ctx.case("a stream whose body does not end");
    let bytes = ctx.stream_bytes(&case, &answer).await;
    let (server, provider) = ctx.raw().await;
    let serve = server.respond(200, ctx.stream_type(), bytes.len() + 1, &bytes);
    let (response, _open) = case.soon(join(Way::Streamed.answer(&provider), serve)).await;
    case.equal("the text", case.ok(response).message.text(), "hello");
}

/// Checks that each of many tasks reuses the connection of its first call for a second call that follows immediately.
async fn reused_by_tasks<H: ProviderHarness>(harness: &H, way: Way) {
    let gather = |builder: VendorServerBuilder<_>| builder.gather(TASKS);
    let ctx = TestContext::start_with(harness, "connections", gather).await;
    let case = ctx.case(format_args!("{TASKS} tasks that call twice, {way:?}"));
    (0..2 * TASKS).for_each(|_| ctx.server.push("hello"));
    let provider = Arc::new(ctx.provider);
    let tasks = (0..TASKS).map(|_| {
        let provider = Arc::clone(&provider);
        // Each pair of calls runs in its own task, so the runtime schedules it separately from the task that returns
        // the connection to the pool.
        tokio::spawn(async move {
            way.answer(&*provider).await?;
            way.answer(&*provider).await
        })
    });
    for task in case.soon(join_all(tasks)).await {
        case.ok(case.ok(task));
    }
    case.equal("the number of connections", ctx.server.connections(), TASKS);
}

/// Checks that each of several concurrent calls gets the response to its own request. The calls request whole responses
/// and streams.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn concurrency<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "concurrency").await;
    let case = ctx.case(format_args!("{CALLS} calls at once"));
    let mut texts: Vec<String> = (0..CALLS).map(|call| format!("{call:02} ").repeat(200)).collect();
    for text in &texts {
        ctx.server.push(steady(Reply::text(text.clone()).chunk_chars(7)));
    }
    let ways = Way::BOTH.into_iter().cycle().take(CALLS);
    let answers = case.soon(join_all(ways.map(|way| way.answer(&ctx.provider)))).await;
    let mut answers: Vec<String> =
        answers.into_iter().map(|answer| case.ok(answer).message.text()).collect();
    answers.sort_unstable();
    texts.sort_unstable();
    case.equal("the texts", answers, texts);
}

/// Checks that dropping a call or a stream cancels the request and closes its connection.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn dropping<H: ProviderHarness>(harness: &H) {
    for (name, way) in [("a call", Way::Whole), ("a stream that has not begun", Way::Streamed)] {
        let ctx = TestContext::start(harness, "dropping").await;
        let case = ctx.case(name);
        ctx.server.push(Reply::hang());
        let request = ask();
        {
            let call = pin!(async {
                if let Way::Whole = way {
                    return format!("{:?}", ctx.provider.complete_ref(request.view()).await);
                }
                // A provider may return the stream handle immediately, but no event, because the server sends none.
                let mut handle = case.ok(ctx.provider.complete_stream_ref(request.view()).await);
                format!("{:?}", handle.receiver.recv().await)
            });
            let arrived = pin!(case.soon(ctx.server.wait_for_requests(1)));
            if let Either::Left((result, _)) = select(call, arrived).await {
                case.fail(format_args!("gave {result} while the server hangs"));
            }
        }
        case.soon(ctx.server.wait_for_disconnect()).await;
    }

    let ctx = TestContext::start(harness, "dropping").await;
    let case = ctx.case("a stream");
    let text = "0123456789".repeat(10);
    ctx.server.push(Reply::text(text).chunk_chars(1).hang_after(12));
    let mut handle = case.ok(case.soon(ctx.provider.complete_stream_ref(ask().view())).await);
    first_text(&case, &mut handle).await;
    case.equal("the number of connections that were closed", ctx.server.disconnects(), 0);
    drop(handle);
    case.soon(ctx.server.wait_for_disconnect()).await;
}
