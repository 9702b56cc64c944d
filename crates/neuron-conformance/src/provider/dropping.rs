//! Calls and streams that are dropped.

use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_types::Provider;

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::events::first_text;
use neuron_testing::Reply;

/// Checks that dropping a call or a stream cancels the request: the server sees the connection
/// close.
///
/// # Panics
///
/// At the first violation.
pub async fn dropping<H: ProviderHarness>(harness: &H) {
    whole(harness).await;
    beginning(harness).await;
    stream(harness).await;
}

async fn whole<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "dropping").await;
    let case = ctx.case("a call");
    ctx.server.push(Reply::hang());
    let request = ask();
    {
        let call = pin!(ctx.provider.complete_ref(&request));
        let arrived = pin!(case.soon(ctx.server.wait_for_requests(1)));
        if let Either::Left((result, _)) = select(call, arrived).await {
            case.fail(format_args!("ended while the server hangs: {result:?}"));
        }
    }
    case.soon(ctx.server.wait_for_disconnect()).await;
}

async fn beginning<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "dropping").await;
    let case = ctx.case("a stream that has not begun");
    ctx.server.push(Reply::hang());
    let request = ask();
    {
        let call = pin!(async {
            // A provider may give the handle at once.
            let mut handle = case.ok(ctx.provider.complete_stream_ref(&request).await);
            handle.receiver.recv().await
        });
        let arrived = pin!(case.soon(ctx.server.wait_for_requests(1)));
        if let Either::Left((event, _)) = select(call, arrived).await {
            case.fail(format_args!("gave {event:?} while the server hangs"));
        }
    }
    case.soon(ctx.server.wait_for_disconnect()).await;
}

async fn stream<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "dropping").await;
    let case = ctx.case("a stream");
    let text = "0123456789".repeat(10);
    ctx.server.push(Reply::text(text).chunk_chars(1).hang_after(12));
    let mut handle = case.ok(case.soon(ctx.provider.complete_stream_ref(&ask())).await);
    first_text(&case, &mut handle).await;
    case.equal("the number of connections that were closed", ctx.server.disconnects(), 0);
    drop(handle);
    case.soon(ctx.server.wait_for_disconnect()).await;
}
