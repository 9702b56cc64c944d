//! AWS credentials: where they come from, and how long they are kept.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::iter::successors;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, Result as Loaded, future};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::result::ConnectorError;
use neuron_model::{BoxError, ProviderError, Unsent};
use tokio::sync::Mutex;

/// Time before their expiry at which credentials are loaded again. The request must arrive before they expire.
const MARGIN: Duration = Duration::from_secs(60);

/// Time for which credentials without an expiry are kept, as in AWS's SDKs. A file may have changed after it.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Time for which credentials are kept that are about to expire when they are loaded. Their source has no better ones.
const MIN_LIFETIME: Duration = Duration::from_secs(5);

/// The credentials of a source, loaded when they are needed. Concurrent calls load them once.
pub(crate) struct CachedCredentials {
    provider: Box<dyn ProvideCredentials>,
    /// The credentials, and the time at which they are loaded again. Locked while they are loaded.
    kept: Mutex<Option<(Credentials, SystemTime)>>,
}

impl CachedCredentials {
    pub(crate) fn new(provider: impl ProvideCredentials + 'static) -> Self {
        Self { provider: Box::new(provider), kept: Mutex::default() }
    }

    /// Returns the credentials. Loads them if there are none, or if they are about to expire.
    ///
    /// # Errors
    ///
    /// - [`ProviderError::Authentication`] if there are no credentials, or if they are refused.
    /// - [`ProviderError::Network`] if their source cannot be reached. It is [`Unsent`].
    ///
    /// An error is not kept, so the next call loads again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the load. Another call that waits then starts a load of its own.
    pub(crate) async fn get(&self) -> Result<Credentials, ProviderError> {
        let mut kept = self.kept.lock().await;
        if let Some((credentials, until)) = &*kept
            && SystemTime::now() < *until
        {
            return Ok(credentials.clone());
        }
        let loaded = self.provider.provide_credentials().await;
        let credentials = loaded.map_err(|error| load_error(&error))?;
        let until = keep_until(SystemTime::now(), credentials.expiry());
        *kept = until.map(|until| (credentials.clone(), until));
        Ok(credentials)
    }
}

/// Returns the time at which credentials that were loaded at `now` are loaded again. Returns `None` for a time that
/// cannot be represented.
fn keep_until(now: SystemTime, expiry: Option<SystemTime>) -> Option<SystemTime> {
    match expiry {
        Some(expiry) => expiry.checked_sub(MARGIN).max(now.checked_add(MIN_LIFETIME)),
        None => now.checked_add(DEFAULT_LIFETIME),
    }
}

impl fmt::Debug for CachedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedCredentials").finish_non_exhaustive()
    }
}

/// The sources of credentials that AWS's SDKs try by default, one after the other.
///
/// <https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html>
///
/// Every load starts anew, so that a changed variable or file counts.
#[derive(Debug)]
pub(crate) struct DefaultSources {
    region: Region,
}

impl DefaultSources {
    /// Creates the sources. `region` is the region of the service that exchanges an identity for credentials.
    pub(crate) fn new(region: String) -> Self {
        Self { region: Region::new(region) }
    }

    async fn load(&self) -> Loaded {
        // The SDK's default client has another TLS than ours, and uses no proxy.
        let client = http_client_fn(|settings, components| {
            let mut connector = Connector::builder()
                .connector_settings(settings.clone())
                .proxy_config(ProxyConfig::from_env());
            connector.set_sleep_impl(components.sleep_impl());
            let connector = connector.tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
            SharedHttpConnector::new(connector)
        });
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(self.region.clone())
            .http_client(client);
        match config.load().await.credentials_provider() {
            Some(provider) => provider.provide_credentials().await,
            None => Err(CredentialsError::not_loaded_no_source()),
        }
    }
}

impl ProvideCredentials for DefaultSources {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.load())
    }
}

/// Converts the error of a source.
fn load_error(error: &CredentialsError) -> ProviderError {
    let outermost: &(dyn Error + 'static) = error;
    let causes: Vec<_> = successors(Some(outermost), |&error| error.source()).collect();
    let text = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let is_unreachable = matches!(error, CredentialsError::ProviderTimedOut(_))
        || causes
            .iter()
            .filter_map(|cause| cause.downcast_ref::<ConnectorError>())
            .any(|error| error.is_io() || error.is_timeout());
    match error {
        CredentialsError::CredentialsNotLoaded(_) => ProviderError::Authentication(format!(
            "there are no AWS credentials ({text}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile \
             with AWS_PROFILE, or give the machine a role"
        )),
        _ if is_unreachable => {
            let text = format!("the source of the AWS credentials cannot be reached: {text}");
            ProviderError::Network(Box::new(Unsent(BoxError::from(text))))
        }
        _ => ProviderError::Authentication(format!(
            "the AWS credentials cannot be loaded ({text}): check them with `aws sts get-caller-identity`, and sign in \
             again with `aws sso login` if the profile uses SSO"
        )),
    }
}
