//! Keys: a wrong one is refused, and a right one shows nowhere.

use std::error::Error;

use neuron_types::{Provider, ProviderError};
use serde_json::json;

use super::ProviderHarness;
use super::context::{API_KEY, TestContext, ask};
use crate::case::Case;
use neuron_testing::ServerReply;
use neuron_testing::vendor::Vendor;

/// Checks that a wrong key is an authentication error, and that the key is in a header and nowhere
/// else: not in `Debug`, not in an error, not when a server echoes it.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn keys<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "keys").await;
    if !ctx.can.api_key {
        return;
    }
    wrong_key(&ctx, harness).await;

    let case = ctx.case("the right key");
    case.ok(ctx.whole(&case, &ask(), "hello").await);
    let request = ctx.last_request(&case);
    let is_sent = request.headers.iter().any(|(_, value)| value.contains(API_KEY));
    case.holds(is_sent, "it is in no header");
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let elsewhere = format!("{} {} {body}", request.path, request.query);
    case.holds(!elsewhere.contains(API_KEY), "it is in the address or the body");

    let provider = &ctx.provider;
    let shown = format!("{provider:?} {provider:#?}");
    case.holds(!shown.contains(API_KEY), "it is in the provider's Debug");
    echoes(&ctx).await;
}

async fn wrong_key<H: ProviderHarness>(ctx: &TestContext<H>, harness: &H) {
    let case = ctx.case("a wrong key");
    let wrong = "sk-conformance-wrong";
    let provider = harness.provider(&ctx.server.url(), wrong);
    let whole = case.err(case.soon(provider.complete_ref(&ask())).await);
    let streamed = case.err(case.soon(provider.complete_stream_ref(&ask())).await);
    for error in [whole, streamed] {
        case.equal("the error's kind", error.kind(), "Authentication");
        case.holds(!all_texts(&error).contains(wrong), "the error shows it");
    }
}

/// Servers show what they received.
async fn echoes<H: ProviderHarness>(ctx: &TestContext<H>) {
    let error = json!({"error": {"message": API_KEY, "type": API_KEY, "code": API_KEY}});
    let bodies = [
        error.to_string(),
        json!({"error": API_KEY}).to_string(),
        json!({"type": "error", "error": {"type": "x", "message": API_KEY}}).to_string(),
        format!("<html>{API_KEY}</html>"),
        // Where an error cuts what it shows.
        format!("{}{API_KEY}", "x".repeat(190)),
        format!("{}{API_KEY}", "x".repeat(290)),
    ];
    for status in [302, 400, 401, 404, 429, 500, 503] {
        for body in &bodies {
            let case = ctx.case(format_args!("status {status} with {body}"));
            let reply = ServerReply::raw(status, [("location", API_KEY)], body.as_bytes());
            check(&case, &ctx.failed(&case, || reply.clone()).await);
        }
    }
    let stream_type = ctx.server.vendor().stream_type();
    for content_type in ["application/json", stream_type] {
        for body in &bodies {
            for body in [body.clone(), format!("{body}\n"), format!("data: {body}\n\n")] {
                let case = ctx.case(format_args!("status 200, {content_type}, {body:?}"));
                let reply = ServerReply::raw(200, [("content-type", content_type)], body);
                check(&case, &ctx.failed(&case, || reply.clone()).await);
            }
        }
    }
}

fn check(case: &Case, errors: &[ProviderError]) {
    for error in errors {
        let is_hidden = !all_texts(error).contains(API_KEY);
        case.holds(is_hidden, "the error, its Debug or one of its sources shows the key");
    }
}

fn all_texts(error: &ProviderError) -> String {
    let mut texts = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        texts.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    texts
}
