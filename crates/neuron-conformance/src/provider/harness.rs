//! The description of a provider, and its time limits.

use std::fmt;
use std::time::Duration;

use neuron_types::Provider;

use super::Capabilities;
use neuron_testing::vendor::Vendor;

/// Describes a provider to the suite.
///
/// Implement it on a unit struct in your tests. [The module's page](super) has an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not describe a provider",
    note = "implement `ProviderHarness` on a struct of your tests, and pass that"
)]
pub trait ProviderHarness: Sync {
    /// The provider. The suite looks for the key in its `Debug`.
    type Provider: Provider + fmt::Debug + 'static;

    /// The vendor that it speaks to, as a loopback server plays it.
    type Vendor: Vendor;

    /// Makes the vendor.
    fn vendor(&self) -> Self::Vendor;

    /// Makes a provider that asks the server at `url`, a base URL without a slash at its end.
    ///
    /// The key is empty where [`Capabilities::api_key`] is false. Requests of the suite name no
    /// model: set one if the provider has no default.
    fn provider(&self, url: &str, api_key: &str) -> Self::Provider;

    /// Makes a provider with these time limits. Default: `None`, and [`timeouts`](super::timeouts) checks nothing.
    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Self::Provider> {
        let _ = (url, api_key, timeouts);
        None
    }

    /// Returns what provider and vendor can express. Provided: everything.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// Time limits of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum wait for a connection.
    pub connect: Duration,
    /// Maximum wait for a whole answer, and for a stream to begin.
    pub whole: Duration,
    /// Maximum wait between two pieces of a stream.
    pub idle: Duration,
}
