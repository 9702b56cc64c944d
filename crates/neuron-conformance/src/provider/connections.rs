//! The number of connections that a provider opens.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use neuron_types::{Provider, ProviderError};

use super::ProviderHarness;
use super::context::{TestContext, ask, text_answer};

/// Number of tasks that call at the same time.
const TASKS: usize = 100;

/// Checks that calls reuse the connection of an earlier whole answer, stream or error, and replace a closed connection.
///
/// A stream is complete after its last event, even if the server does not end the body.
///
/// # Panics
///
/// At the first violation.
pub async fn connections<H: ProviderHarness>(harness: &H) {
    reused(harness).await;
    for is_streamed in [false, true] {
        reused_by_tasks(harness, is_streamed).await;
    }
    replaced(harness).await;
    left_open(harness).await;
}

async fn reused<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "connections").await;
    for round in 1..=3 {
        let case = ctx.case(format_args!("round {round}"));
        let step = case.step("a whole answer");
        step.ok(ctx.whole(&step, &ask(), "hello").await);
        step.equal("the number of connections", ctx.server.connections(), 1);
        let step = case.step("a stream");
        step.ok(ctx.streamed(&step, &ask(), "hello").await);
        step.equal("the number of connections", ctx.server.connections(), 1);
        ctx.failed(&case, || ProviderError::InvalidRequest("no".into())).await;
        case.equal("the number of connections after errors", ctx.server.connections(), 1);
    }
}

/// A task that calls again at once must find the connection of its first call.
async fn reused_by_tasks<H: ProviderHarness>(harness: &H, is_streamed: bool) {
    let gather = |builder: neuron_testing::vendor::VendorServerBuilder<_>| builder.gather(TASKS);
    let ctx = TestContext::start_with(harness, "connections", gather).await;
    let case = ctx.case(format_args!("{TASKS} tasks that call twice, streamed: {is_streamed}"));
    (0..2 * TASKS).for_each(|_| ctx.server.push("hello"));
    let provider = Arc::new(ctx.provider);
    let tasks = (0..TASKS).map(|_| {
        let provider = Arc::clone(&provider);
        // Tasks of the runtime: each has its own place in the queue.
        tokio::spawn(async move {
            for _ in 0..2 {
                match is_streamed {
                    false => provider.complete(ask()).await?,
                    true => provider.complete_stream(ask()).await?.into_response().await?,
                };
            }
            Ok::<_, ProviderError>(())
        })
    });
    for task in case.soon(join_all(tasks)).await {
        case.ok(case.ok(task));
    }
    case.equal("the number of connections", ctx.server.connections(), TASKS);
}

async fn replaced<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "connections").await;
    let answer = text_answer("hello");
    let body = ctx.body(&ctx.case("the answer"), &ask(), &answer).await;
    let (server, provider) = ctx.raw(harness).await;
    for round in 1..=10 {
        let case = ctx.case(format_args!("a connection that the server closed, round {round}"));
        let serve =
            async { drop(server.respond(200, "application/json", body.len(), &body).await) };
        let (response, ()) = case.soon(join(provider.complete(ask()), serve)).await;
        case.equal("the text", case.ok(response).message.text(), "hello");
    }
}

async fn left_open<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "connections").await;
    let case = ctx.case("a stream whose body does not end");
    let bytes = ctx.stream_bytes(&case, &text_answer("hello")).await;
    let (server, provider) = ctx.raw(harness).await;
    let serve = server.respond(200, ctx.stream_type(), bytes.len() + 1, &bytes);
    let read = async {
        let handle = case.ok(provider.complete_stream(ask()).await);
        case.ok(handle.into_response().await)
    };
    let (response, _open) = case.soon(join(read, serve)).await;
    case.equal("the text", response.message.text(), "hello");
}
