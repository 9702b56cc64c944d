//! Checks calls outside of a tokio runtime, and with proxy variables in the environment.

use futures_util::FutureExt;
use neuron_types::Provider;

use super::ProviderHarness;
use super::context::{TestContext, ask, key};
use super::errors::check_network;
use crate::child_process::run_with_environment;

/// Parts of an invalid host name. The joined name has 64 characters, and a DNS label has at most 63. The resolver
/// therefore rejects the name without a query.
const UNKNOWN_HOST: [&str; 4] = ["xxxxxxxxxxxxxxxx"; 4];

/// Checks calls whose result depends on the environment of the process.
///
/// A call outside of a tokio runtime must return an error and not panic. A call to a loopback address must not use the
/// proxy in the environment. A host name without an address must be a network error.
///
/// `test` is the path of the calling test, such as `concat!(module_path!(), "::environment")`. The calling test is run
/// again in a child process with other environment variables. The macro [`provider_tests`](crate::provider_tests)
/// passes this path.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn environment<H: ProviderHarness>(harness: &H, test: &str) {
    let ctx = TestContext::start(harness, "environment").await;
    let host = UNKNOWN_HOST.concat();
    // Port 9 (discard) has no listener, so a call over this proxy is refused.
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
