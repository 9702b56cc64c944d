//! Errors before the answer.

use std::time::Duration;

use neuron_types::ProviderError;

use super::ProviderHarness;
use super::context::{TestContext, ask};
use crate::case::Case;
use neuron_testing::{Reply, ServerReply};

/// The vendor's text in the errors of the suite.
pub(super) const MESSAGE: &str = "because-of-the-conformance-suite";

/// Makes an error of every kind that a vendor can send, with this text.
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

/// Checks that each error before the answer has its class, its text and its delay, for whole
/// answers and for streams alike.
///
/// # Panics
///
/// At the first violation.
pub async fn errors<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "errors").await;
    for kind in &ctx.can.errors {
        let case = ctx.case(kind);
        let both = || sample(&case, kind, MESSAGE);
        for error in ctx.failed(&case, both).await {
            check(&case, kind, &error);
        }
    }
    if ctx.can.retry_after {
        delays(&ctx).await;
    }
    foreign_pages(&ctx).await;
    no_answers(&ctx).await;
}

pub(super) fn check(case: &Case, kind: &str, error: &ProviderError) {
    case.equal("the error's kind", error.kind(), kind);
    let says_why = matches!(
        error,
        ProviderError::ModelLoading(_)
            | ProviderError::ServiceUnavailable(_)
            | ProviderError::Authentication(_)
            | ProviderError::InvalidRequest(_)
            | ProviderError::ContextWindowExceeded(_)
            | ProviderError::ModelNotFound(_)
            | ProviderError::InsufficientResources(_)
            | ProviderError::StreamError(_)
    );
    if says_why {
        case.mentions(error, MESSAGE);
    }
}

async fn delays<H: ProviderHarness>(ctx: &TestContext<H>) {
    for retry_after in [None, Some(Duration::from_secs(7)), Some(Duration::from_secs(3600))] {
        let case = ctx.case(format_args!("a rate limit with the delay {retry_after:?}"));
        for error in ctx.failed(&case, || ProviderError::RateLimit { retry_after }).await {
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
        let reply = || {
            let reply = ServerReply::from(ProviderError::RateLimit { retry_after: None });
            headers.iter().fold(reply, |reply, (name, value)| reply.header(*name, *value))
        };
        for error in ctx.failed(&case, reply).await {
            let delay = case.some("it has no delay", error.retry_after());
            let range = Duration::from_millis(shortest)..=Duration::from_millis(longest);
            case.holds(
                range.contains(&delay),
                format_args!("the delay {delay:?} is not in {range:?}"),
            );
        }
    }
}

/// Proxies and gateways answer in words of their own.
async fn foreign_pages<H: ProviderHarness>(ctx: &TestContext<H>) {
    for status in [400, 401, 403, 429, 500, 502, 503] {
        let retryable = matches!(status, 429 | 500..);
        let page = format!("<html>{MESSAGE}</html>");
        for (name, body) in
            [("a page", page.as_str()), ("nothing", ""), ("half a body", "{\"error\":")]
        {
            let case = ctx.case(format_args!("status {status} with {name}"));
            let mut reply = ServerReply::raw(status, [("content-type", "text/html")], body);
            if let Some(header) = ctx.can.request_id_header {
                reply = reply.header(header, "req_conformance");
            }
            for error in ctx.failed(&case, || reply.clone()).await {
                case.equal("whether it is retryable", error.is_retryable(), retryable);
                let is_refused = matches!(error, ProviderError::Authentication(_));
                case.equal("whether the key is at fault", is_refused, matches!(status, 401 | 403));
                // A rate limit has no text of its own.
                if !matches!(error, ProviderError::RateLimit { .. }) {
                    case.mentions(&error, status);
                    case.mentions(&error, body);
                    let id = ctx.can.request_id_header.map_or("", |_| "req_conformance");
                    case.mentions(&error, id);
                }
            }
        }
    }
}

/// A success is no answer by itself.
async fn no_answers<H: ProviderHarness>(ctx: &TestContext<H>) {
    for content_type in ["application/json", "text/html", ctx.stream_type()] {
        for body in ["", "{}", "null", "[]", "<html>ok</html>", "data: {}\n\n", "\n\n"] {
            let case = ctx.case(format_args!("status 200, {content_type}, {body:?}"));
            let reply = ServerReply::raw(200, [("content-type", content_type)], body);
            let [_, streamed] = ctx.failed(&case, || reply.clone()).await;
            if content_type == "text/html" {
                case.mentions(&streamed, content_type);
                case.mentions(&streamed, body.trim());
            }
        }
    }
}

impl<H: ProviderHarness> TestContext<H> {
    /// Asks both ways for what must fail, and returns both errors.
    pub(super) async fn failed<R: Into<ServerReply>>(
        &self,
        case: &Case,
        reply: impl Fn() -> R,
    ) -> [ProviderError; 2] {
        let step = case.step("whole");
        let whole = step.err(self.whole(&step, &ask(), reply()).await);
        let step = case.step("streamed");
        let streamed = match self.streamed(&step, &ask(), reply()).await {
            Ok(events) => {
                let broken = super::events::check_broken(&step, events);
                step.holds(!broken.was_shown, "something was shown before the error");
                broken.error
            }
            Err(error) => error,
        };
        [whole, streamed]
    }
}

impl<H: ProviderHarness> TestContext<H> {
    /// The error of a stream that breaks after so many of the vendor's events.
    pub(super) async fn broken_after(
        &self,
        case: &Case,
        events: usize,
        error: ProviderError,
    ) -> super::events::Broken {
        let text = "0123456789".repeat(10);
        let reply = Reply::text(text).chunk_chars(1).fail_after(events, error);
        let events = case.ok(self.streamed(case, &ask(), reply).await);
        super::events::check_broken(case, events)
    }
}
