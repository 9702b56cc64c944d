//! Tests of requests for input over HTTP. The client sends back a `requestState`, which is valid only for the identity
//! that made the first call.

use std::net::SocketAddr;

use neuron_mcp::{
    ElicitationRequest, HttpIdentity, HttpRefusal, HttpRequestHead, HttpServerConfig, McpServer,
};
use neuron_types::ToolOutput;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{LIMIT, one, peer};

/// Calls the tool `ask` on a new HTTP connection, with version 2026-07-28. Returns the JSON-RPC response.
async fn call(addr: SocketAddr, user: &str, mut params: Value) -> Value {
    params["name"] = json!("ask");
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\nx-user: {user}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: ask\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut response = String::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_string(&mut response)).await;
    read.expect("the server answers").unwrap();
    // The body is one line of JSON, either alone or as the data of a server-sent event.
    let json = response.lines().find_map(|line| {
        let line = line.strip_prefix("data:").unwrap_or(line).trim();
        serde_json::from_str::<Value>(line).ok().filter(Value::is_object)
    });
    json.unwrap_or_else(|| panic!("{response}"))
}

#[tokio::test]
async fn state_is_refused_for_another_identity() {
    let tools = one("ask", |_, ctx| async move {
        let peer = peer(&ctx);
        let schema = json!({ "type": "object", "properties": {} });
        peer.elicit("ok", ElicitationRequest::form("OK?", schema)).await?;
        let identity = peer.extension::<HttpIdentity>().expect("who called is known");
        assert_eq!(peer.header("x-user"), Some(identity.subject()));
        Ok(ToolOutput::text(identity.subject()))
    });
    let config = HttpServerConfig::new("127.0.0.1:0".parse().unwrap()).authenticate(
        async |request: HttpRequestHead| match request.headers.get("x-user") {
            Some(user) => Ok(HttpIdentity::new(user.to_str().unwrap())),
            None => Err(HttpRefusal::unauthorized()),
        },
    );
    let listening = McpServer::new(tools).bind_http(config).await.unwrap();
    let (addr, shutdown) = (listening.local_addr(), listening.shutdown_token());
    let serving = tokio::spawn(listening.serve());

    let first = call(addr, "alice", json!({})).await;
    let state = &first["result"]["requestState"];
    assert!(state.is_string(), "{first}");
    let next = json!({ "inputResponses": { "ok": { "action": "accept" } }, "requestState": state });
    let mallory = call(addr, "mallory", next.clone()).await;
    assert_eq!(mallory["error"]["code"], -32602, "{mallory}");
    let alice = call(addr, "alice", next).await;
    assert_eq!(alice["result"]["content"][0]["text"], "alice", "{alice}");

    shutdown.cancel();
    serving.await.unwrap().unwrap();
}
