//! The HTTP client of an endpoint.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::PROXY_AUTHORIZATION;
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::{Client as Pool, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use neuron_model::{BoxError, ProviderError, WasmCompatSend};
use tokio::time::Instant;
use tower_service::Service;

use crate::chunks::Chunks;
use crate::connect::Connector;
use crate::deadline::Deadline;
use crate::http2::{MAX_IDLE, Multiplexed};
use crate::idle::{self, HasServed};
use crate::transport;

/// An HTTP client of your own, for [`Endpoint::with_client`](crate::Endpoint::with_client).
///
/// With the feature `reqwest`, a `reqwest::Client` can be converted into this type. On wasm32 the conversion needs no
/// feature, and `reqwest` is the only supported client.
#[derive(Clone)]
pub struct HttpClient(Arc<dyn Fn(Request<Full<Bytes>>) -> Sending + Send + Sync>);

/// The boxed future of a response.
type Sending = Pin<Box<dyn Future<Output = Result<Response<Chunks>, BoxError>> + Send>>;

impl HttpClient {
    /// Creates a client from a service. The service may be the pooled client of `hyper-util` with your own connector.
    ///
    /// # Example
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use hyper_util::client::legacy::Client;
    /// use hyper_util::rt::TokioExecutor;
    /// use neuron_http::HttpClient;
    ///
    /// let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    /// let client = HttpClient::new(client);
    /// ```
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Arc::new(move |request| {
            let mut service = service.clone();
            Box::pin(async move {
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
                let response = service.call(request).await.map_err(Into::into)?;
                Ok(response.map(Chunks::boxed))
            })
        }))
    }
}

#[cfg(feature = "reqwest")]
impl From<reqwest::Client> for HttpClient {
    fn from(client: reqwest::Client) -> Self {
        Self(Arc::new(move |request| {
            let client = client.clone();
            Box::pin(async move {
                let request = request.map(reqwest::Body::wrap);
                let response = client.execute(request.try_into()?).await;
                // The URL is removed from errors, because it may contain secrets. The caller adds the origin.
                let response: Response<reqwest::Body> =
                    response.map_err(reqwest::Error::without_url)?.into();
                Ok(response.map(Chunks::boxed))
            })
        }))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// The HTTP client of an endpoint. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) enum Http {
    /// The default client, hyper's pooled client.
    Own(Arc<Clients>),
    /// A client that the caller provides. It has its own connection pool.
    Given(HttpClient),
}

/// The clients of an endpoint. They are created for the first request and not by the constructor, because creating them
/// may fail.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// The client for the first attempt of a request. It keeps idle connections in a pool.
    pooled: OnceLock<Client>,
    /// The client for the second attempt of a request. It opens a new connection for each request.
    fresh: OnceLock<Client>,
    /// The connections for HTTP/2.
    http2: Multiplexed,
}

impl Default for Http {
    fn default() -> Self {
        Self::Own(Arc::default())
    }
}

impl From<HttpClient> for Http {
    fn from(client: HttpClient) -> Self {
        Self::Given(client)
    }
}

impl Http {
    /// Drops all connections after a setting of the endpoint changed. Does nothing for a client of the caller.
    pub(crate) fn reset(&mut self) {
        if let Self::Own(clients) = self {
            *clients = Arc::default();
        }
    }

    /// Sends a JSON body. Returns a response with any status, as soon as its headers have arrived.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Network`] if there is no response, and [`ProviderError::Timeout`] at the deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub(crate) fn post<'a>(
        &'a self,
        uri: &'a Uri,
        headers: HeaderMap,
        body: Bytes,
        connect: Duration,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Response<Chunks>, ProviderError>> + WasmCompatSend + 'a {
        async move {
            let sending = async {
                match self {
                    Self::Own(clients) => send(clients, uri, headers, body, connect).await,
                    Self::Given(HttpClient(send)) => send(post(uri, headers, body))
                        .await
                        .map_err(|error| transport::network_error(uri, &*error)),
                }
            };
            deadline.within(sending).await?
        }
    }
}

/// Builds a POST request for a URL.
fn post(uri: &Uri, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    request
}

/// Sends a request, over HTTP/2 if the server offers it. If the server closed the idle connection of the request, sends
/// the request again on a new connection.
///
/// The error of this second attempt is never [`Unsent`](neuron_model::Unsent), because the first attempt may have
/// reached the server.
async fn send(
    clients: &Clients,
    uri: &Uri,
    headers: HeaderMap,
    body: Bytes,
    connect: Duration,
) -> Result<Response<Chunks>, ProviderError> {
    let client = client(&clients.pooled, uri, connect, usize::MAX)?;
    if uri.scheme() == Some(&Scheme::HTTPS) {
        let request = || post(uri, headers.clone(), body.clone());
        // Boxed, because the future would enlarge the future of each request.
        let sending = Box::pin(clients.http2.send(&client.connector, uri, request));
        if let Some(response) = sending.await? {
            return Ok(response);
        }
    }
    let start = Instant::now();
    // The copy has no room for hyper's own headers, so it is kept and the map with more room is sent.
    let kept = headers.clone();
    let error = match client.send(post(uri, headers, body.clone())).await {
        Ok(response) => {
            HasServed::mark(response.extensions());
            return Ok(response.map(Chunks::Incoming));
        }
        Err(error) => error,
    };
    if start.elapsed() >= idle::CLOSE_WINDOW || !idle::was_closed(&error) {
        return Err(transport::network_error(uri, &error));
    }
    let client = self::client(&clients.fresh, uri, connect, 0)?;
    match client.send(post(uri, kept, body)).await {
        Ok(response) => Ok(response.map(Chunks::Incoming)),
        Err(error) => Err(transport::second_attempt_error(uri, &error)),
    }
}

/// A connection pool and the connector that opens its connections.
#[derive(Debug)]
struct Client {
    pool: Pool<Connector, Full<Bytes>>,
    connector: Connector,
}

impl Client {
    fn send(&self, mut request: Request<Full<Bytes>>) -> ResponseFuture {
        if let Some(credentials) = self.connector.proxy_authorization(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credentials.clone());
        }
        self.pool.request(request)
    }
}

/// Returns the client in `slot`, and creates the client if the slot is empty. The created client keeps up to `max_idle`
/// idle connections.
fn client<'c>(
    slot: &'c OnceLock<Client>,
    uri: &Uri,
    connect: Duration,
    max_idle: usize,
) -> Result<&'c Client, ProviderError> {
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    let connector = Connector::new(uri, connect).map_err(|error| transport::tls_error(&error))?;
    let pool = Pool::builder(TokioExecutor::new())
        .pool_idle_timeout(MAX_IDLE)
        .pool_max_idle_per_host(max_idle)
        .pool_timer(TokioTimer::new())
        .build(connector.clone());
    Ok(slot.get_or_init(|| Client { pool, connector }))
}
