//! Errors within a stream.

use super::ProviderHarness;
use super::context::TestContext;
use super::errors::{MESSAGE, check, sample};

/// How many of the vendor's events come before a stream breaks: with deltas of one character, some
/// of them are text.
pub(super) const EVENTS: usize = 12;

/// Checks that each error within a stream has its class and its text, and that a broken connection
/// does not look like something that can be tried again.
///
/// # Panics
///
/// At the first violation.
pub async fn stream_errors<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "stream errors").await;
    for kind in &ctx.can.stream_errors {
        let case = ctx.case(kind);
        let error = sample(&case, kind, MESSAGE);
        let broken = ctx.broken_after(&case, EVENTS, error).await;
        case.holds(broken.was_shown, "the text before the error was not shown");
        check(&case, kind, &broken.error);
    }
    let case = ctx.case("a broken connection");
    let error = sample(&case, "Network", MESSAGE);
    let broken = ctx.broken_after(&case, EVENTS, error).await;
    case.equal("the error's kind", broken.error.kind(), "StreamError");
}
