//! Checks the errors that a provider returns for the vendor's error responses, redirects, broken connections, and
//! endless bodies.

use std::iter::once;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join;
use neuron_types::{Provider, ProviderError};

use super::ProviderHarness;
use super::context::{TestContext, Way, ask, both_errors, key, text_answer};
use super::events::{Broken, check_broken, first_text};
use crate::case::Case;
use neuron_testing::{RawServer, Reply, ServerReply};

/// The error text that the server sends. The provider's error must contain it.
const MESSAGE: &str = "because-of-the-conformance-suite";

/// Maximum length of the text of an error, in bytes.
const SHOWN: usize = 1000;

/// Checks each error that the vendor sends instead of a response. The provider must return its kind, text and retry
/// delay, for whole responses and for streams.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn errors<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "errors").await;
    for kind in &ctx.can.errors {
        let case = ctx.case(kind);
        for error in ctx.failed(&case, sample(&case, kind, MESSAGE)).await {
            check(&case, kind, &error);
        }
    }
    if ctx.can.retry_after {
        delays(&ctx).await;
    }
    foreign_pages(&ctx).await;
    // A proxy or a login page may send status 200 with another body. The provider must not return it as a response.
    for content_type in ["application/json", "text/html", ctx.stream_type()] {
        for body in ["", "{}", "null", "[]", "<html>ok</html>", "data: {}\n\n", "\n\n"] {
            let case = ctx.case(format_args!("status 200, {content_type}, {body:?}"));
            let reply = ServerReply::raw(200, [("content-type", content_type)], body);
            let [_, streamed] = ctx.failed(&case, reply).await;
            if content_type == "text/html" {
                case.mentions(&streamed, content_type);
                case.mentions(&streamed, body.trim());
            }
        }
    }
}

/// Checks the kind and the text of each error that the vendor sends within a stream.
///
/// A connection that breaks within a stream must be a [`StreamError`](neuron_types::ProviderError::StreamError), which
/// is not retryable.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn stream_errors<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "stream errors").await;
    for kind in &ctx.can.stream_errors {
        let case = ctx.case(kind);
        let broken = ctx.broken(&case, sample(&case, kind, MESSAGE)).await;
        case.holds(broken.was_shown, "the text before the error was not shown");
        check(&case, kind, &broken.error);
    }
    let case = ctx.case("a broken connection");
    let broken = ctx.broken(&case, sample(&case, "Network", MESSAGE)).await;
    case.equal("the error's kind", broken.error.kind(), "StreamError");
}

/// Checks that the provider does not follow redirects.
///
/// A redirect must be an [`InvalidRequest`](neuron_types::ProviderError::InvalidRequest) error whose text contains the
/// status and the location.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn redirects<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "redirects").await;
    let elsewhere = TestContext::start(harness, "redirects").await.server;
    let location = format!("{}/elsewhere", elsewhere.url());
    for status in [301, 302, 303, 307, 308] {
        let case = ctx.case(format_args!("status {status}"));
        let reply = ServerReply::raw(status, [("location", &location)], "");
        let errors = ctx.failed(&case, reply).await;
        case.equal("the number of connections to the location", elsewhere.connections(), 0);
        for error in errors {
            case.equal("the error's kind", error.kind(), "InvalidRequest");
            case.mentions(&error, status);
            case.mentions(&error, &location);
        }
    }
}

/// Checks that an unreachable server and a connection reset before the response are network errors.
///
/// A connection reset within a stream must be a stream error. The text of each error must contain the server's URL
/// without the key in this URL.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn connection_errors<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "connection errors").await;
    let case = ctx.case("a server that does not run");
    let url = RawServer::bind().await.url();
    let key = key(&ctx.can);
    let provider = harness.provider(&format!("{url}/{key}"), key);
    for error in both_errors(&case, &provider).await {
        check_network(&case, &error, "Network", &url);
        case.mentions(&error, "refused");
        super::keys::check(&case, &error);
    }

    let (server, provider) = ctx.raw().await;
    for (moment, way, has_begun) in [
        ("before the answer", Way::Whole, false),
        ("before the stream", Way::Streamed, false),
        ("within the answer", Way::Whole, true),
    ] {
        let case = ctx.case(format_args!("a connection that is reset {moment}"));
        let reset = async {
            let mut connection = server.request().await;
            if has_begun {
                connection.head(200, "application/json", 100).await;
                connection.write("{").await;
            }
            connection.reset();
        };
        let (result, ()) = case.soon(join(way.begin(&provider), reset)).await;
        check_network(&case, &case.err(result), "Network", &server.url());
    }

    let case = ctx.case("a connection that is reset within the stream");
    let bytes = ctx.stream_bytes(&case, &text_answer("0123456789".repeat(20))).await;
    let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
    let serve = server.respond(200, ctx.stream_type(), bytes.len(), half);
    let (handle, connection) = case.soon(join(provider.complete_stream(ask()), serve)).await;
    let mut handle = case.ok(handle);
    first_text(&case, &mut handle).await;
    connection.reset();
    let events = case.soon(handle.receiver.collect()).await;
    check_network(&case, &check_broken(&case, events).error, "StreamError", &server.url());
}

/// Checks that the provider stops reading an endless response body, both for an error and for a whole response.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn body_limits<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "body limits").await;
    for (name, status, letter, kind) in [
        ("an error", 500, "x", "ServiceUnavailable"),
        // `Other` is not retryable. A retry would get an endless body again.
        ("an answer", 200, " ", "Other"),
    ] {
        let case = ctx.case(name);
        let (server, provider) = ctx.raw().await;
        let serve = async {
            let length = usize::MAX >> 1;
            let mut connection = server.respond(status, "application/json", length, "").await;
            connection.write_until_closed(letter.repeat(1024 * 1024)).await;
        };
        let (result, ()) = case.soon(join(provider.complete(ask()), serve)).await;
        let error = case.err(result);
        case.equal("the error's kind", error.kind(), kind);
        case.mentions(&error, if status == 200 { "too large" } else { "" });
        let length = error.to_string().len();
        case.holds(length < SHOWN, format_args!("its text has {length} bytes, {SHOWN} is enough"));
    }
}

/// Returns an error of the kind `kind` with the text `text`. Panics if no vendor can send an error of this kind.
pub(super) fn sample(case: &Case, kind: &str, text: &str) -> ProviderError {
    use ProviderError as E;
    let text = || text.to_owned();
    match kind {
        "Network" => E::Network("the connection is closed".into()),
        "RateLimit" => E::RateLimit { retry_after: None },
        "ModelLoading" => E::ModelLoading(text()),
        "Timeout" => E::Timeout(Duration::from_secs(1)),
        "ServiceUnavailable" => E::ServiceUnavailable(text()),
        "Authentication" => E::Authentication(text()),
        "InvalidRequest" => E::InvalidRequest(text()),
        "ContextWindowExceeded" => E::ContextWindowExceeded(text()),
        "ModelNotFound" => E::ModelNotFound(text()),
        "InsufficientResources" => E::InsufficientResources(text()),
        "StreamError" => E::StreamError(text()),
        _ => case.fail("the suite has no such error"),
    }
}

/// Checks the kind of an error. Checks also that the error contains [`MESSAGE`], unless errors of this kind have no
/// text.
fn check(case: &Case, kind: &str, error: &ProviderError) {
    case.equal("the error's kind", error.kind(), kind);
    if !["Network", "RateLimit", "Timeout"].contains(&kind) {
        case.mentions(error, MESSAGE);
    }
}

/// Checks the kind of an error, and that its text contains the server's URL.
pub(super) fn check_network(case: &Case, error: &ProviderError, kind: &str, url: &str) {
    case.equal("the error's kind", error.kind(), kind);
    case.mentions(error, url);
}

/// Checks the retry delay of rate limits, for each form of the `retry-after` headers.
async fn delays<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    for retry_after in [None, Some(Duration::from_secs(7)), Some(Duration::from_secs(3600))] {
        let case = ctx.case(format_args!("a rate limit with the delay {retry_after:?}"));
        for error in ctx.failed(&case, ProviderError::RateLimit { retry_after }).await {
            case.equal("the delay", error.retry_after(), retry_after);
        }
    }
    for (headers, shortest, longest) in [
        (&[("retry-after", "7")][..], 7_000, 7_000),
        (&[("retry-after", "1.5")], 1_500, 1_500),
        (&[("retry-after", "7"), ("retry-after-ms", "250")], 250, 250),
        (&[("retry-after", "Sat, 21 Nov 2020 10:00:30 GMT")], 0, 0),
        (&[("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")], 3_600_000, u64::MAX),
    ] {
        let case = ctx.case(format_args!("a rate limit with {headers:?}"));
        let reply = ServerReply::from(ProviderError::RateLimit { retry_after: None });
        let reply = headers.iter().fold(reply, |reply, (name, value)| reply.header(*name, *value));
        let range = Duration::from_millis(shortest)..=Duration::from_millis(longest);
        for error in ctx.failed(&case, reply).await {
            let delay = case.some("it has no delay", error.retry_after());
            let is_right = range.contains(&delay);
            case.holds(is_right, format_args!("the delay {delay:?} is not in {range:?}"));
        }
    }
}

/// Checks errors whose body is not in the vendor's format, as proxies and gateways send them.
async fn foreign_pages<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    let page = format!("<html>{MESSAGE}</html>");
    for status in [400, 401, 403, 429, 500, 502, 503] {
        for (name, body) in
            [("a page", page.as_str()), ("nothing", ""), ("half a body", "{\"error\":")]
        {
            let case = ctx.case(format_args!("status {status} with {name}"));
            let id = ctx.can.request_id_header.map(|name| (name, "req_conformance"));
            let headers = once(("content-type", "text/html")).chain(id);
            for error in ctx.failed(&case, ServerReply::raw(status, headers, body)).await {
                let is_retryable = matches!(status, 429 | 500..);
                case.equal("whether it is retryable", error.is_retryable(), is_retryable);
                let is_refused = matches!(error, ProviderError::Authentication(_));
                case.equal("whether the key is at fault", is_refused, matches!(status, 401 | 403));
                // `ProviderError::RateLimit` has no field for the text of the server.
                if !matches!(error, ProviderError::RateLimit { .. }) {
                    case.mentions(&error, status);
                    case.mentions(&error, body);
                    case.mentions(&error, id.map_or("", |(_, id)| id));
                }
            }
        }
    }
}

impl<H: ProviderHarness> TestContext<'_, H> {
    /// Streams a reply that breaks with `error` after some text. The result contains the error that the provider
    /// reports, and a flag that is set if deltas preceded the error.
    pub(super) async fn broken(&self, case: &Case, error: ProviderError) -> Broken {
        // Deltas have one character, so several of the first 12 events are text for every vendor.
        const EVENTS: usize = 12;
        let reply = Reply::text("0123456789".repeat(10)).chunk_chars(1).fail_after(EVENTS, error);
        let events = case.ok(self.streamed(case, ask().view(), reply).await);
        check_broken(case, events)
    }
}
