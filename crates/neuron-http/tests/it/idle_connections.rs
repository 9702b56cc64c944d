//! Tests of requests on idle connections that the server closes.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use neuron_http::{Endpoint, Rejection, Reply, Secret};
use neuron_model::ProviderError;
use neuron_testing::{RawConnection, RawServer};

/// An action of the server after it has read a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Answer,
    /// Closes the connection without a byte.
    Close,
    /// Closes the connection without a byte, after processing the request for a while.
    CloseLate,
    /// Resets the connection without a byte.
    Reset,
    /// Sends a response head and a part of the body, then closes the connection.
    Cut,
    /// Sends bytes that are not HTTP, then closes the connection.
    Garbage,
    /// Sends nothing.
    Hang,
}

/// A server that follows a script for each connection, and counts the requests.
struct Server {
    raw: RawServer,
    seen: Cell<usize>,
}

impl Server {
    async fn bind() -> Self {
        Self { raw: RawServer::bind().await, seen: Cell::new(0) }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.raw.url(), Secret::default()).with_timeout(Duration::from_secs(60))
    }

    async fn answer(connection: &mut RawConnection) {
        connection.head(200, "application/json", 2).await;
        connection.write("{}").await;
    }

    /// Serves connections one after another. The connection number `n` follows the script number `n` in `scripts`. Each
    /// later connection gets one complete response.
    async fn serve(&self, scripts: &[&[Step]]) {
        let mut scripts = scripts.iter();
        loop {
            let mut connection = self.raw.request().await;
            self.seen.set(self.seen.get() + 1);
            let script = scripts.next().copied().unwrap_or(&[Step::Answer]);
            for (number, step) in script.iter().enumerate() {
                if number > 0 {
                    connection.request().await;
                    self.seen.set(self.seen.get() + 1);
                }
                match step {
                    Step::Answer => Self::answer(&mut connection).await,
                    Step::Close => break,
                    Step::CloseLate => {
                        tokio::time::sleep(Duration::from_millis(1500)).await;
                        break;
                    }
                    Step::Reset => {
                        connection.reset();
                        break;
                    }
                    Step::Cut => {
                        connection.head(200, "application/json", 100).await;
                        connection.write("{").await;
                        break;
                    }
                    Step::Garbage => {
                        connection.write("SSH-2.0-OpenSSH_9\r\n\r\n").await;
                        break;
                    }
                    Step::Hang => std::future::pending().await,
                }
            }
        }
    }

    /// Makes `calls` calls one after another, while the server follows `scripts`. Returns the result of the last call,
    /// and the number of requests that the server received.
    async fn calls(
        &self,
        endpoint: &Endpoint,
        calls: usize,
        scripts: &[&[Step]],
    ) -> (Result<Vec<u8>, ProviderError>, usize) {
        let work = async {
            for _ in 1..calls {
                call(endpoint).await.expect("an answer");
            }
            call(endpoint).await
        };
        match select(Box::pin(work), Box::pin(self.serve(scripts))).await {
            Either::Left((result, _)) => (result, self.seen.get()),
            Either::Right(((), _)) => unreachable!("the server does not end"),
        }
    }
}

async fn post(endpoint: &Endpoint) -> Result<Reply, ProviderError> {
    let reject = |rejection: &Rejection| rejection.classify("refused".into());
    endpoint.post("v1", Default::default(), b"{}".to_vec(), reject).await
}

async fn call(endpoint: &Endpoint) -> Result<Vec<u8>, ProviderError> {
    post(endpoint).await?.read().await
}

#[tokio::test]
async fn request_on_closed_idle_connection_is_sent_once_more() {
    use Step::*;
    for (scripts, calls, requests) in [
        // The server closes the connection when the second request has arrived.
        (&[&[Answer, Close][..]][..], 2, 3),
        (&[&[Answer, Reset]], 2, 3),
        (&[&[Answer, Answer, Close]], 3, 4),
        // The server closes the connection before the second request.
        (&[&[Answer]], 2, 2),
        // Every call may be sent a second time.
        (&[&[Answer, Close], &[Answer], &[Answer, Close]], 4, 6),
    ] {
        let server = Server::bind().await;
        let (result, seen) = server.calls(&server.endpoint(), calls, scripts).await;
        assert_eq!(result.expect("an answer"), b"{}", "{scripts:?}");
        assert_eq!(seen, requests, "{scripts:?}");
    }
}

#[tokio::test]
async fn other_failed_requests_are_not_sent_again() {
    use Step::*;
    for (scripts, calls, requests, kind) in [
        // The first request on a new connection fails.
        (&[&[Close][..]][..], 1, 1, "Network"),
        (&[&[Reset]], 1, 1, "Network"),
        // The second attempt fails too.
        (&[&[Answer, Close], &[Close]], 2, 3, "Network"),
        // A server that closes an idle connection does so within a second.
        (&[&[Answer, CloseLate]], 2, 2, "Network"),
        // The connection breaks after the first bytes of a response.
        (&[&[Answer, Cut]], 2, 2, "Network"),
        (&[&[Answer, Garbage]], 2, 2, "Network"),
    ] {
        let server = Server::bind().await;
        let (result, seen) = server.calls(&server.endpoint(), calls, scripts).await;
        let error = result.expect_err("no answer");
        assert_eq!((error.kind(), seen), (kind, requests), "{scripts:?}: {error}");
        assert!(error.was_sent());
    }
}

#[tokio::test]
async fn request_that_timed_out_is_not_sent_again() {
    let server = Server::bind().await;
    let endpoint = server.endpoint();
    let short = endpoint.clone().with_timeout(Duration::from_millis(200));
    let work = async {
        call(&endpoint).await.expect("an answer");
        call(&short).await.expect_err("no answer")
    };
    let serve = server.serve(&[&[Step::Answer, Step::Hang]]);
    let Either::Left((error, _)) = select(Box::pin(work), Box::pin(serve)).await else {
        unreachable!("the server does not end");
    };
    assert_eq!((error.kind(), server.seen.get()), ("Timeout", 2));
}

/// The server may have read the first attempt, so the error must not say that the request was not sent.
#[tokio::test]
async fn repeated_request_is_reported_as_sent() {
    let server = RawServer::bind().await;
    let endpoint = Endpoint::new(server.url(), Secret::default());
    let serve = async {
        let mut connection = server.request().await;
        Server::answer(&mut connection).await;
        connection.request().await;
        // The second attempt finds no server.
        drop(server);
        drop(connection);
    };
    let calls = async {
        call(&endpoint).await.expect("an answer");
        call(&endpoint).await.expect_err("no answer")
    };
    let (error, ()) = join(calls, serve).await;
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
    assert!(error.was_sent());
}

/// Regression test. The second attempt of a request must open a new connection. It once used another idle connection,
/// which the server had closed too.
#[tokio::test]
async fn second_attempt_uses_new_connection() {
    let server = RawServer::bind().await;
    let endpoint = Endpoint::new(server.url(), Secret::default());
    let both = async {
        let (mut first, mut second) = (server.request().await, server.request().await);
        Server::answer(&mut first).await;
        Server::answer(&mut second).await;
        (first, second)
    };
    let calls = join(call(&endpoint), call(&endpoint));
    let ((one, other), (mut first, mut second)) = join(calls, both).await;
    assert!(one.is_ok() && other.is_ok());

    let close = async {
        // The pool may use either connection. Both are closed as soon as a request arrives.
        let request = select(Box::pin(first.request()), Box::pin(second.request())).await;
        drop(request);
        drop((first, second));
        let mut third = server.request().await;
        Server::answer(&mut third).await;
    };
    let serve = async {
        close.await;
        std::future::pending::<()>().await;
    };
    let Either::Left((result, _)) = select(Box::pin(call(&endpoint)), Box::pin(serve)).await else {
        unreachable!("the server does not end");
    };
    assert_eq!(result.expect("an answer"), b"{}");
}
