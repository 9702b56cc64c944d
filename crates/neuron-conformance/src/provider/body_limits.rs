//! Bodies without an end, which must not fill the memory.

use futures_util::future::join;
use neuron_types::{Provider, ProviderError};

use super::ProviderHarness;
use super::context::{TestContext, ask};
use crate::case::Case;

/// Maximum length of an error's text, in bytes.
const SHOWN: usize = 1000;

/// Checks that the endless body of an error and of an answer is read only in part.
///
/// # Panics
///
/// At the first violation.
pub async fn body_limits<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "body limits").await;
    let case = ctx.case("an error");
    let error = endless(&ctx, harness, &case, 500, 'x').await;
    case.equal("the error's kind", error.kind(), "ServiceUnavailable");
    let length = error.to_string().len();
    case.holds(length < SHOWN, format_args!("its text has {length} bytes, and {SHOWN} is enough"));

    let case = ctx.case("an answer");
    let error = endless(&ctx, harness, &case, 200, ' ').await;
    // Not retryable: the next answer would not end either.
    case.equal("the error's kind", error.kind(), "Other");
    case.mentions(error, "too large");
}

async fn endless<H: ProviderHarness>(
    ctx: &TestContext<H>,
    harness: &H,
    case: &Case,
    status: u16,
    letter: char,
) -> ProviderError {
    let (server, provider) = ctx.raw(harness).await;
    let piece = String::from(letter).repeat(1024 * 1024);
    let serve = async {
        let mut connection = server.respond(status, "application/json", usize::MAX >> 1, "").await;
        connection.write_until_closed(piece).await;
    };
    let (result, ()) = case.soon(join(provider.complete(ask()), serve)).await;
    case.err(result)
}
