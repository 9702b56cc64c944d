//! An HTTP client without TLS ([`PlainHttp`]).

use std::fmt::Display;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::http::HeaderValue;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use neuron_types::clock;
use restate_sdk::ingress::RequestExecutor;
use tokio::net::TcpStream;

/// Timeout of a request, including its connection and response.
const LIMIT: Duration = Duration::from_secs(60);

/// An HTTP/1 client for Restate's ports without TLS. It opens a connection for each request, and has a timeout of 60
/// seconds.
///
/// For `https` addresses or access tokens, use another client. The SDK's feature `reqwest-client` implements
/// [`RequestExecutor`] for `reqwest::Client`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainHttp;

impl RequestExecutor for PlainHttp {
    type Error = io::Error;

    async fn execute(&self, request: Request<Bytes>) -> Result<Response<Bytes>, io::Error> {
        let done = clock::within(LIMIT, exchange(request)).await;
        done.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Sends a request on a new connection, and reads the whole response.
async fn exchange(request: Request<Bytes>) -> io::Result<Response<Bytes>> {
    let (mut parts, body) = request.into_parts();
    if parts.uri.scheme_str() != Some("http") {
        return Err(invalid(format_args!("{} is no http address", parts.uri)));
    }
    let authority = parts.uri.authority().ok_or_else(|| invalid("the address has no host"))?;
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(invalid)?;
    parts.headers.insert(HOST, host);
    // The request line has only the path, because the request goes to the server directly and not through a proxy.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse::<Uri>().map_err(invalid)?;

    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let response = async {
        let request = Request::from_parts(parts, Full::new(body));
        let (parts, body) = sender.send_request(request).await?.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    };
    let done = match select(pin!(response), pin!(connection)).await {
        Either::Left((done, _)) => done,
        // The connection is closed after the last byte of the response.
        Either::Right((_, response)) => response.await,
    };
    done.map_err(|error: hyper::Error| io::Error::other(error))
}

/// Creates an error of the kind `InvalidInput`.
fn invalid(text: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.to_string())
}
