//! Tests of an endpoint that several runtimes use.

use std::time::Duration;

use futures_util::StreamExt as _;
use neuron_http::Rejection;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::server::{self, Answer, Protocols, Server};
use super::{call, endpoint, trusts};

/// Maximum time of a request that does not depend on another runtime.
const SOON: Duration = Duration::from_secs(20);

/// Returns a runtime that only runs within `block_on`.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Starts a server that sends `answer` to each request. It runs in the returned runtime.
fn server(answer: fn() -> Answer) -> (Runtime, Server) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = Server::start(Protocols::Both, 100, move |_| async move { answer() });
    let server = runtime.block_on(server);
    (runtime, server)
}

/// Regression test. A connection of a runtime that is not driven delayed the requests of another one.
#[test]
fn request_does_not_depend_on_another_runtime() {
    if !trusts("http2::runtimes::request_does_not_depend_on_another_runtime", &[]) {
        return;
    }
    let (_serving, server) = server(server::answer);
    let endpoint = endpoint(&server.url);
    let runtimes = [runtime(), runtime()];
    for _ in 0..2 {
        for runtime in &runtimes {
            let answer = runtime.block_on(async { timeout(SOON, call(&endpoint)).await });
            assert_eq!(answer.expect("a connection of its own").expect("an answer"), b"{}");
        }
    }
    assert_eq!(server.connections(), 2);
}

/// Regression test. The stream of a request broke when the runtime of an earlier request ended.
#[test]
fn stream_outlives_another_runtime() {
    if !trusts("http2::runtimes::stream_outlives_another_runtime", &[]) {
        return;
    }
    let (_serving, server) = server(server::endless);
    let endpoint = endpoint(&server.url);
    let stream = async {
        let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
        let body = post.await.expect("a response").stream(&["application/x-ndjson"], |_| None);
        let mut body = Box::pin(body.await.expect("a stream"));
        assert_eq!(body.next().await.expect("a chunk").expect("no error"), "{");
        body
    };
    // The connection of the first runtime is driven until the stream of the second one has begun.
    let first = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let first = first.expect("a runtime");
    let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
    let reply = first.block_on(post).expect("a response");
    let second = runtime();
    let mut body = second.block_on(stream);
    drop((first, reply));
    let more = second.block_on(async { timeout(Duration::from_millis(300), body.next()).await });
    assert!(more.is_err(), "{more:?}");
}

/// Regression test. A request that was dropped while its connection was opened blocked the requests of another runtime.
#[test]
fn opening_of_another_runtime_is_not_awaited() {
    if !trusts("http2::runtimes::opening_of_another_runtime_is_not_awaited", &[]) {
        return;
    }
    let (_serving, server) = server(server::answer);
    let endpoint = endpoint(&server.url);
    let first = runtime();
    // The first poll starts the opening, which then pauses with its runtime.
    let dropped = first.block_on(async { timeout(Duration::ZERO, call(&endpoint)).await });
    assert!(dropped.is_err(), "{dropped:?}");
    let answer = runtime().block_on(async { timeout(SOON, call(&endpoint)).await });
    assert_eq!(answer.expect("a connection of its own").expect("an answer"), b"{}");
}
