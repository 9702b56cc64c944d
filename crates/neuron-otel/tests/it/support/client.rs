//! The exporters' client of HTTP. Those that `opentelemetry-otlp` brings need TLS or the runtime of the
//! caller; an exporter calls from a thread without one. This one hands its requests to a runtime of its own.

use std::pin::Pin;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// One connection for each request, on a runtime that somebody else drives.
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
    // To a server, not to a proxy: the path alone.
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
