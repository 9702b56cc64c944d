//! Tests with single frames, which the server of `h2` does not send.

use std::time::Duration;

use futures_util::future::{Either, select};
use neuron_http::{Endpoint, Rejection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::server::{Protocols, acceptor};
use super::{call, endpoint, trusts};

// The types of frames, from https://www.rfc-editor.org/rfc/rfc9113#section-6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Server {
    async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self { listener, acceptor: acceptor(Protocols::Both) }
    }

    fn endpoint(&self) -> Endpoint {
        endpoint(&format!("https://{}", self.listener.local_addr().expect("an address")))
    }

    /// Returns the next connection, after the handshake of TLS.
    async fn accept(&self) -> Connection {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        Connection(self.acceptor.accept(stream).await.expect("TLS"))
    }

    /// Returns the next connection with HTTP/2, which accepts 100 requests at the same time.
    async fn accept_http2(&self) -> Connection {
        let mut connection = self.accept().await;
        connection.0.read_exact(&mut [0; 24]).await.expect("a preface");
        connection.limit_streams(100).await;
        connection
    }
}

struct Connection(TlsStream<TcpStream>);

impl Connection {
    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, length @ ..] = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        let head = [&length[..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.write_all(&[&head, payload].concat()).await.expect("a client");
        self.0.flush().await.expect("a client");
    }

    /// Sends the setting `SETTINGS_MAX_CONCURRENT_STREAMS`, and waits until the client has applied it.
    async fn limit_streams(&mut self, limit: u32) {
        self.write(SETTINGS, 0, 0, &[&[0, 3][..], &limit.to_be_bytes()].concat()).await;
        self.read_until(|kind, flags| kind == SETTINGS && flags & ACK != 0).await;
    }

    /// Sends the head of a response and the first byte of its body. Its status is 200, which is the entry 8 of the
    /// static table of HPACK.
    async fn begin_response(&mut self, stream: u32) {
        self.write(HEADERS, END_HEADERS, stream, &[0x88]).await;
        self.write(DATA, 0, stream, b"{").await;
    }

    /// Returns the stream of the next request.
    async fn request(&mut self) -> u32 {
        self.read_until(|kind, _| kind == HEADERS).await
    }

    /// Reads up to the frame whose type and flags `is_last` accepts, and returns its stream.
    async fn read_until(&mut self, is_last: impl Fn(u8, u8) -> bool) -> u32 {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.expect("a frame");
            let [a, b, c, kind, flags, stream @ ..] = head;
            let length = u32::from_be_bytes([0, a, b, c]);
            let mut payload = vec![0; length.try_into().expect("a short frame")];
            self.0.read_exact(&mut payload).await.expect("a frame");
            if is_last(kind, flags) {
                return u32::from_be_bytes(stream);
            }
            if kind == SETTINGS && flags & ACK == 0 {
                self.write(SETTINGS, ACK, 0, &[]).await;
            }
        }
    }
}

/// Regression test. The request was sent again over HTTP/2, and failed.
#[tokio::test]
async fn server_that_requires_http1_for_the_connection_gets_http1() {
    if !trusts("http2::raw::server_that_requires_http1_for_the_connection_gets_http1", &[]) {
        return;
    }
    let server = Server::bind().await;
    let endpoint = server.endpoint();
    let serve = async {
        let mut first = server.accept_http2().await;
        first.request().await;
        // No stream is processed, and the code is `HTTP_1_1_REQUIRED`.
        first.write(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0xd]).await;
        let Connection(mut second) = server.accept().await;
        assert_eq!(second.get_ref().1.alpn_protocol(), None);
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n{}") {
            request.push(second.read_u8().await.expect("a request"));
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        second.write_all(answer).await.expect("a client");
        std::future::pending::<()>().await;
    };
    match select(Box::pin(call(&endpoint)), Box::pin(serve)).await {
        Either::Left((result, _)) => assert_eq!(result.expect("an answer"), b"{}"),
        Either::Right(((), _)) => unreachable!("the server does not end"),
    }
}

/// Regression test. The second request waited for the end of the first stream.
#[tokio::test]
async fn limit_that_a_server_lowers_later_is_obeyed() {
    if !trusts("http2::raw::limit_that_a_server_lowers_later_is_obeyed", &[]) {
        return;
    }
    let server = Server::bind().await;
    let endpoint = server.endpoint();
    let (limited, is_limited) = oneshot::channel();
    let serve = async {
        let mut first = server.accept_http2().await;
        let stream = first.request().await;
        first.begin_response(stream).await;
        first.limit_streams(1).await;
        limited.send(()).expect("a test that waits");
        let mut second = server.accept_http2().await;
        let stream = second.request().await;
        second.begin_response(stream).await;
        second.write(DATA, END_STREAM, stream, b"}").await;
        std::future::pending::<()>().await;
    };
    let work = async {
        let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
        let _first = post.await.expect("a response");
        is_limited.await.expect("a server");
        // The clock is stopped, so the wait takes no time.
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(3)).await;
        tokio::time::resume();
        timeout(Duration::from_secs(20), call(&endpoint)).await.expect("another connection")
    };
    match select(Box::pin(work), Box::pin(serve)).await {
        Either::Left((result, _)) => assert_eq!(result.expect("an answer"), b"{}"),
        Either::Right(((), _)) => unreachable!("the server does not end"),
    }
}
