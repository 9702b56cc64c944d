//! HTTP requests to Restate's two ports.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Sends a request to a server. Returns the status and the body as JSON. An empty body becomes null, and a body that is
/// not JSON becomes a string.
pub(crate) async fn send(
    url: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    send_once(url, method, path, body, None).await
}

/// Sends a request with an optional idempotency key. Restate handles repeated requests with the same key only once.
pub(crate) async fn send_once(
    url: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    key: Option<&str>,
) -> std::io::Result<(u16, Value)> {
    let authority = url.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(authority).await?;
    let other = std::io::Error::other::<hyper::Error>;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(other)?;
    let connection = tokio::spawn(connection);
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("host", authority)
        .header("accept", "application/json");
    let request = match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    };
    let request = match body {
        Some(body) => request
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string()))),
        None => request.body(Full::new(Bytes::new())),
    };
    let response = sender.send_request(request.unwrap()).await.map_err(other)?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(other)?.to_bytes();
    connection.abort();
    let body = match &body[..] {
        b"" => Value::Null,
        body => serde_json::from_slice(body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned())),
    };
    Ok((status, body))
}
