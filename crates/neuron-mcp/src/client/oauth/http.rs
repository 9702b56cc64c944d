//! HTTP requests to authorization servers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Url;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};

use super::addresses::AllowedNetworks;
use super::error::OAuthError;
use crate::client::http::proxy;

/// Maximum duration of a request. The SDK may set a shorter limit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response body in bytes. Documents of authorization servers are much shorter.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The HTTP client for authorization servers. The client connects only to [allowed networks](AllowedNetworks) and
/// follows no redirects. The client limits the duration and the length of responses.
pub(super) struct AuthorizationHttp {
    client: reqwest::Client,
    allowed: AllowedNetworks,
}

impl AuthorizationHttp {
    /// Creates a client. `builder` has the TLS configuration of the transport. `server` is the URL of the MCP server.
    /// If `allow_private` is `true`, the client may connect to private networks.
    pub(super) fn new(
        builder: reqwest::ClientBuilder,
        server: &Url,
        allow_private: bool,
    ) -> Result<Self, OAuthError> {
        let allowed = AllowedNetworks::new(server, allow_private);
        let client = builder
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Arc::new(allowed))
            .build()
            .map_err(|error| OAuthError::Configuration(error.to_string()))?;
        Ok(Self { client, allowed })
    }

    /// Sends a request and reads the complete response.
    async fn send(
        &self,
        request: OAuthHttpRequest,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let timeout = request.timeout.map_or(TIMEOUT, |wanted| wanted.min(TIMEOUT));
        let mut request = reqwest::Request::try_from(request.request)?;
        *request.timeout_mut() = Some(timeout);
        if !self.allowed.allow_url(request.url()) {
            return Err(
                "the URL has an address in a network that is not allowed for this server".into()
            );
        }
        let answer = self.client.execute(request).await;
        let answer = answer.map_err(|error| proxy::error_text(&error))?;
        let mut response = http::Response::new(Vec::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        let mut chunks = answer.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            if response.body().len() + chunk.len() > MAX_BODY_BYTES {
                return Err(format!(
                    "the response has more than {MAX_BODY_BYTES} bytes, a limit of this client"
                )
                .into());
            }
            response.body_mut().extend_from_slice(&chunk);
        }
        Ok(response)
    }
}

impl OAuthHttpClient for AuthorizationHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request))
    }
}
