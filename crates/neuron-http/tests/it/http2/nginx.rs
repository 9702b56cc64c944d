//! A test with a real nginx, whose connections accept 128 requests at the same time.

use std::sync::Arc;

use neuron_testkit::nginx::NginxServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Barrier;

use super::{calls, endpoint, trusts};

/// The server behind nginx answers no request until all have arrived. With a single connection, 172 of them would wait
/// for the others without an end.
#[tokio::test]
async fn many_waiting_requests_share_few_connections_to_nginx() {
    if !trusts("http2::nginx::many_waiting_requests_share_few_connections_to_nginx", &[]) {
        return;
    }
    let Some(nginx) = NginxServer::or_skip() else {
        return;
    };
    let listener = TcpListener::bind(("127.0.0.1", nginx.upstream_port())).await.expect("a port");
    tokio::spawn(async move {
        let barrier = Arc::new(Barrier::new(300));
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n{}") {
                    request.push(stream.read_u8().await.expect("a request"));
                }
                barrier.wait().await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                stream.write_all(answer).await.expect("nginx reads");
            });
        }
    });
    let endpoint = endpoint(&nginx.url());
    for _ in 0..2 {
        calls(&endpoint, 300).await;
    }
    assert_eq!(nginx.connections().expect("a log"), ["HTTP/2.0"; 3]);
}
