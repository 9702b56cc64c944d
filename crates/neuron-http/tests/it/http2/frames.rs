//! Tests of streams that a server refuses, resets or cuts.

use std::cell::Cell;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{Either, join_all, select};
use h2::server::{self, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use neuron_http::{Endpoint, Rejection};
use neuron_model::ProviderError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::server::{Protocols, acceptor};
use super::{call, endpoint, trusts};

/// An action of the server after it has received a request.
#[derive(Debug, Clone, Copy)]
enum Step {
    Answer,
    /// Resets the stream before the head of a response.
    Reset(Reason),
    /// Sends a body that is longer than its header says.
    WrongLength,
    /// Resets the stream within the body.
    ResetBody(Reason),
    /// Closes the TCP connection before the head of a response.
    Close,
    /// Closes the TCP connection within the body.
    CloseBody,
    /// Sends GOAWAY within the body, and then the end of the body.
    GoAway,
    /// Reads and writes nothing for 40 seconds, and then sends a response.
    Block,
    /// Waits, and then closes the TCP connection.
    CloseLate,
}

/// A server that counts requests.
struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    seen: Cell<usize>,
}

type Http2 = Connection<TlsStream<TcpStream>, Bytes>;

impl Server {
    async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self { listener, acceptor: acceptor(Protocols::Both), seen: Cell::new(0) }
    }

    fn endpoint(&self) -> Endpoint {
        endpoint(&format!("https://{}", self.listener.local_addr().expect("an address")))
    }

    /// Returns the next connection with HTTP/2. A connection with HTTP/1.1 gets a complete response.
    async fn accept(&self) -> Http2 {
        loop {
            let (stream, _) = self.listener.accept().await.expect("a connection");
            let mut stream = self.acceptor.accept(stream).await.expect("TLS");
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                return server::handshake(stream).await.expect("HTTP/2");
            }
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n{}") {
                request.push(stream.read_u8().await.expect("a request"));
            }
            self.seen.set(self.seen.get() + 1);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(answer).await.expect("a client");
            stream.shutdown().await.expect("a client");
        }
    }

    async fn request(&self, connection: &mut Http2) -> Option<SendResponse<Bytes>> {
        let (request, response) = connection.accept().await?.ok()?;
        self.seen.set(self.seen.get() + 1);
        let _: Request<RecvStream> = request;
        Some(response)
    }

    /// Serves connections at the same time. The connection number `n` follows the script number `n`. Each later request
    /// gets a complete response.
    async fn serve(&self, scripts: &[&[Step]]) {
        let mut scripts = scripts.iter();
        let mut open = futures_util::stream::FuturesUnordered::new();
        loop {
            let accepted = {
                let accept = std::pin::pin!(self.accept());
                let others = async {
                    while open.next().await.is_some() {}
                    std::future::pending::<()>().await;
                };
                match select(accept, std::pin::pin!(others)).await {
                    Either::Left((accepted, _)) => accepted,
                    Either::Right(((), _)) => unreachable!("the others do not end"),
                }
            };
            open.push(self.follow(accepted, scripts.next().copied().unwrap_or_default()));
        }
    }

    async fn follow(&self, mut connection: Http2, script: &[Step]) {
        let mut script = script.iter();
        while let Some(mut response) = self.request(&mut connection).await {
            let step = script.next().copied().unwrap_or(Step::Answer);
            let mut body = match step {
                Step::Reset(reason) => {
                    response.send_reset(reason);
                    continue;
                }
                Step::Block => {
                    tokio::time::pause();
                    tokio::time::sleep(Duration::from_secs(40)).await;
                    tokio::time::resume();
                    response.send_response(Response::new(()), false).expect("an open stream")
                }
                Step::Close => return,
                Step::CloseLate => {
                    let wait = tokio::time::sleep(Duration::from_millis(1500));
                    // The connection is driven meanwhile.
                    let _ = select(Box::pin(wait), Box::pin(self.request(&mut connection))).await;
                    return;
                }
                _ => {
                    let mut head = Response::new(());
                    if let Step::WrongLength = step {
                        head.headers_mut().insert(CONTENT_LENGTH, 1.into());
                    }
                    response.send_response(head, false).expect("an open stream")
                }
            };
            let (first, last) = (Bytes::from_static(b"{"), Bytes::from_static(b"}"));
            body.send_data(first, false).expect("an open stream");
            match step {
                Step::ResetBody(reason) => {
                    flush(&mut connection).await;
                    body.send_reset(reason);
                }
                Step::CloseBody => {
                    flush(&mut connection).await;
                    return;
                }
                Step::GoAway => {
                    connection.graceful_shutdown();
                    flush(&mut connection).await;
                    body.send_data(last, true).expect("an open stream");
                }
                _ => body.send_data(last, true).expect("an open stream"),
            }
        }
    }

    /// Makes `calls` calls one after another, while the server follows `scripts`. Returns the result of the last call,
    /// and the number of requests that the server received.
    async fn calls(
        &self,
        calls: usize,
        scripts: &[&[Step]],
    ) -> (Result<Vec<u8>, ProviderError>, usize) {
        let endpoint = self.endpoint();
        let work = async {
            for _ in 1..calls {
                call(&endpoint).await.expect("an answer");
            }
            call(&endpoint).await
        };
        match select(Box::pin(work), Box::pin(self.serve(scripts))).await {
            Either::Left((result, _)) => (result, self.seen.get()),
            Either::Right(((), _)) => unreachable!("the server does not end"),
        }
    }
}

/// Writes what the connection has buffered.
async fn flush(connection: &mut Http2) {
    for _ in 0..20 {
        poll_fn(|cx| {
            // A request that arrives meanwhile is not expected.
            let _ = connection.poll_closed(cx);
            std::task::Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn unprocessed_request_is_sent_once_more() {
    if !trusts("http2::frames::unprocessed_request_is_sent_once_more", &[]) {
        return;
    }
    use Step::*;
    let refused = Reset(Reason::REFUSED_STREAM);
    for (scripts, calls, requests) in [
        (&[&[refused][..]][..], 1, 2),
        (&[&[Answer, refused]], 2, 3),
        // The server closes an idle connection.
        (&[&[Answer, Close]], 2, 3),
        // The server serves this request only over HTTP/1.1, which later requests use at once.
        (&[&[Reset(Reason::HTTP_1_1_REQUIRED)]], 1, 2),
        (&[&[Reset(Reason::HTTP_1_1_REQUIRED)]], 3, 4),
        // The server announces that it will close the connection.
        (&[&[GoAway]], 1, 1),
        (&[&[GoAway]], 2, 2),
    ] {
        let server = Server::bind().await;
        let (result, seen) = server.calls(calls, scripts).await;
        assert_eq!(result.expect("an answer"), b"{}", "{scripts:?}");
        assert_eq!(seen, requests, "{scripts:?}");
    }
}

/// Regression test. Only the first of these requests was sent again, and the others failed.
#[tokio::test]
async fn burst_on_closed_idle_connection_is_sent_once_more() {
    if !trusts("http2::frames::burst_on_closed_idle_connection_is_sent_once_more", &[]) {
        return;
    }
    let server = Server::bind().await;
    let endpoint = server.endpoint();
    let work = async {
        call(&endpoint).await.expect("an answer");
        join_all((0..10).map(|_| call(&endpoint))).await
    };
    let scripts = [&[Step::Answer, Step::Close][..]];
    match select(Box::pin(work), Box::pin(server.serve(&scripts))).await {
        Either::Left((results, _)) => {
            for result in results {
                assert_eq!(result.expect("an answer"), b"{}");
            }
        }
        Either::Right(((), _)) => unreachable!("the server does not end"),
    }
}

#[tokio::test]
async fn processed_request_is_not_sent_again() {
    if !trusts("http2::frames::processed_request_is_not_sent_again", &[]) {
        return;
    }
    use Step::*;
    let refused = Reset(Reason::REFUSED_STREAM);
    for (scripts, calls, requests) in [
        (&[&[Reset(Reason::INTERNAL_ERROR)][..]][..], 1, 1),
        (&[&[Reset(Reason::CANCEL)]], 1, 1),
        // The first request on a new connection.
        (&[&[Close]], 1, 1),
        // A server that closes an idle connection does so within a second.
        (&[&[Answer, CloseLate]], 2, 2),
        // The second attempt fails too.
        (&[&[refused], &[refused]], 1, 2),
        // The head of the response has arrived.
        (&[&[Answer, CloseBody]], 2, 2),
        // Regression case. The error reported too many headers.
        (&[&[WrongLength]], 1, 1),
        (&[&[ResetBody(Reason::INTERNAL_ERROR)]], 1, 1),
        (&[&[ResetBody(Reason::CANCEL)]], 1, 1),
        (&[&[ResetBody(Reason::NO_ERROR)]], 1, 1),
    ] {
        let server = Server::bind().await;
        let (result, seen) = server.calls(calls, scripts).await;
        let error = result.expect_err("no answer");
        assert_eq!((error.kind(), seen), ("Network", requests), "{scripts:?}: {error}");
        assert!(error.was_sent());
    }
}

/// Regression test. A ping that was not answered within 15 seconds closed the connection.
#[tokio::test]
async fn server_that_blocks_keeps_its_streams() {
    if !trusts("http2::frames::server_that_blocks_keeps_its_streams", &[]) {
        return;
    }
    let server = Server::bind().await;
    let (result, seen) = server.calls(1, &[&[Step::Block]]).await;
    assert_eq!((result.expect("an answer"), seen), (b"{}".to_vec(), 1));
}

/// The second attempt cannot connect. Regression test: the error of a request that the server had refused said that the
/// server may have received it.
#[tokio::test]
async fn refused_request_without_a_second_connection_is_unsent() {
    if !trusts("http2::frames::refused_request_without_a_second_connection_is_unsent", &[]) {
        return;
    }
    for is_refused in [true, false] {
        let server = Server::bind().await;
        let endpoint = server.endpoint();
        let serve = async move {
            let mut connection = server.accept().await;
            drop(server.listener);
            let (_, mut response) = connection.accept().await.expect("a request").expect("HTTP/2");
            let body = response.send_response(Response::new(()), false);
            body.expect("an open stream").send_data("{}".into(), true).expect("an open stream");
            let (_, mut response) = connection.accept().await.expect("a request").expect("HTTP/2");
            if is_refused {
                response.send_reset(Reason::REFUSED_STREAM);
                assert!(connection.accept().await.is_none());
            }
            drop(connection);
            std::future::pending::<()>().await;
        };
        let work = async {
            call(&endpoint).await.expect("an answer");
            call(&endpoint).await.expect_err("no second connection")
        };
        let Either::Left((error, _)) = select(Box::pin(work), Box::pin(serve)).await else {
            unreachable!("the server does not end");
        };
        assert_eq!((error.kind(), error.was_sent()), ("Network", !is_refused), "{error}");
    }
}

#[tokio::test]
async fn stream_that_is_reset_or_cut_is_a_stream_error() {
    if !trusts("http2::frames::stream_that_is_reset_or_cut_is_a_stream_error", &[]) {
        return;
    }
    let resets = [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR].map(Step::ResetBody);
    for step in resets.into_iter().chain([Step::CloseBody]) {
        let server = Server::bind().await;
        let endpoint = server.endpoint();
        let read = async {
            let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
            let reply = post.await.expect("a response");
            let body = reply.stream(&["application/x-ndjson"], |_| None).await?;
            let mut body = Box::pin(body);
            while let Some(chunk) = body.next().await {
                assert_eq!(chunk?, "{");
            }
            Ok::<_, ProviderError>(())
        };
        let scripts = [&[step][..]];
        let Either::Left((result, _)) =
            select(Box::pin(read), Box::pin(server.serve(&scripts))).await
        else {
            unreachable!("the server does not end");
        };
        let error = result.expect_err("a broken stream");
        assert_eq!(error.kind(), "StreamError", "{step:?}: {error}");
    }
}
