//! The trait that describes a provider to the suite, and the provider's time limits.

use std::fmt;
use std::time::Duration;

use neuron_types::Provider;

use super::Capabilities;
use neuron_testing::vendor::Vendor;

/// Creates the provider under test and a local emulation of its vendor's API.
///
/// Implement this trait on a unit struct in your tests. [The module's page](super) has an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not describe a provider",
    note = "implement `ProviderHarness` on a struct of your tests, and pass that"
)]
pub trait ProviderHarness: Sync {
    /// The type of the provider. The suite checks that its `Debug` output does not contain the key.
    type Provider: Provider + fmt::Debug + 'static;

    /// The type of the vendor whose API the provider calls. A loopback server emulates this vendor.
    type Vendor: Vendor;

    /// Creates the vendor that the loopback server emulates.
    fn vendor(&self) -> Self::Vendor;

    /// Creates a provider that sends its requests to `url`, a base URL without a trailing slash.
    ///
    /// `api_key` is empty if [`Capabilities::api_key`] is `false`. The requests of the suite name no model. If the
    /// provider has no default model, set a model.
    fn provider(&self, url: &str, api_key: &str) -> Self::Provider;

    /// Creates a provider like [`provider`](Self::provider), with these time limits.
    ///
    /// Returns `None`, the default, if the limits cannot be set. The part [`timeouts`](super::timeouts) then checks
    /// nothing.
    fn provider_with_timeouts(
        &self,
        url: &str,
        api_key: &str,
        timeouts: Timeouts,
    ) -> Option<Self::Provider> {
        let _ = (url, api_key, timeouts);
        None
    }

    /// Returns the capabilities of the provider and the vendor. Default: [`Capabilities::default`].
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// The time limits of a provider's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time to open a connection.
    pub connect: Duration,
    /// Maximum time until a whole response has arrived, or until a stream begins.
    pub whole: Duration,
    /// Maximum time between two chunks of a stream.
    pub idle: Duration,
}
