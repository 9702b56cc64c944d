//! HTTP requests to authorization servers.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use http::header::AUTHORIZATION;
use reqwest::Url;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde_json::{Map, Value};

use super::addresses::AllowedNetworks;
use super::error::OAuthError;
use crate::client::http::proxy;
use crate::text::shortened;

/// Maximum duration of a request. The SDK may set a shorter limit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response body in bytes. Documents of authorization servers are much shorter.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Fields of requests to a token endpoint that are secret.
const SECRET: [&str; 4] = ["client_secret", "code", "code_verifier", "refresh_token"];

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
        let secrets = secrets(&request.request);
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
        if !response.status().is_success() {
            let body = shown(response.body(), &secrets);
            *response.body_mut() = body;
        }
        Ok(response)
    }
}

impl OAuthHttpClient for AuthorizationHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request))
    }
}

/// Returns the secrets that a request to a token endpoint contains.
fn secrets(request: &http::Request<Vec<u8>>) -> Vec<String> {
    let fields = |form: &str| -> Vec<(String, String)> {
        let url = Url::parse(&format!("form:?{form}"));
        url.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default()
    };
    let body = String::from_utf8_lossy(request.body());
    let mut found = fields(&body);
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let encoded = header.and_then(|value| value.strip_prefix("Basic "));
    let basic = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
    let basic = String::from_utf8(basic.unwrap_or_default()).unwrap_or_default();
    if let Some((_, secret)) = basic.split_once(':') {
        // The secret is encoded like a field of a form (RFC 6749, section 2.3.1).
        found.extend(fields(&format!("client_secret={secret}")));
    }
    // A server may also repeat the request as it was sent.
    let sent = body.split('&').filter_map(|field| field.split_once('='));
    found.extend(sent.map(|(name, value)| (name.to_owned(), value.to_owned())));
    found.retain(|(name, value)| SECRET.contains(&name.as_str()) && !value.is_empty());
    let found = found.into_iter().map(|(_, value)| value);
    let encoded = encoded.filter(|encoded| !encoded.is_empty());
    found.chain(encoded.map(str::to_owned)).collect()
}

/// Returns the body of an error response with shortened texts, in which `secrets` are redacted. The SDK copies these
/// texts into errors, and a server may repeat parts of the request.
fn shown(body: &[u8], secrets: &[String]) -> Vec<u8> {
    let redacted = |text: &str| {
        let redact = |text: String, secret: &String| text.replace(secret, "[redacted]");
        shortened(&secrets.iter().fold(text.to_owned(), redact))
    };
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(body) else {
        return redacted(&String::from_utf8_lossy(body)).into_bytes();
    };
    for value in fields.values_mut() {
        match &*value {
            Value::String(text) => *value = redacted(text).into(),
            Value::Array(_) | Value::Object(_) => *value = redacted(&value.to_string()).into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    serde_json::to_vec(&fields).unwrap_or_default()
}
