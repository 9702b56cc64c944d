//! A plain client of Anthropic's API. The benchmarks compare agents and providers with its costs.

use bytes::Bytes;
use http::uri::InvalidUri;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use neuron_testing::AnthropicServer;

/// A plain hyper client with the same connection pool as the providers. Sends prepared bodies.
#[derive(Debug, Clone)]
pub(crate) struct BareClient {
    http: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
}

impl BareClient {
    /// Creates a client of a server, without sending a request.
    pub(crate) fn new(server: &str) -> Result<Self, InvalidUri> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static(AnthropicServer::API_KEY));
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).build(connector),
            url: format!("{server}/v1/messages").parse()?,
            headers,
        })
    }

    /// Posts a body. The returned future completes with the head of the response.
    pub(crate) fn post(&self, body: Bytes) -> ResponseFuture {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        self.http.request(request)
    }
}
