//! Redirects, which would carry the key to another server.

use super::ProviderHarness;
use super::context::TestContext;
use neuron_testing::ServerReply;

/// Checks that a redirect is not followed, and is an invalid request whose text has the status and the location.
///
/// # Panics
///
/// At the first violation.
pub async fn redirects<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "redirects").await;
    let elsewhere = TestContext::start(harness, "redirects").await.server;
    let location = format!("{}/elsewhere", elsewhere.url());
    for status in [301, 302, 303, 307, 308] {
        let case = ctx.case(format_args!("status {status}"));
        let reply = ServerReply::raw(status, [("location", &location)], "");
        let errors = ctx.failed(&case, || reply.clone()).await;
        case.equal("the number of connections to the location", elsewhere.connections(), 0);
        for error in errors {
            case.equal("the error's kind", error.kind(), "InvalidRequest");
            case.mentions(&error, status);
            case.mentions(&error, &location);
        }
    }
}
