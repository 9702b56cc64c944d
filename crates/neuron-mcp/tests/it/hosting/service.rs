//! Tests of a server as a tower service inside another HTTP server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use neuron_mcp::{HttpIdentity, HttpServerConfig, McpHttpBody, McpHttpService};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing_subscriber::fmt::format::FmtSpan;

use super::raw;
use super::server::{Waiting, mcp_server};
use super::tasks::{call_wait, with_tasks};

/// Passes a raw request to the service, and returns the response.
async fn ask(service: &mut McpHttpService, request: &raw::Request) -> Response<McpHttpBody> {
    let bytes = request.to_bytes();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let method = lines.next().unwrap().split(' ').next().unwrap();
    // The service accepts every path. The surrounding server decides where the service is mounted.
    let mut builder = Request::builder().method(method).uri("/");
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        builder = builder.header(name, value);
    }
    let request = builder.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    raw::within(service.call(request)).await.unwrap()
}

/// Reads the body of a response.
async fn text(response: Response<McpHttpBody>) -> String {
    let body = raw::within(response.into_body().collect()).await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn service_answers_requests_with_any_body() {
    let waiting = Waiting::default();
    let mut service = mcp_server(&waiting).http_service(HttpServerConfig::default()).unwrap();
    let response = ask(&mut service, &raw::modern_call("echo", &json!({ "text": "in" }))).await;
    assert_eq!(response.status(), 200);
    assert!(text(response).await.contains(r#""text":"in""#));
    // Clones of the service share their sessions.
    let response = ask(&mut service.clone(), &raw::initialize()).await;
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    text(response).await;
    let response = ask(&mut service, &raw::call(&id, "echo", &json!({ "text": "on" }))).await;
    assert!(text(response).await.contains(r#""text":"on""#));
}

#[tokio::test]
async fn service_checks_host_size_and_identity() {
    let config = HttpServerConfig::default()
        .authenticate(async |_| Ok(HttpIdentity::new("alice")))
        .max_body_bytes(1000);
    let mut service = mcp_server(&Waiting::default()).http_service(config).unwrap();
    let evil = raw::initialize().without("host").header("host", "evil.example");
    assert_eq!(ask(&mut service, &evil).await.status(), 403);
    let long = raw::modern_call("echo", &json!({ "text": "x".repeat(1000) }));
    assert_eq!(ask(&mut service, &long).await.status(), 413);
    let response = ask(&mut service, &raw::modern_call("whoami", &json!({}))).await;
    assert!(text(response).await.contains(r#"Some(\"alice\") None None"#));
}

#[tokio::test]
async fn service_ends_with_the_shutdown_token() {
    let shutdown = CancellationToken::new();
    let server = mcp_server(&Waiting::default()).with_shutdown(shutdown.clone());
    let mut service = server.http_service(HttpServerConfig::default()).unwrap();
    let response = ask(&mut service, &raw::initialize()).await;
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    text(response).await;
    let listens = ask(&mut service, &raw::Request::listen().session(&id)).await;
    assert_eq!(listens.status(), 200);

    shutdown.cancel();
    text(listens).await;
    assert_eq!(ask(&mut service, &raw::initialize()).await.status(), 503);
}

#[tokio::test]
async fn sessions_end_with_the_last_clone() {
    let waiting = Waiting::default();
    let mut service = mcp_server(&waiting).http_service(HttpServerConfig::default()).unwrap();
    let response = ask(&mut service, &raw::initialize()).await;
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    text(response).await;
    let waits = ask(&mut service, &raw::call(&id, "wait", &json!({}))).await;
    waiting.began.notified().await;
    drop((waits, service));
    raw::within(waiting.ended.notified()).await;
}

// No response was open whose stream could have run the steps of the shutdown.
#[tokio::test]
async fn tasks_end_with_the_last_clone_and_after_a_shutdown() {
    for drops in [true, false] {
        let (waiting, shutdown) = (Waiting::default(), CancellationToken::new());
        let server = with_tasks(mcp_server(&waiting)).with_shutdown(shutdown.clone());
        let config = HttpServerConfig::default().shutdown_grace(Duration::from_millis(50));
        let mut service = Some(server.http_service(config).unwrap());
        text(ask(service.as_mut().unwrap(), &call_wait()).await).await;
        waiting.began.notified().await;
        match drops {
            true => drop(service.take()),
            false => shutdown.cancel(),
        }
        raw::within(waiting.ended.notified()).await;
    }
}

#[tokio::test]
async fn service_runs_in_hyper() {
    use hyper_util::rt::TokioIo;
    use hyper_util::service::TowerToHyperService;

    let service =
        mcp_server(&Waiting::default()).http_service(HttpServerConfig::default()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .await
            .unwrap();
    };
    let request = raw::modern_call("echo", &json!({ "text": "hyper" }));
    let (response, ()) = raw::within(futures_util::future::join(request.send(addr), serve)).await;
    assert_eq!(response.tool_text(), "hyper");
}

/// A writer that collects log lines in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The SDK logs the session id at level `INFO`. The documented filter `rmcp=warn` removes these lines.
#[tokio::test]
async fn session_id_is_not_in_the_log_with_the_documented_filter() {
    let mut logged = Vec::new();
    for filter in ["info", "info,rmcp=warn"] {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_span_events(FmtSpan::FULL)
            .with_writer(move || writer.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let mut service =
            mcp_server(&Waiting::default()).http_service(HttpServerConfig::default()).unwrap();
        let response = ask(&mut service, &raw::initialize()).await;
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        text(response).await;
        let response = ask(&mut service, &raw::call(&id, "echo", &json!({ "text": "on" }))).await;
        text(response).await;
        drop(guard);
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        // The name and the value are checked separately, because the formatter may write colour codes between them.
        assert!(log.contains("mcp.session.id") && log.contains(&id[..8]), "{log}");
        logged.push(log.contains(&id));
    }
    assert_eq!(logged, [true, false]);
}
