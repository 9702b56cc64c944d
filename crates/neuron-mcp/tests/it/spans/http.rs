//! Tests of the spans of requests over HTTP, which contain addresses and the session id.

use std::net::SocketAddr;

use neuron_mcp::{HttpConfig, HttpServerConfig, McpClient, McpVersion};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::recorder::{Recorded, Recorder};
use super::{SECRET, about_everything, ask_for_everything, of_kind, server, with};

async fn connect(version: McpVersion) -> (McpClient, SocketAddr, JoinSet<()>) {
    let listening = server().bind_http(HttpServerConfig::default()).await.unwrap();
    let (addr, url) = (listening.local_addr(), listening.url());
    let mut serving = JoinSet::new();
    serving.spawn(async move { listening.serve().await.unwrap() });
    let config = HttpConfig { url: format!("{url}?key={SECRET}"), ..HttpConfig::default() };
    let client = McpClient::builder().versions([version]).connect_http(config).await.unwrap();
    (client, addr, serving)
}

/// Returns the expected fields of the span of an HTTP request. They are `particular` and the fields that every such
/// span has. Values that the test cannot know, such as request ids, are copied from the recorded `span`.
fn common(span: &Recorded, version: McpVersion, particular: Value) -> Value {
    let mut common = json!({
        "otel.kind": span.fields["otel.kind"],
        "mcp.protocol.version": version.as_str(),
        "jsonrpc.request.id": span.get("jsonrpc.request.id").unwrap(),
        "network.transport": "tcp",
        "network.protocol.name": "http",
    });
    if version.has_handshake() {
        common["mcp.session.id"] = span.get("mcp.session.id").unwrap().into();
    }
    with(common, &particular)
}

#[tokio::test]
async fn http_spans_have_addresses_and_the_session_id() {
    for version in [McpVersion::V2025_11_25, McpVersion::V2026_07_28] {
        let (recorder, _guard) = Recorder::start();
        let (client, addr, _serving) = connect(version).await;
        ask_for_everything(&client).await;
        let clients = of_kind(&recorder, "client");
        let servers = of_kind(&recorder, "server");
        assert_eq!((clients.len(), servers.len()), (5, 5), "{clients:#?} {servers:#?}");
        for ((ours, theirs), about) in clients.iter().zip(&servers).zip(about_everything()) {
            let particular = json!({ "server.address": "127.0.0.1", "server.port": addr.port() });
            assert_eq!(ours.fields, with(about.clone(), &common(ours, version, particular)));
            let port = theirs.fields["client.port"].as_i64().unwrap();
            let particular = json!({ "client.address": "127.0.0.1", "client.port": port });
            assert_eq!(theirs.fields, with(about, &common(theirs, version, particular)));
            for field in ["mcp.session.id", "jsonrpc.request.id"] {
                assert_eq!(ours.get(field), theirs.get(field), "{field}");
            }
            assert!(ours.has_ended && theirs.has_ended);
        }
        recorder.assert_silent_of(SECRET);
        client.close().await;
    }
}

#[tokio::test]
async fn request_span_is_a_child_of_its_http_span() {
    use http_body_util::{BodyExt, Full};

    let (recorder, _guard) = Recorder::start();
    let service = server().http_service(HttpServerConfig::default()).unwrap();
    let post = |session: Option<String>, message: Value, name: &'static str| {
        let mut service = service.clone();
        let mut request = http::Request::post("http://localhost/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(session) = session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        let request = request.body(Full::<bytes::Bytes>::from(message.to_string())).unwrap();
        let span = tracing::info_span!(target: "test", "http", otel.name = name);
        async move {
            let response = tower::Service::call(&mut service, request).await.unwrap();
            let session = response.headers().get("mcp-session-id").cloned();
            response.into_body().collect().await.unwrap();
            session.map(|session| session.to_str().unwrap().to_owned())
        }
        .instrument(span)
    };
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "raw", "version": "1" },
        },
    });
    let session = post(None, hello, "first").await;
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    post(session.clone(), told, "second").await;
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} });
    post(session, list, "third").await;

    let around = |method: &str| {
        let span = recorder.ended(method, "server");
        let around = recorder.span(span.parent.unwrap());
        around.get("otel.name").unwrap().to_owned()
    };
    assert_eq!((around("initialize"), around("tools/list")), ("first".into(), "third".into()));
    let http = recorder.spans().into_iter().filter(|span| span.name == "http");
    assert_eq!(http.filter(|span| span.has_ended).count(), 3);
}
