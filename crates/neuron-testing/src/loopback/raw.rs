//! A server that lets a test control each byte of a connection.

#![expect(clippy::expect_used, reason = "a test whose own server fails has failed")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server on 127.0.0.1 that lets a test control each byte of a connection.
///
/// A test can send no bytes, half a response, or a response that never ends. The server parses only the part of HTTP
/// that is necessary to read a request.
///
/// # Panics
///
/// The methods of `RawServer` and of [`RawConnection`] panic if a system call fails or the client closes the connection
/// unexpectedly.
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
    /// Starts to listen on a free port of 127.0.0.1.
    pub async fn bind() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port"))
    }

    /// Returns the base URL of the server, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("an address"))
    }

    /// Accepts the next connection and reads one request from it.
    pub async fn request(&self) -> RawConnection {
        let (stream, _) = self.0.accept().await.expect("a connection");
        let mut connection = RawConnection { stream };
        connection.request().await;
        connection
    }

    /// Accepts the next connection and reads one request. Then writes the head of a response and `bytes`.
    ///
    /// `length` is the value of the `content-length` header. It may be larger than the number of `bytes`, so that the
    /// body is incomplete.
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

/// A connection of a [`RawServer`]. Dropping the value closes the connection.
#[derive(Debug)]
pub struct RawConnection {
    /// The TCP stream of the connection.
    pub stream: TcpStream,
}

impl RawConnection {
    /// Reads and discards one request. The request must have a `content-length` header.
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

    /// Writes `bytes` to the connection and flushes them.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("a client that reads");
        self.stream.flush().await.expect("a client that reads");
    }

    /// Writes `bytes` again and again until the client closes the connection.
    pub async fn write_until_closed(&mut self, bytes: impl AsRef<[u8]>) {
        while self.stream.write_all(bytes.as_ref()).await.is_ok() {}
    }

    /// Writes the status line and the headers of a response whose body has `length` bytes.
    pub async fn head(&mut self, status: u16, content_type: &str, length: usize) {
        self.write(format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        ))
        .await;
    }

    /// Resets the connection with a TCP RST, as a host that crashes does.
    pub fn reset(self) {
        // With zero linger, `close` sends a RST instead of a FIN and discards unsent bytes.
        self.stream.set_zero_linger().expect("an open connection");
    }
}
