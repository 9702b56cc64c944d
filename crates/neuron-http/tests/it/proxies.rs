//! Tests of proxies that are set by environment variables.

use std::process::Command;

use neuron_http::{Endpoint, Rejection, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Environment variable with the URL that a child process calls.
const TARGET: &str = "NEURON_HTTP_TEST_TARGET";

/// Runs the test named `test` again in a child process with these environment variables. Returns the output of the
/// child process, in which [`call_target`] calls the URL `target`.
async fn child(test: &str, target: &str, variables: &[(&str, String)]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("the path of this binary"));
    command.args(["--exact", test, "--nocapture"]).env(TARGET, target);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run.await.expect("no panic").expect("a process");
    String::from_utf8(output.stdout).expect("text")
}

/// Calls the URL in the variable [`TARGET`], prints the result and returns `true`. Returns `false` if the variable is
/// not set, as in the main test process.
async fn call_target() -> bool {
    let Ok(target) = std::env::var(TARGET) else {
        return false;
    };
    let endpoint = Endpoint::new(target, Secret::default());
    let reject = |rejection: &Rejection| rejection.classify("refused".into());
    match endpoint.post("v1/chat", Default::default(), b"{}".to_vec(), reject).await {
        Ok(reply) => println!("response: {:?}", reply.read().await),
        Err(error) => println!("error of kind {}: {error}", error.kind()),
    }
    true
}

/// Reads a request head and writes the response. Returns the head in lower case.
async fn serve(listener: TcpListener, response: &[u8]) -> String {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a whole head"));
    }
    stream.write_all(response).await.expect("a client that reads");
    String::from_utf8(head).expect("text").to_lowercase()
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

#[tokio::test]
async fn plain_request_sends_absolute_url_to_proxy() {
    if call_target().await {
        return;
    }
    let (listener, port) = listen().await;
    let proxy = format!("http://me:hunter2@127.0.0.1:{port}");
    let test = "proxies::plain_request_sends_absolute_url_to_proxy";
    let variables = [("http_proxy", proxy)];
    let child = child(test, "http://user:word@api.invalid/x?y=z", &variables);
    let (head, output) =
        tokio::join!(serve(listener, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"), child);
    assert!(head.starts_with("post http://api.invalid/x/v1/chat?y=z http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nhost: api.invalid\r\n"), "{head}");
    // `me:hunter2` and `user:word` in base64, converted to lower case.
    assert!(head.contains("\r\nproxy-authorization: basic bwu6ahvudgvymg==\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: basic dxnlcjp3b3jk\r\n"), "{head}");
    assert!(output.contains("response: Ok([123, 125])"), "{output}");
}

#[tokio::test]
async fn refused_tunnel_error_names_proxy_without_credentials() {
    if call_target().await {
        return;
    }
    let (listener, port) = listen().await;
    let proxy = format!("http://me:hunter2@127.0.0.1:{port}");
    let test = "proxies::refused_tunnel_error_names_proxy_without_credentials";
    let variables = [("https_proxy", proxy)];
    let child = child(test, "https://user:word@api.invalid", &variables);
    let (head, output) =
        tokio::join!(serve(listener, b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n"), child);
    assert!(head.starts_with("connect api.invalid:443 http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nproxy-authorization: basic bwu6ahvudgvymg==\r\n"), "{head}");
    // The proxy must not receive the credentials for the server.
    assert!(!head.contains("\r\nauthorization:"), "{head}");
    assert!(output.contains("error of kind Network: "), "{output}");
    assert!(output.contains("https://api.invalid: "), "{output}");
    assert!(output.contains(&format!("through the proxy 127.0.0.1:{port}: ")), "{output}");
    assert!(output.contains("proxy authorization required"), "{output}");
    assert!(!output.contains("hunter2") && !output.contains("word"), "{output}");
}

#[tokio::test]
async fn unreachable_proxy_is_named_in_error() {
    if call_target().await {
        return;
    }
    let test = "proxies::unreachable_proxy_is_named_in_error";
    for target in ["http://api.invalid", "https://api.invalid"] {
        // The listener keeps the port until the child process has ended.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let port = socket.local_addr().expect("an address").port();
        let variables = [("ALL_PROXY", format!("http://127.0.0.1:{port}"))];
        let output = child(test, target, &variables).await;
        assert!(output.contains("error of kind Network: "), "{output}");
        assert!(output.contains(&format!("through the proxy 127.0.0.1:{port}: ")), "{output}");
        assert!(output.to_lowercase().contains("refused"), "{output}");
    }
}

#[tokio::test]
async fn unsupported_proxy_scheme_is_named_in_error() {
    if call_target().await {
        return;
    }
    let test = "proxies::unsupported_proxy_scheme_is_named_in_error";
    let variables = [("ALL_PROXY", "socks5://me:hunter2@127.0.0.1:9".to_owned())];
    let output = child(test, "https://api.invalid", &variables).await;
    assert!(output.contains("through the proxy 127.0.0.1:9: "), "{output}");
    assert!(output.contains("`socks5`"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
}

#[tokio::test]
async fn host_in_no_proxy_is_contacted_directly() {
    if call_target().await {
        return;
    }
    let test = "proxies::host_in_no_proxy_is_contacted_directly";
    let variables =
        [("ALL_PROXY", "http://127.0.0.1:9".to_owned()), ("NO_PROXY", "api.invalid".to_owned())];
    let output = child(test, "http://api.invalid", &variables).await;
    assert!(
        output.contains("error of kind Network: network error: http://api.invalid: "),
        "{output}"
    );
    assert!(!output.contains("through the proxy"), "{output}");
}
