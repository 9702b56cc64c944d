//! The HTTP client on wasm32, which uses the browser's `fetch` through `reqwest`.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, Uri};
use neuron_model::{BoxError, ProviderError, WasmCompatSend};
use reqwest::Client;

use crate::chunks::Chunks;
use crate::deadline::Deadline;
use crate::transport;

/// An HTTP client of your own, for [`Endpoint::with_client`](crate::Endpoint::with_client).
#[derive(Clone)]
pub struct HttpClient(Client);

impl From<Client> for HttpClient {
    fn from(client: Client) -> Self {
        Self(client)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// The HTTP client of an endpoint. `None` for a new `reqwest` client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Http(Option<HttpClient>);

impl From<HttpClient> for Http {
    fn from(client: HttpClient) -> Self {
        Self(Some(client))
    }
}

impl Http {
    /// Does nothing, because the browser manages the connections.
    pub(crate) fn reset(&mut self) {}

    /// Sends a JSON body. Returns a response with any status, as soon as its headers have arrived.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Network`] if there is no response.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub(crate) fn post<'a>(
        &'a self,
        uri: &'a Uri,
        headers: HeaderMap,
        body: Bytes,
        _connect: Duration,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Response<Chunks>, ProviderError>> + WasmCompatSend + 'a {
        async move {
            let client =
                self.0.as_ref().map_or_else(Client::new, |HttpClient(client)| client.clone());
            let sending = client.post(uri.to_string()).headers(headers).body(body).send();
            let response = deadline.within(sending).await?.map_err(|error| {
                transport::network_error(uri, &*BoxError::from(error.without_url()))
            })?;
            let (status, headers) = (response.status(), response.headers().clone());
            let mut chunks = Response::new(Chunks(Box::pin(response.bytes_stream())));
            *chunks.status_mut() = status;
            *chunks.headers_mut() = headers;
            Ok(chunks)
        }
    }
}
