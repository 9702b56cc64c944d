//! Errors of connections: unreachable servers, and resets.

use futures_util::StreamExt;
use futures_util::future::join;
use neuron_types::{Provider, ProviderError};

use super::ProviderHarness;
use super::context::{TestContext, ask, both_errors, key, text_answer};
use super::events::{check_broken, first_text};
use crate::case::Case;
use neuron_testing::RawServer;

/// Checks that an unreachable server and a reset connection are network errors, which can be retried.
///
/// Within a stream a reset connection is an error that cannot be retried. The text names the server, and never shows
/// the key in its address.
///
/// # Panics
///
/// At the first violation.
pub async fn connection_errors<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "connection errors").await;
    refused(&ctx, harness).await;
    reset_before_answer(&ctx, harness).await;
    reset_in_answer(&ctx, harness).await;
    reset_in_stream(&ctx, harness).await;
}

/// Checks the kind of an error, and that its text names the server.
pub(super) fn check_network(case: &Case, error: &ProviderError, kind: &str, url: &str) {
    case.equal("the error's kind", error.kind(), kind);
    case.mentions(error, url);
}

async fn refused<H: ProviderHarness>(ctx: &TestContext<H>, harness: &H) {
    let case = ctx.case("a server that does not run");
    let server = RawServer::bind().await;
    let url = server.url();
    drop(server);
    let key = key(&ctx.can);
    let provider = harness.provider(&format!("{url}/{key}"), key);
    for error in both_errors(&case, &provider).await {
        check_network(&case, &error, "Network", &url);
        case.mentions(&error, "refused");
        super::keys::check(&case, &error);
    }
}

async fn reset_before_answer<H: ProviderHarness>(ctx: &TestContext<H>, harness: &H) {
    let (server, provider) = ctx.raw(harness).await;
    let reset = async || server.request().await.reset();
    let case = ctx.case("a connection that is reset before the answer");
    let (result, ()) = case.soon(join(provider.complete(ask()), reset())).await;
    check_network(&case, &case.err(result), "Network", &server.url());
    let case = ctx.case("a connection that is reset before the stream");
    let (result, ()) = case.soon(join(provider.complete_stream(ask()), reset())).await;
    check_network(&case, &case.err(result), "Network", &server.url());
}

async fn reset_in_answer<H: ProviderHarness>(ctx: &TestContext<H>, harness: &H) {
    let case = ctx.case("a connection that is reset within the answer");
    let (server, provider) = ctx.raw(harness).await;
    let serve = async { server.respond(200, "application/json", 100, "{").await.reset() };
    let (result, ()) = case.soon(join(provider.complete(ask()), serve)).await;
    check_network(&case, &case.err(result), "Network", &server.url());
}

async fn reset_in_stream<H: ProviderHarness>(ctx: &TestContext<H>, harness: &H) {
    let case = ctx.case("a connection that is reset within the stream");
    let bytes = ctx.stream_bytes(&case, &text_answer("0123456789".repeat(20))).await;
    let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
    let (server, provider) = ctx.raw(harness).await;
    let serve = server.respond(200, ctx.stream_type(), bytes.len(), half);
    let (handle, connection) = case.soon(join(provider.complete_stream(ask()), serve)).await;
    let mut handle = case.ok(handle);
    first_text(&case, &mut handle).await;
    connection.reset();
    let events = case.soon(handle.receiver.collect()).await;
    check_network(&case, &check_broken(&case, events).error, "StreamError", &server.url());
}
