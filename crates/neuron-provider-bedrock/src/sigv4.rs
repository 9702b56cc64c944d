//! Signatures of requests with AWS credentials ([`Sigv4`]).
//!
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use neuron_http::http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use neuron_http::http::{HeaderValue, Method, Uri};
use neuron_model::{BoxError, ProviderError};

use crate::credentials::CachedCredentials;

/// Content type of every request. The header is a part of the signature.
pub(crate) const JSON: &str = "application/json";

/// Name of the service in signatures. The host has another name, `bedrock-runtime`.
const SERVICE: &str = "bedrock";

/// Signs requests with credentials that are loaded before the first request and before they expire. Clones share the
/// credentials.
#[derive(Debug, Clone)]
pub(crate) struct Sigv4(Arc<CachedCredentials>);

impl Sigv4 {
    pub(crate) fn new(provider: impl ProvideCredentials + 'static) -> Self {
        Self(Arc::new(CachedCredentials::new(provider)))
    }

    /// Loads the credentials if none are cached. Returns the token of temporary credentials, or an empty text. Servers
    /// quote the token if they refuse a signature, so errors must not show it.
    ///
    /// # Errors
    ///
    /// - [`ProviderError::Authentication`] if there are no credentials, or if they are refused.
    /// - [`ProviderError::Network`] if the source of the credentials cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the load. The next call starts it again.
    pub(crate) async fn token(&self) -> Result<String, ProviderError> {
        let credentials = self.0.get().await?;
        Ok(credentials.session_token().unwrap_or_default().to_owned())
    }

    /// Returns the headers that authenticate a POST request with the content type [`JSON`]. The values of secret headers
    /// are marked as sensitive, so `Debug` does not show them.
    ///
    /// # Errors
    ///
    /// The errors of [`token`](Self::token), and [`ProviderError::InvalidRequest`] for a URL without a host.
    ///
    /// # Cancel safety
    ///
    /// As [`token`](Self::token).
    pub(crate) async fn headers(
        &self,
        region: &str,
        uri: &Uri,
        body: &[u8],
    ) -> Result<HeaderMap, ProviderError> {
        signed_headers(&self.0.get().await?, region, uri, body, SystemTime::now())
    }
}

fn signed_headers(
    credentials: &Credentials,
    region: &str,
    uri: &Uri,
    body: &[u8],
    time: SystemTime,
) -> Result<HeaderMap, ProviderError> {
    if uri.host().is_none() {
        return Err(ProviderError::InvalidRequest(format!("the URL {uri} has no host")));
    }
    let unsigned = |error: BoxError| {
        ProviderError::Authentication(format!("the request cannot be signed: {error}"))
    };
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(time)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| unsigned(error.into()))?
        .into();
    let content_type = [(CONTENT_TYPE.as_str(), JSON)].into_iter();
    let method = Method::POST;
    let body = SignableBody::Bytes(body);
    let request = SignableRequest::new(method.as_str(), uri.to_string(), content_type, body)
        .map_err(|error| unsigned(error.into()))?;
    let (signature, _) =
        sign(request, &params).map_err(|error| unsigned(error.into()))?.into_parts();
    let mut headers = HeaderMap::new();
    for (name, value) in signature.headers() {
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|error| unsigned(error.into()))?;
        // The error for a value does not quote the value.
        let mut value = HeaderValue::from_str(value).map_err(|error| unsigned(error.into()))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
