//! One request over plain HTTP, as the engines' administration takes them.

use std::future::pending;
use std::io;
use std::pin::pin;

use bytes::Bytes;
use futures_util::future::select;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Sends JSON to a port of the loopback interface, and returns the status and the body of the answer.
pub(super) async fn post(port: u16, path: &str, json: &Value) -> io::Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, "127.0.0.1")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Full::new(Bytes::from(json.to_string())))
        .map_err(io::Error::other)?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    // The connection makes progress only while it is polled, and may end before the answer is read.
    let connection = async {
        match connection.await {
            Ok(()) => pending().await,
            Err(error) => Err(error),
        }
    };
    let (answer, _) = select(pin!(exchange), pin!(connection)).await.factor_first();
    answer.map_err(io::Error::other)
}
