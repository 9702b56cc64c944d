//! Sends HTTP requests to servers on the loopback interface.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use tokio::sync::oneshot;

/// Time limit for connecting and for each read of a request that may take long.
const LONG: Duration = Duration::from_secs(300);

/// Time limit for connecting and for each read of a health check.
const SHORT: Duration = Duration::from_secs(2);

/// The status and the body of a response.
pub(crate) type Response = (u16, String);

/// Sends a POST request with JSON to a port of 127.0.0.1. A separate thread waits for the response, so that the runtime
/// is not blocked.
pub(crate) async fn post(port: u16, path: &str, json: String) -> io::Result<Response> {
    let method_and_path = format!("POST {path}");
    let (sender, response) = oneshot::channel();
    let exchange = move || {
        // The receiver is dropped if the caller was cancelled. The response is then not needed.
        let _ = sender.send(request(port, &method_and_path, &json, LONG));
    };
    std::thread::Builder::new().spawn(exchange)?;
    response.await.map_err(io::Error::other)?
}

/// Returns `true` if a GET request to a port of 127.0.0.1 gets a response with status 200 within [`SHORT`].
///
/// The time limit is necessary because another process, which does not respond, may have taken the port.
pub(crate) fn is_healthy(port: u16, path: &str) -> bool {
    request(port, &format!("GET {path}"), "", SHORT).is_ok_and(|(status, _)| status == 200)
}

/// Returns `true` if a process listens on this port of 127.0.0.1.
pub(crate) fn listens(port: u16) -> bool {
    connect(port, SHORT).is_ok()
}

/// Sends a request to a port of 127.0.0.1, and returns the response. `limit` applies to connecting and to each read.
fn request(port: u16, method_and_path: &str, body: &str, limit: Duration) -> io::Result<Response> {
    let mut stream = connect(port, limit)?;
    stream.set_read_timeout(Some(limit))?;
    // With HTTP/1.0 the server closes the connection after the body, and never sends chunks.
    write!(
        stream,
        "{method_and_path} HTTP/1.0\r\nhost: 127.0.0.1\r\naccept: application/json\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let parsed = response
        .split_once("\r\n\r\n")
        .and_then(|(head, body)| Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned())));
    parsed.ok_or_else(|| io::Error::other(format!("not a response of HTTP: {response}")))
}

fn connect(port: u16, limit: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)
}
