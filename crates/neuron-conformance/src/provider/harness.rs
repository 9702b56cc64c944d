//! The description of a provider, and its time limits.

use std::fmt;
use std::time::Duration;

use neuron_types::Provider;

use super::Capabilities;
use neuron_testing::vendor::Vendor;

/// Describes a provider to the suite.
///
/// Implement this trait on a unit struct in your tests. [The module's page](super) has an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not describe a provider",
    note = "implement `ProviderHarness` on a struct of your tests, and pass that"
)]
pub trait ProviderHarness: Sync {
    /// The provider. The suite checks that its `Debug` output does not contain the key.
    type Provider: Provider + fmt::Debug + 'static;

    /// The vendor of the provider, which a loopback server emulates.
    type Vendor: Vendor;

    /// Creates the vendor.
    fn vendor(&self) -> Self::Vendor;

    /// Creates a provider for the server at `url`. `url` is a base URL without a trailing slash.
    ///
    /// The key is empty if [`Capabilities::api_key`] is `false`. Requests of the suite name no model, so set a model if
    /// the provider has no default.
    fn provider(&self, url: &str, api_key: &str) -> Self::Provider;

    /// Creates a provider with these time limits. Default: `None`, and [`timeouts`](super::timeouts) checks nothing.
    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Self::Provider> {
        let _ = (url, api_key, timeouts);
        None
    }

    /// Returns the capabilities of the provider and the vendor. Default: all.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// Time limits of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum wait for a connection.
    pub connect: Duration,
    /// Maximum wait for a whole response, and for a stream to begin.
    pub whole: Duration,
    /// Maximum wait between two pieces of a stream.
    pub idle: Duration,
}
