//! Requests over plain HTTP to servers on the loopback interface.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use tokio::sync::oneshot;

/// Maximum time for a response that may take long.
const LONG: Duration = Duration::from_secs(300);

/// The status and the body of a response.
pub(crate) type Response = (u16, String);

/// Sends JSON to a port. A thread of its own waits for the response, so a runtime is not blocked.
pub(crate) async fn post(port: u16, path: &str, json: String) -> io::Result<Response> {
    let path = path.to_owned();
    let (sender, response) = oneshot::channel();
    let exchange = move || {
        // If nobody waits any more, the response is dropped.
        let _ = sender.send(request(port, "POST", &path, &json, LONG));
    };
    std::thread::Builder::new().spawn(exchange)?;
    response.await.map_err(io::Error::other)?
}

/// Sends a request to a port. The limit holds for connecting, and for each read.
pub(crate) fn request(
    port: u16,
    method: &str,
    path: &str,
    body: &str,
    limit: Duration,
) -> io::Result<Response> {
    let mut stream = connect(port, limit)?;
    stream.set_read_timeout(Some(limit))?;
    // Version 1.0: the body ends with the connection, and is not in chunks.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: 127.0.0.1\r\naccept: application/json\r\n\
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

/// Connects to a port.
pub(crate) fn connect(port: u16, limit: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)
}
