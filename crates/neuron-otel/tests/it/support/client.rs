//! The HTTP client that the exporters use.
//!
//! The clients in `opentelemetry-otlp` need TLS or the caller's runtime, but an exporter runs on a thread without a
//! runtime. This client brings its own runtime.

use std::pin::Pin;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// A client that opens a new connection for each request, on a runtime that another thread drives.
#[derive(Debug, Clone)]
pub(crate) struct Client(pub(crate) Handle);

impl HttpClient for Client {
    fn send_bytes<'client, 'sending>(
        &'client self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sending>>
    where
        'client: 'sending,
    {
        let sending = self.0.spawn(send(request));
        Box::pin(async { sending.await? })
    }
}

async fn send(mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let authority = request.uri().authority().ok_or("a url without a host")?.clone();
    let stream = TcpStream::connect(authority.as_str()).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    // A request that is sent directly to a server, and not to a proxy, contains only the path of the URL.
    let path = request.uri().path_and_query().ok_or("a url without a path")?.as_str().parse()?;
    *request.uri_mut() = path;
    let host = http::HeaderValue::from_str(authority.as_str())?;
    request.headers_mut().insert(http::header::HOST, host);
    let response = sender.send_request(request.map(Full::new)).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    drop(sender);
    connection.await??;
    Ok(Response::from_parts(head, body))
}
