//! The environment of a provider, which is its runtime and its environment variables.

use futures_util::FutureExt;
use neuron_types::Provider;

use super::ProviderHarness;
use super::context::{TestContext, ask, key};
use super::errors::check_network;
use crate::child_process::run_with_environment;

/// Labels of a host name that is too long, so that the resolver rejects it without a query.
const UNKNOWN_HOST: [&str; 4] = ["xxxxxxxxxxxxxxxx"; 4];

/// Checks the errors of calls that depend on the environment.
///
/// A call outside of a tokio runtime is an error. No proxy of the environment is used for this machine. A host without
/// an address is a network error.
///
/// `test` is the path of the calling test: `concat!(module_path!(), "::environment")`. That test runs once more, in a
/// process with other environment variables. [`provider_tests`](crate::provider_tests) passes the path for you.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn environment<H: ProviderHarness>(harness: &H, test: &str) {
    let ctx = TestContext::start(harness, "environment").await;
    let host = UNKNOWN_HOST.concat();
    // Nothing listens on this port.
    let proxy = "http://127.0.0.1:9";
    let mut variables = Vec::new();
    for (name, value) in [
        ("http_proxy", proxy),
        ("https_proxy", proxy),
        ("all_proxy", proxy),
        ("no_proxy", host.as_str()),
    ] {
        variables.extend([(name.to_owned(), value), (name.to_uppercase(), value)]);
    }
    let case = ctx.case("outside of a tokio runtime");
    let provider = &ctx.provider;
    let call = || provider.complete_ref(ask().view()).now_or_never();
    let result = std::thread::scope(|scope| scope.spawn(call).join());
    let Ok(result) = result else { case.fail("it panics") };
    case.mentions(case.err(case.some("it waits", result)), "runtime");

    if run_with_environment(test, variables) {
        let case = ctx.case("a proxy that does not run");
        case.ok(ctx.whole(&case, ask().view(), "hello").await);

        let case = ctx.case("a host without an address");
        let url = format!("http://{host}");
        let provider = harness.provider(&url, key(&ctx.can));
        let error = case.err(case.soon(provider.complete_ref(ask().view())).await);
        check_network(&case, &error, "Network", &url);
        let is_proxy = error.to_string().contains("refused");
        case.holds(!is_proxy, format_args!("the name was not looked up: {error}"));
    }
}
