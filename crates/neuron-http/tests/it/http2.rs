//! Tests of HTTP/2 with loopback servers that use TLS.
//!
//! The client trusts the certificates of the operating system, so each test runs in a child process whose variables
//! name the certificate of the tests' authority.

mod frames;
mod nginx;
mod raw;
mod runtimes;
mod server;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use hyper::body::Incoming;
use hyper::{Request, Version};
use neuron_http::{Endpoint, Rejection, Secret};
use neuron_model::ProviderError;
use server::{Protocols, Server, hold};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, mpsc};
use tokio::time::Instant;

/// Variable that is set in a child process.
const CHILD: &str = "NEURON_HTTP_TEST_CHILD";

/// Returns `true` in a child process that trusts the authority of the tests. Otherwise runs the test named `test` in a
/// child process with the additional variables, and returns `false`.
fn trusts(test: &str, variables: &[(&str, String)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("the path of this binary"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .env("SSL_CERT_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/ca.pem"))
        .env_remove("SSL_CERT_DIR")
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().expect("a process");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
    false
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint::new(url, Secret::default()).with_timeout(Duration::from_secs(60))
}

async fn call(endpoint: &Endpoint) -> Result<Vec<u8>, ProviderError> {
    let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
    post.await?.read().await
}

/// Makes `count` calls at the same time. Each must succeed.
async fn calls(endpoint: &Endpoint, count: usize) {
    for result in join_all((0..count).map(|_| call(endpoint))).await {
        assert_eq!(result.expect("an answer"), b"{}");
    }
}

/// Starts a server that answers no request until `requests` have arrived, so these must be on their way at the same
/// time. It accepts `streams` requests at the same time on a connection.
async fn waiting_server(requests: usize, streams: u32) -> Server {
    let barrier = Arc::new(Barrier::new(requests));
    let handler = move |request: Request<Incoming>| {
        let barrier = Arc::clone(&barrier);
        async move {
            assert_eq!(request.version(), Version::HTTP_2);
            barrier.wait().await;
            server::answer()
        }
    };
    Server::start(Protocols::Both, streams, handler).await
}

#[tokio::test]
async fn requests_at_the_same_time_share_a_connection() {
    if !trusts("http2::requests_at_the_same_time_share_a_connection", &[]) {
        return;
    }
    let server = waiting_server(50, 100).await;
    let endpoint = endpoint(&server.url);
    for _ in 0..2 {
        calls(&endpoint, 50).await;
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn full_connection_is_followed_by_another() {
    if !trusts("http2::full_connection_is_followed_by_another", &[]) {
        return;
    }
    let server = waiting_server(40, 8).await;
    let endpoint = endpoint(&server.url);
    for _ in 0..2 {
        calls(&endpoint, 40).await;
        assert_eq!(server.connections(), 5);
    }
}

#[tokio::test]
async fn server_without_http2_gets_http1() {
    if !trusts("http2::server_without_http2_gets_http1", &[]) {
        return;
    }
    for protocols in [Protocols::Http1, Protocols::None] {
        let server = Server::start(protocols, 0, |request| async move {
            assert_eq!(request.version(), Version::HTTP_11);
            server::answer()
        });
        let server = server.await;
        let endpoint = endpoint(&server.url);
        for _ in 0..3 {
            calls(&endpoint, 1).await;
        }
        // The connection that found out about the protocol is used, and used again.
        assert_eq!(server.connections(), 1);
        calls(&endpoint, 20).await;
    }
}

#[tokio::test]
async fn dropped_request_resets_only_its_stream() {
    if !trusts("http2::dropped_request_resets_only_its_stream", &[]) {
        return;
    }
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (reset, mut resets) = mpsc::unbounded_channel();
    let server = Server::start(Protocols::Both, 100, move |request| {
        let (arrived, reset) = (arrived.clone(), reset.clone());
        async move {
            if request.uri().path() != "/wait/v1" {
                return server::answer();
            }
            let _reset = hold(reset);
            arrived.send(()).expect("a test that waits");
            std::future::pending().await
        }
    });
    let server = server.await;
    let other = endpoint(&server.url);
    let waiting = other.clone();
    // The clone shares the connections as long as its URL stays.
    calls(&other, 1).await;
    let post = waiting.post("wait/v1", Default::default(), b"{}".to_vec(), Rejection::error);
    let mut post = Box::pin(post);
    tokio::select! {
        _ = &mut post => panic!("no answer is sent"),
        arrival = arrivals.recv() => arrival.expect("a request"),
    }
    drop(post);
    resets.recv().await.expect("a reset stream");
    calls(&other, 1).await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn body_that_is_dropped_frees_its_place() {
    if !trusts("http2::body_that_is_dropped_frees_its_place", &[]) {
        return;
    }
    let server = Server::start(Protocols::Both, 1, |_| async { server::endless() });
    let server = server.await;
    let endpoint = endpoint(&server.url);
    for _ in 0..3 {
        let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
        let reply = post.await.expect("a response");
        assert_eq!(server.connections(), 1);
        drop(reply);
    }
    let post = || endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
    let (_first, _second) = join(post(), post()).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn head_over_the_limit_is_not_retried() {
    if !trusts("http2::head_over_the_limit_is_not_retried", &[]) {
        return;
    }
    for (size, accepted) in [(100_000, true), (500_000, false)] {
        let server = Server::start(Protocols::Both, 100, move |_| async move {
            let mut response = server::answer();
            let value = "y".repeat(size / 10);
            for _ in 0..10 {
                response.headers_mut().append("x", value.parse().expect("a value"));
            }
            response
        });
        let result = call(&endpoint(&server.await.url)).await;
        match result {
            Ok(body) => assert!(accepted && body == b"{}"),
            Err(error) => {
                assert!(!accepted, "{error}");
                assert_eq!((error.kind(), error.is_retryable()), ("Other", false));
                assert!(error.to_string().contains("more than 408 KiB of headers"), "{error}");
            }
        }
    }
}

/// The proxy sees only `CONNECT`, and the server behind it sees HTTP/2.
#[tokio::test]
async fn http2_is_used_through_a_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = format!("http://{}", listener.local_addr().expect("an address"));
    // The child process binds its own listener, whose port the proxy of the parent process reads from `CONNECT`.
    let tunnels = async {
        let mut count = 0;
        loop {
            let (mut client, _) = listener.accept().await.expect("a connection");
            count += 1;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.expect("a whole head"));
            }
            let head = String::from_utf8(head).expect("text");
            let target = head.strip_prefix("CONNECT api.invalid:").expect("a tunnel");
            let port: u16 = target.split(' ').next().expect("a port").parse().expect("a port");
            assert_eq!(count, 1, "all requests share one tunnel");
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.expect("a server");
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("a client");
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    };
    let test = "http2::http2_is_used_through_a_tunnel";
    let variables = [("HTTPS_PROXY", proxy)];
    if std::env::var_os(CHILD).is_none() {
        let child = tokio::task::spawn_blocking(move || trusts(test, &variables));
        tokio::select! {
            child = child => assert!(!child.expect("no panic")),
            _ = tunnels => {}
        }
        return;
    }
    let server = waiting_server(10, 100).await;
    let url = server.url.replace("127.0.0.1", "api.invalid");
    calls(&endpoint(&url), 10).await;
    assert_eq!(server.connections(), 1);
}

/// Requests that wait for the same connection fail together, and none of them was sent.
#[tokio::test]
async fn failed_connection_fails_all_requests_that_wait_for_it() {
    if !trusts("http2::failed_connection_fails_all_requests_that_wait_for_it", &[]) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let serve = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        drop(stream);
        listener.accept().await
    };
    let endpoint = endpoint(&url);
    let calls = join_all((0..20).map(|_| call(&endpoint)));
    let results = tokio::select! {
        results = calls => results,
        _ = serve => panic!("one connection is enough"),
    };
    for result in results {
        let error = result.expect_err("no connection");
        assert_eq!((error.kind(), error.was_sent()), ("Network", false), "{error}");
        assert!(error.to_string().contains(&format!("{url}: cannot connect: ")), "{error}");
    }
}

/// Regression test. The timeout applied to the handshake of TLS, and once more to that of HTTP/2.
#[tokio::test]
async fn connect_timeout_includes_the_settings() {
    if !trusts("http2::connect_timeout_includes_the_settings", &[]) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let endpoint = endpoint(&url).with_connect_timeout(Duration::from_secs(10));
    let serve = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(6)).await;
        let _stream = server::acceptor(Protocols::Both).accept(stream).await.expect("TLS");
        std::future::pending::<()>().await;
    };
    let start = Instant::now();
    let error = tokio::select! {
        result = call(&endpoint) => result.expect_err("no settings"),
        () = serve => unreachable!("the server does not end"),
    };
    let elapsed = start.elapsed();
    assert_eq!((error.kind(), error.was_sent()), ("Network", false), "{error}");
    assert!(elapsed < Duration::from_secs(12), "{elapsed:?}");
}

#[tokio::test]
async fn closing_server_is_followed_by_a_new_connection() {
    if !trusts("http2::closing_server_is_followed_by_a_new_connection", &[]) {
        return;
    }
    let server = Server::start(Protocols::Both, 100, |_| async { server::answer() }).await;
    let endpoint = endpoint(&server.url);
    for number in 1..4 {
        calls(&endpoint, 5).await;
        assert_eq!(server.connections(), number);
        server.close_gracefully().await;
    }
}
