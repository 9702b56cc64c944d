//! Checks that wrong keys are rejected, and that no error and no `Debug` output contains a key.

use std::error::Error;
use std::iter::once;

use neuron_types::ProviderError;
use serde_json::json;

use super::ProviderHarness;
use super::context::{API_KEY, TestContext, ask, both_errors};
use super::errors::sample;
use crate::case::Case;
use neuron_testing::ServerReply;
use neuron_testing::vendor::Vendor;

/// A part of [`API_KEY`] that no other text of the suite contains.
const KEY_PART: &str = "4c1f";

/// Checks that a wrong key is an authentication error, and that the provider sends its key only in a header.
///
/// The `Debug` output of the provider must not contain the key. Errors must not contain the key, even if the response
/// of the server contains it.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn keys<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "keys").await;
    if !ctx.can.api_key {
        return;
    }
    let case = ctx.case("a wrong key");
    let wrong = "sk-conformance-wrong";
    let provider = harness.provider(&ctx.server.url(), wrong);
    for error in both_errors(&case, &provider).await {
        case.equal("the error's kind", error.kind(), "Authentication");
        case.holds(!all_texts(&error).contains(wrong), "the error shows it");
    }
    // These keys are not valid in a header. The provider must reject them before it opens a connection.
    let connections = ctx.server.connections();
    for key in ["sk\n4c1f", "sk-4c1f\n", "sk-4c1f\0"] {
        let case = ctx.case(format_args!("the key {key:?}"));
        let provider = harness.provider(&ctx.server.url(), key);
        for error in both_errors(&case, &provider).await {
            case.equal("the error's kind", error.kind(), "Authentication");
            case.mentions(&error, "header");
            check(&case, &error);
        }
        case.equal("the number of connections", ctx.server.connections(), connections);
    }

    let case = ctx.case("the right key");
    case.ok(ctx.whole(&case, ask().view(), "hello").await);
    let request = ctx.last_request(&case);
    let is_sent = request.headers.iter().any(|(_, value)| value.contains(API_KEY));
    case.holds(is_sent, "it is in no header");
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let elsewhere = format!("{} {} {body}", request.path, request.query);
    case.holds(!elsewhere.contains(API_KEY), "it is in the address or the body");

    let provider = &ctx.provider;
    let shown = format!("{provider:?} {provider:#?}");
    case.holds(!shown.contains(KEY_PART), "it is in the provider's Debug");
    echoes(&ctx).await;
}

/// Checks that errors do not contain the key if the server echoes it in headers, bodies and streams.
async fn echoes<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    for status in [302, 307, 400, 401, 402, 404, 418, 429, 499, 500, 503, 529] {
        for body in bodies() {
            let case = ctx.case(format_args!("status {status} with {body}"));
            let location = ("location", format!("http://h/?key={API_KEY}"));
            let id = ctx.can.request_id_header.map(|name| (name, API_KEY.to_owned()));
            let reply = ServerReply::raw(status, once(location).chain(id), body);
            ctx.check_hidden(&case, reply).await;
        }
    }
    for content_type in ["application/json", ctx.stream_type(), API_KEY] {
        for body in bodies() {
            for body in [body.clone(), format!("{body}\n"), format!("data: {body}\n\n")] {
                let case = ctx.case(format_args!("status 200, {content_type}, {body:?}"));
                let reply = ServerReply::raw(200, [("content-type", content_type)], body);
                ctx.check_hidden(&case, reply).await;
            }
        }
    }
    let vendor = ctx.server.vendor();
    for kind in ctx.can.errors.iter().filter(|kind| **kind != "Network") {
        let case = ctx.case(format_args!("the vendor's {kind}"));
        let echo = sample(&case, kind, API_KEY);
        let reply = vendor.error_reply(&vendor.error(&echo), API_KEY);
        let body = reply.body.to_string();
        for body in [body.replace('/', "\\/"), body] {
            let reply = ServerReply::raw(reply.status, reply.headers.clone(), body);
            ctx.check_hidden(&case, reply).await;
        }
    }
    for kind in &ctx.can.stream_errors {
        let case = ctx.case(format_args!("the vendor's {kind} in a stream"));
        let echo = sample(&case, kind, API_KEY);
        check(&case, &ctx.broken(&case, echo).await.error);
    }
}

/// Returns bodies that contain the key. Some are errors, some are invalid responses, and the last one is empty.
fn bodies() -> Vec<String> {
    let error = json!({"message": API_KEY, "type": API_KEY, "code": API_KEY});
    vec![
        json!({"error": error, "request_id": API_KEY}).to_string(),
        json!({"error": API_KEY, "signin_url": API_KEY}).to_string(),
        json!({"type": "error", "error": error}).to_string(),
        json!({"type": "response.failed", "response": {"status": "failed", "error": error}})
            .to_string(),
        json!({"content": API_KEY, "choices": API_KEY, "output": API_KEY}).to_string(),
        json!({"message": API_KEY}).to_string(),
        format!("<html>{API_KEY}</html>"),
        // Some servers escape `/` in JSON. The missing brace also makes the body invalid JSON.
        json!({"message": API_KEY}).to_string().replace('/', "\\/").replace('}', ""),
        // Errors quote a limited part of the body. The key is near the position where the quote is cut.
        format!("{}{API_KEY}", "x".repeat(190)),
        format!("{}{API_KEY}", "x".repeat(290)),
        String::new(),
    ]
}

impl<H: ProviderHarness> TestContext<'_, H> {
    /// Checks that a whole response and a stream fail with this reply, and that neither error contains the key.
    async fn check_hidden(&self, case: &Case, reply: ServerReply) {
        for error in self.failed(case, reply).await {
            check(case, &error);
        }
    }
}

/// Checks that an error, its `Debug` output and its sources do not contain the key.
pub(super) fn check(case: &Case, error: &ProviderError) {
    let is_hidden = !all_texts(error).contains(KEY_PART);
    case.holds(is_hidden, "the error, its Debug or one of its sources shows the key");
}

/// Returns every text of an error and of its sources.
fn all_texts(error: &ProviderError) -> String {
    let mut texts = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        texts.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    texts
}
