//! A server that lets a test control each byte of a connection.

#![expect(clippy::expect_used, reason = "a test whose own server fails has failed")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server on 127.0.0.1 that lets a test control each byte of a connection.
///
/// A test can send nothing, half a response, or a response that does not end. The server does not depend on a vendor
/// and implements only the necessary part of HTTP.
///
/// # Panics
///
/// The methods of this type and of [`RawConnection`] panic if the operating system or the client fails.
///
/// # Example: reset a connection within a response
///
/// ```
/// use neuron_testing::RawServer;
///
/// # async fn example() {
/// let server = RawServer::bind().await;
/// // Give `server.url()` to a provider, and poll its call at the same time.
/// let mut connection = server.request().await;
/// connection.head(200, "application/json", 100).await;
/// connection.write("{").await;
/// connection.reset();
/// # }
/// ```
#[derive(Debug)]
pub struct RawServer(TcpListener);

impl RawServer {
    /// Binds to a free port.
    pub async fn bind() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port"))
    }

    /// Returns the base URL without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("an address"))
    }

    /// Accepts a connection and reads a request from it.
    pub async fn request(&self) -> RawConnection {
        let (stream, _) = self.0.accept().await.expect("a connection");
        let mut connection = RawConnection { stream };
        connection.request().await;
        connection
    }

    /// Accepts a connection, reads a request, and writes the head of a response and then `bytes`. `length` is the
    /// length of the body, and `bytes` may be only a part of the body.
    pub async fn respond(
        &self,
        status: u16,
        content_type: &str,
        length: usize,
        bytes: impl AsRef<[u8]>,
    ) -> RawConnection {
        let mut connection = self.request().await;
        connection.head(status, content_type, length).await;
        connection.write(bytes).await;
        connection
    }
}

/// A connection of a [`RawServer`]. Dropping it closes it.
#[derive(Debug)]
pub struct RawConnection {
    /// The TCP stream of the connection.
    pub stream: TcpStream,
}

impl RawConnection {
    /// Reads a request, which must have a `content-length` header.
    pub async fn request(&mut self) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.expect("a whole head"));
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let (_, length) = head.split_once("content-length: ").expect("a length");
        let length = length.split("\r\n").next().and_then(|length| length.parse().ok());
        let mut body = vec![0; length.expect("a length that is a number")];
        self.stream.read_exact(&mut body).await.expect("a whole body");
    }

    /// Writes and flushes bytes.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("a client that reads");
        self.stream.flush().await.expect("a client that reads");
    }

    /// Writes these bytes repeatedly until the client closes the connection.
    pub async fn write_until_closed(&mut self, bytes: impl AsRef<[u8]>) {
        while self.stream.write_all(bytes.as_ref()).await.is_ok() {}
    }

    /// Writes the head of a response with a body of `length` bytes.
    pub async fn head(&mut self, status: u16, content_type: &str, length: usize) {
        self.write(format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        ))
        .await;
    }

    /// Resets the connection, as a failing host does.
    pub fn reset(self) {
        // With zero linger, closing does not wait and unsent bytes are discarded.
        self.stream.set_zero_linger().expect("an open connection");
    }
}
